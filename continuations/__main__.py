"""Run the command line: `python -m continuations` is the program `continuations`."""

import sys

from continuations.cli import main

if __name__ == "__main__":
    sys.exit(main())
