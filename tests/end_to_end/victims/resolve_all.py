# SPDX-License-Identifier: Apache-2.0
"""Resolves every function that the driver exports, then allocates and frees once."""

import ctypes
import os
import subprocess

import simcuda

library = os.path.join(os.environ["LD_LIBRARY_PATH"], "libcuda.so.1")
listing = subprocess.run(
    ["readelf", "--wide", "--dyn-syms", library],
    env={**os.environ, "LD_PRELOAD": ""},
    check=True,
    capture_output=True,
    text=True,
).stdout
driver = ctypes.CDLL("libcuda.so.1")
for line in listing.splitlines():
    fields = line.split()
    if len(fields) >= 8 and fields[6] != "UND" and fields[7].startswith("cu"):
        getattr(driver, fields[7].split("@")[0])

with simcuda.Context() as cuda:
    cuda.free(cuda.alloc(4096))
