# SPDX-License-Identifier: Apache-2.0
"""An optimizer in the place where PyTorch has its own: the analyzer knows them by their folder."""


class SGD:
    """gradients: blocks of `allocator`, one a parameter; made in backward."""

    def __init__(self, allocator, gradients):
        self._allocator = allocator
        self._gradients = gradients

    def step(self):
        self._allocator.free(self._allocator.allocate(1 << 20))

    def zero_grad(self, set_to_none=True):
        if set_to_none:
            while self._gradients:
                self._allocator.free(self._gradients.pop())
