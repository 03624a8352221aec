"""`python -m continuations`: the command line."""

import sys

from continuations.cli import main

if __name__ == "__main__":
    sys.exit(main())
