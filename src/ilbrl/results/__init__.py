"""What a run folder holds: the types that the study writes and the report reads.

schema    the records of every JSON file
tables    the rows of every CSV file, and the candidates they add up to
folder    a whole run folder, read as far as it goes
vouching  whether its files are what the study wrote
"""

from ilbrl.results.folder import Run, read_run, read_runs

__all__ = ["Run", "read_run", "read_runs"]
