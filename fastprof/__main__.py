"""The program: ``fastprof``, and ``python -m fastprof``."""

import os
import sys


def entry() -> int:
    """Run the console script. The version, and a command that runs in a helper, take no import of the command line."""
    if sys.argv[1:] == ["--version"] and _write_version():
        return 0
    from fastprof.cli.warm_client import run_in_helper

    if (code := run_in_helper(sys.argv[1:])) is not None:
        return code
    from fastprof.cli.main import entry as run_command

    return run_command()


def _write_version() -> bool:
    """Write the version, and return whether that worked: the command line explains why not."""
    from fastprof._version import __version__

    try:
        return sys.stdout is not None and os.write(sys.stdout.fileno(), f"fastprof {__version__}\n".encode()) > 0
    except (OSError, ValueError):
        return False


if __name__ == "__main__":
    sys.exit(entry())
