"""The command line: `python -m clematis`, `clematis`."""

import signal
import sys

from ._clematis import run_command_line


def main() -> None:
    """Runs the command line of the engine and exits with its code."""
    # The work is done without the interpreter, which would hear of Ctrl-C only afterwards.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    sys.exit(run_command_line(["clematis", *sys.argv[1:]]))


if __name__ == "__main__":
    main()
