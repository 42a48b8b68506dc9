# SPDX-License-Identifier: Apache-2.0
"""Does what standard input says, a line at a time, and answers each with `done`.

`alloc N` allocates N blocks, and frees them again.
"""

import sys

import simcuda

cuda = simcuda.Context()
print("ready", flush=True)
for line in sys.stdin:
    for _ in range(int(line.split()[1])):
        cuda.free(cuda.alloc(4096))
    print("done", flush=True)
