"""`python -m trainwreck`."""

import sys

from trainwreck.cli import main

if __name__ == "__main__":
    sys.exit(main())
