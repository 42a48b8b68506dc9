# SPDX-License-Identifier: Apache-2.0
"""A state is parked on the host after each step and fetched back before the next.

The clean twin only saves it.
"""

import sys

import zoo_cuda

STATE_BYTES = 4 * zoo_cuda.MIB

cuda = zoo_cuda.Cuda()
state = cuda.alloc(STATE_BYTES)
parked = cuda.pin(STATE_BYTES)
for step in range(20):
    cuda.copy_down_async(parked, state, STATE_BYTES)  # named
    if sys.argv[1] == "faulty":
        cuda.copy_up_async(state, parked, STATE_BYTES)  # fault: ping_pong warning
cuda.synchronize()
cuda.unpin(parked)
cuda.free(state)
