# SPDX-License-Identifier: Apache-2.0
"""CuPy: an array, a product, a sum."""

import cupy

from endings import end

matrix = cupy.ones((512, 512), dtype=cupy.float32)
product = matrix @ matrix

end(lambda: print(f"sum {float(product.sum()):.0f}"))
