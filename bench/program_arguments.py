# SPDX-License-Identifier: Apache-2.0
"""The arguments of the bench programs that are written in Python."""

import argparse
import tempfile
from pathlib import Path


def parse(description, rounds=200):
    parser = argparse.ArgumentParser(description=description,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, required=True)
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()))
    parser.add_argument("--rounds", type=int, default=rounds)
    arguments = parser.parse_args()
    arguments.build = arguments.build.resolve()
    return arguments
