# SPDX-License-Identifier: Apache-2.0
"""A structure goes up field by field; the clean twin gathers it first."""

import sys

import zoo_cuda

FIELDS = 1500
FIELD_BYTES = 512

cuda = zoo_cuda.Cuda()
table = cuda.alloc(FIELDS * FIELD_BYTES)
fields = cuda.pin(FIELDS * FIELD_BYTES)
if sys.argv[1] == "faulty":
    for field in range(FIELDS):
        place = field * FIELD_BYTES
        cuda.copy_up_async(table + place, fields + place, FIELD_BYTES)  # fault: small_copies warning
else:
    cuda.copy_up_async(table, fields, FIELDS * FIELD_BYTES)
cuda.synchronize()
cuda.unpin(fields)
cuda.free(table)
