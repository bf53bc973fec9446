"""From recorded results to numbers, tables, pictures and one page: pure functions of run folders (docs/runs.md)."""

from ilbrl.report.page import write_page

__all__ = ["write_page"]
