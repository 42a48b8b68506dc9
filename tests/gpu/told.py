# SPDX-License-Identifier: Apache-2.0
"""A trace's records of PyTorch's blocks, for programs that compare them with PyTorch."""

import json
import re
import subprocess

TIMEOUT_S = 240


def ask(tool, *arguments):
    """The output of `gpumemtrace`; raises if it fails."""
    return subprocess.run([tool, *map(str, arguments)], capture_output=True, text=True,
                          timeout=TIMEOUT_S, check=True).stdout


def blocks_handed_out(tool, trace):
    """[{name of a field: its text}] of the blocks that the allocator handed out, in order."""
    blocks = [dict(re.findall(r"(\w+)=(\S+)", line))
              for line in ask(tool, "dump", trace, "--kind", "block").splitlines()]
    return [block for block in blocks if int(block.get("bytes", 0)) > 0]


def what_if(tool, trace, settings):
    """The row of what_if[] of the only device, with these settings beside the recorded ones."""
    arguments = [word for setting in settings for word in ("--setting", setting)]
    (device,) = json.loads(ask(tool, "whatif", trace, "--json", *arguments))["what_if"]
    return device
