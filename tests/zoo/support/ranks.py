# SPDX-License-Identifier: Apache-2.0
"""Starts a program of the zoo as a job of two ranks."""

import os
import subprocess
import sys


def run_two(work):
    """Calls work(rank) in two processes; each rank is told by its environment, as torchrun does."""
    if "LOCAL_RANK" in os.environ:
        work(int(os.environ["LOCAL_RANK"]))
        return
    ranks = [subprocess.Popen([sys.executable, *sys.argv], env={
        **os.environ, "LOCAL_RANK": rank, "RANK": rank, "WORLD_SIZE": "2"}) for rank in "01"]
    sys.exit(max(rank.wait() for rank in ranks))
