# SPDX-License-Identifier: Apache-2.0
"""Each round's model has layers that know their parent: it lives on until the collector runs.

The clean twin refers to the parent weakly. Both collect after every tenth round, as training
programs do that switch the automatic collections off.
"""

import gc
import sys
import weakref

import torch

ROUNDS = 60
ROUNDS_PER_COLLECTION = 10


class Layer:
    def __init__(self, parent):
        self.weight = torch.zeros(2 << 20, dtype=torch.uint8, device="cuda")  # fault: reference_cycles warning
        self.parent = parent if sys.argv[1] == "faulty" else weakref.ref(parent)


class Model:
    def __init__(self):
        self.layers = [Layer(self) for _ in range(4)]


gc.disable()
for number in range(ROUNDS):
    model = Model()
    if number % ROUNDS_PER_COLLECTION == ROUNDS_PER_COLLECTION - 1:
        gc.collect()
del model
gc.collect()
print(f"{torch.cuda.max_memory_allocated()} bytes at the peak")
