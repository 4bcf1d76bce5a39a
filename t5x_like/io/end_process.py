"""Ends a process without taking the interpreter down."""

import atexit
import contextlib
import os
import sys
import threading
from typing import NoReturn


def end_process(code: int = 0) -> NoReturn:
    """Wait for threads, run exit handlers, flush output, and end the process.

    Threads of TensorStore and XLA outlive a run. Before Python 3.14, one that asks for the interpreter while Python
    takes itself down aborts the process (https://github.com/python/cpython/issues/87135).

    Args:
      code: Exit code of the process.
    """
    # As at Python's own end: first threads, then exit handlers.
    threading._shutdown()  # pyright: ignore[reportAttributeAccessIssue]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):  # closed, or nobody reads it any more
            stream.flush()
    os._exit(code)
