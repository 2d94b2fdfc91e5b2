"""The command line: `python -m clematis`, `clematis`."""

import os
import signal
import sys

from ._clematis import _run_command_line


def main() -> None:
    """Runs the command line of the engine and exits with its code."""
    # tensorflow tells its start-up to everyone.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    # The work is done without the interpreter, which would hear of Ctrl-C only afterwards.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    sys.exit(_run_command_line(["clematis", *sys.argv[1:]]))


if __name__ == "__main__":
    main()
