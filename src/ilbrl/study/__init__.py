"""Algorithm 2: from logs to a selected policy with no environment in the loop, then one honest evaluation.

study         what decides everything, as dataclasses and as TOML; presets
search        ranges as text, and random search over them
logs          read, examine, split, describe; `known`: the policies of known value, and their own episodes
imagining     imagined steps, for the algorithms that ask for them
training      phase 3, and the labels it shares
evaluation    phases 2 and 4; `estimator`: which one, and what is kept of its answers
selection     which configuration wins, from offline values alone
final         phase 5: the environment, once
outcome       what is left of the candidates: policies, warnings, results.csv; `choices`: the discrete actions they take
run           the phases, one after the other; `tune`: a study by name, changed and run in one call
duration      how long it will take, estimated before it starts
jobs          pure functions addressed by the hash of their inputs; `executors` do them
session       a study at work in its folder; `audit` records what happens there (docs/runs.md)
"""

from ilbrl.study.study import Study

__all__ = ["Study"]
