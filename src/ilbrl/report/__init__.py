"""From recorded results to numbers, tables, pictures and one page: pure functions of run folders (docs/runs.md)."""
