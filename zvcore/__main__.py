"""`python -m zvcore` is the `zvcore` command."""

import sys

from zvcore.commands.cli import main

if __name__ == "__main__":
    sys.exit(main())
