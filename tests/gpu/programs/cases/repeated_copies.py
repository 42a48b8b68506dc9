# SPDX-License-Identifier: Apache-2.0
"""A constant table goes to the GPU in every round; the clean twin sends each round's own batch.

recorded with: GPUMEMTRACE_HASH_COPIES=1
"""

import sys

import torch

table = torch.arange(1 << 20, dtype=torch.float32).pin_memory()
total = torch.zeros((), device="cuda")
for number in range(20):
    if sys.argv[1] == "clean":
        table += 1
    total += table.to("cuda", non_blocking=True).mean()  # fault: repeated_copies warning
    torch.cuda.synchronize()
print(f"sum {total.item():.1f}")
