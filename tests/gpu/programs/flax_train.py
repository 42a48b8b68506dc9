# SPDX-License-Identifier: Apache-2.0
"""Trains a Flax network with Optax while XLA asks the driver for every buffer (`platform`).

Truth: the parameters and the optimizer's state are alive at the end, each in an allocation of its
own.
"""

import os
import sys

os.environ.setdefault("XLA_FLAGS", "--xla_gpu_deterministic_ops=true --xla_gpu_autotune_level=0")
os.environ.setdefault("XLA_PYTHON_CLIENT_ALLOCATOR", "platform")

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import linen

from truth import Truth

STEPS = 10
WIDTH = 256
BATCH = 32


class Network(linen.Module):
    @linen.compact
    def __call__(self, inputs):
        return linen.Dense(1)(jnp.tanh(linen.Dense(WIDTH)(inputs)))


def main():
    network = Network()
    parameters = network.init(jax.random.key(20), jnp.zeros((BATCH, WIDTH)))
    optimizer = optax.adam(1e-3)
    state = optimizer.init(parameters)

    @jax.jit
    def train_step(parameters, state, inputs, targets):
        def loss_of(parameters):
            return jnp.mean((network.apply(parameters, inputs) - targets) ** 2)

        loss, gradients = jax.value_and_grad(loss_of)(parameters)
        updates, state = optimizer.update(gradients, state)
        return loss, optax.apply_updates(parameters, updates), state

    generator = np.random.default_rng(21)
    for step in range(STEPS):
        inputs = jnp.asarray(generator.standard_normal((BATCH, WIDTH), dtype=np.float32))
        targets = jnp.asarray(generator.standard_normal((BATCH, 1), dtype=np.float32))
        loss, parameters, state = train_step(parameters, state, inputs, targets)
        print(f"step {step} loss {float(loss).hex()}")
    jax.block_until_ready((parameters, state))

    alive = sum(int(leaf.nbytes) for leaf in jax.tree.leaves((parameters, state)))
    truth = Truth("flax_train")
    truth.version("jax", jax.__version__)
    truth.check("live arrays are allocations", "usage", alive, "sizes of parameters and optimizer state",
                where={"level": ["driver", "pool"]}, field="live_bytes_at_end", combine="sum",
                relation="at_least", device=0)
    truth.write()
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
