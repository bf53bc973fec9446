"""What a check of the data reports, and the words for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Grade = Literal["error", "warning", "note"]
GRADES: tuple[Grade, ...] = ("error", "warning", "note")


@dataclass(frozen=True)
class Finding:
    """One thing worth knowing about a dataset.

    An error makes training or evaluation meaningless, a warning probably makes it worse than it should be, and
    a note is only good to know.
    """

    grade: Grade
    check: str  # the name of the check, as in `checks.CHECKS`
    field: str | None  # the field concerned, None: the dataset as a whole
    row: int | None  # the first row concerned
    message: str  # one sentence for a person

    def __str__(self) -> str:
        return f"{self.grade}: {self.message}"


def counted(number: int, noun: str) -> str:
    """`1 row`, `2,000 rows`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
