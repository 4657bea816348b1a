"""Where the program is: the innermost line that is neither PyTorch's nor ours."""

from __future__ import annotations

import os
import sys

import torch

_FOLDERS = (os.path.dirname(torch.__file__) + os.sep, os.path.dirname(__file__) + os.sep)


def here() -> tuple[str | None, int]:
    """The file and the line of the program that is running on this thread; (None, 0): there is none."""
    frame = sys._getframe(1)
    while frame is not None:
        if not frame.f_code.co_filename.startswith(_FOLDERS):
            return frame.f_code.co_filename, frame.f_lineno
        frame = frame.f_back
    return None, 0
