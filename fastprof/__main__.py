"""``python -m fastprof``."""

import sys

from fastprof.cli.main import entry

if __name__ == "__main__":
    sys.exit(entry())
