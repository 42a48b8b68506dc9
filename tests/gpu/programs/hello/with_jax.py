# SPDX-License-Identifier: Apache-2.0
"""JAX: a compiled product."""

import jax
import jax.numpy as jnp

from endings import end

matrix = jnp.ones((512, 512))
product = jax.jit(lambda x: x @ x)(matrix)

end(lambda: print(f"sum {float(product.sum()):.0f}"))
