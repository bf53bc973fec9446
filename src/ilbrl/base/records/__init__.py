"""Records on disk: dataclasses and NamedTuples to JSON, TOML and CSV and back, checked by their type hints.

Reading is strict or tolerant. Strict: the first thing that does not fit raises an `IlbrlError` that names the file, the
field and the way out. Tolerant (a `note` is given): each such thing is noted in a sentence and left out, so that its
default stands. Damaged and hostile files end in these sentences too, never in a traceback.

JSON is written by programs: strict reading asks for every field, and passes over names that it does not know.
TOML is written by people: a field that is absent keeps its default, and a name that is not known is refused.
CSV has a column per field. Numbers that are not finite are written as null (or an empty cell) and read as None.
"""

from ilbrl.base.records.files import (
    parse_json,
    read_csv,
    read_json,
    read_text,
    read_toml,
    toml_text,
    write_csv,
    write_json,
    write_toml,
)
from ilbrl.base.records.plain import (
    LARGEST_INTEGER,
    Note,
    differences,
    from_json,
    from_json_tolerantly,
    from_table,
    shown,
    to_plain,
)

__all__ = [
    "LARGEST_INTEGER",
    "Note",
    "differences",
    "from_json",
    "from_json_tolerantly",
    "from_table",
    "parse_json",
    "read_csv",
    "read_json",
    "read_text",
    "read_toml",
    "shown",
    "to_plain",
    "toml_text",
    "write_csv",
    "write_json",
    "write_toml",
]
