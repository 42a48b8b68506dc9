# SPDX-License-Identifier: Apache-2.0
"""counted_calls.py LIBRARY KIND COUNT: the calls of counted_calls.cpp under 30 Python frames."""

import ctypes
import sys

FRAMES = 30


def below(levels, function, kind, count):
    if levels == 0:
        return function(kind, count)
    return below(levels - 1, function, kind, count)


if __name__ == "__main__":
    library = ctypes.CDLL(sys.argv[1])
    # This module is a frame, too.
    sys.exit(below(FRAMES - 2, library.counted_calls, sys.argv[2].encode(), int(sys.argv[3])))
