"""From recorded results to numbers, tables, pictures and one page: pure functions of run folders (docs/runs.md)."""

from ilbrl.report.page import write_page
from ilbrl.report.summary import Summary, summarise

__all__ = ["Summary", "summarise", "write_page"]
