"""``python -m maxmargin``: the command line."""

import sys

from maxmargin.command_line import main

if __name__ == "__main__":
    sys.exit(main())
