"""`python -m ilbrl COMMAND …`: the command line where its script is not on the path."""

import sys

from ilbrl.cli import main

sys.exit(main())
