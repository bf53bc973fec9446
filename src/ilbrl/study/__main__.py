"""`python -m ilbrl.study STUDY.toml RUN`: a study where there is no terminal and no command-line library.

python -m ilbrl.study studies/locomotion-hopper.toml runs/hopper
python -m ilbrl.study --reveal runs/hopper
"""

from __future__ import annotations

import sys
from pathlib import Path

from ilbrl.base.errors import IlbrlError
from ilbrl.study.executors.local import spread_over_cores
from ilbrl.study.run import reveal
from ilbrl.study.study import Study


def main(words: list[str]) -> int:
    if len(words) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    spread_over_cores()
    try:
        if words[0] == "--reveal":
            reveal(Path(words[1]))
            return 0
        return 1 if Study.load(words[0]).run(words[1]).nothing else 0
    except IlbrlError as error:
        print(f"ilbrl.study: {error}", file=sys.stderr)
        return 2
    except OSError as error:  # a full disk, a folder that may not be written
        print(f"ilbrl.study: {error.filename or 'a file'}: {error.strerror or error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f"\nstopped; the same command continues from here: {' '.join(sys.argv)}", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
