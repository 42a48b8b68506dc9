# SPDX-License-Identifier: Apache-2.0
"""Endings of a program: by returning, by os._exit, or with its last work in an atexit handler."""

import atexit
import os
import sys


def end(last_work):
    """Does the last work and ends as the first argument says."""
    ending = sys.argv[1]
    if ending == "atexit":
        atexit.register(last_work)
        return
    last_work()
    if ending == "quick":
        sys.stdout.flush()
        os._exit(0)
