# SPDX-License-Identifier: Apache-2.0
"""Copies that send the same bytes, nearly the same, and what cannot be read.

Prints the name of each copy that succeeds, in order, and what the driver said to the last one.
"""

import ctypes

import simcuda

SIZE = 100_001  # several pieces of what the recorder reads at a time, and a rest


def changed(data, place):
    return data[:place] + bytes([data[place] ^ 1]) + data[place + 1:]


data = bytes(range(256)) * (SIZE // 256) + bytes(SIZE % 256)
assert len(data) == SIZE
copies = {
    "first": data,
    "again": bytes(bytearray(data)),
    "other_begin": changed(data, 0),
    "other_piece": changed(data, 16384),
    "other_end": changed(data, SIZE - 1),
    "shorter": data[:-1],
    "zeros": bytes(1000),
    "more_zeros": bytes(1001),
}
with simcuda.Context() as cuda:
    address = cuda.alloc(SIZE)
    for name, content in copies.items():
        cuda.copy_to_device(address, content)
        print(name)
    cuda.copy_to_host(address, 100)
    print("down")
    driver = ctypes.CDLL("libcuda.so.1")
    print(driver.cuMemcpyHtoD_v2(ctypes.c_uint64(0xdead0000), ctypes.c_void_p(0x1000),
                                 ctypes.c_size_t(SIZE)))
    cuda.free(address)
