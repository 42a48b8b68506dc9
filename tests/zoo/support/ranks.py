# SPDX-License-Identifier: Apache-2.0
"""Starts a program of the zoo as a job of several ranks."""

import os
import subprocess
import sys


def run(count, work):
    """Calls work(rank) in so many processes; each rank is told by its environment, as torchrun does."""
    if "LOCAL_RANK" in os.environ:
        work(int(os.environ["LOCAL_RANK"]))
        return
    ranks = [subprocess.Popen([sys.executable, *sys.argv], env={
        **os.environ, "LOCAL_RANK": str(rank), "RANK": str(rank), "WORLD_SIZE": str(count)})
             for rank in range(count)]
    sys.exit(max(rank.wait() for rank in ranks))
