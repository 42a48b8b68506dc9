# SPDX-License-Identifier: Apache-2.0
"""A model whose layers know their parent: each round's model lives on until the collector runs.

The clean twin refers to the parent weakly. Both collect after every tenth round, as training
programs do that switch the automatic collections off.
"""

import gc
import sys
import weakref

import zoo_cuda

ROUNDS = 60
ROUNDS_PER_COLLECTION = 10

cuda = zoo_cuda.Cuda()
torch = zoo_cuda.Allocator(cuda)


class Layer:
    def __init__(self, parent):
        self.weight = torch.allocate(2 * zoo_cuda.MIB)  # fault: reference_cycles warning
        self.parent = parent if sys.argv[1] == "faulty" else weakref.ref(parent)

    def __del__(self):
        torch.free(self.weight)


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
torch.empty_cache()
