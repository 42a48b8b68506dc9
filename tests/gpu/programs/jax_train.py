# SPDX-License-Identifier: Apache-2.0
"""Trains a small network with JAX; prints the loss of every step as a hex float.

JAX takes its memory from the driver in large pieces and divides it itself, so the truth
is the size of that pool; what lies inside it is told by JAX alone.
"""

import os
import sys

os.environ.setdefault("XLA_FLAGS", "--xla_gpu_deterministic_ops=true --xla_gpu_autotune_level=0")
os.environ.setdefault("XLA_PYTHON_CLIENT_MEM_FRACTION", ".10")

import jax
import jax.numpy as jnp
import numpy as np

from truth import Truth

STEPS = 30
WIDTH = 256
BATCH = 64


def initial_parameters():
    generator = np.random.default_rng(20)
    shapes = ((WIDTH, WIDTH), (WIDTH, WIDTH), (WIDTH, 1))
    return [jnp.asarray(generator.standard_normal(s, dtype=np.float32) * 0.05) for s in shapes]


def loss_of(parameters, inputs, targets):
    hidden = inputs
    for weights in parameters[:-1]:
        hidden = jnp.tanh(hidden @ weights)
    return jnp.mean((hidden @ parameters[-1] - targets) ** 2)


@jax.jit
def train_step(parameters, inputs, targets):
    loss, gradients = jax.value_and_grad(loss_of)(parameters, inputs, targets)
    return loss, [p - 0.05 * g for p, g in zip(parameters, gradients)]


def main():
    if jax.default_backend() != "gpu":
        sys.exit("JAX found no GPU; install the CUDA plug-in of JAX")
    device = jax.devices()[0]
    generator = np.random.default_rng(21)
    parameters = initial_parameters()
    for step in range(STEPS):
        inputs = jnp.asarray(generator.standard_normal((BATCH, WIDTH), dtype=np.float32))
        targets = jnp.asarray(generator.standard_normal((BATCH, 1), dtype=np.float32))
        loss, parameters = train_step(parameters, inputs, targets)
        print(f"step {step} loss {float(loss).hex()}")
    jax.block_until_ready(parameters)

    stats = device.memory_stats() or {}
    truth = Truth("jax_train")
    truth.version("jax", jax.__version__)
    truth.version("gpu", device.device_kind)
    truth.content["jax_memory_stats"] = {key: int(value) for key, value in stats.items()}
    driver_memory = {"level": "driver", "kind": ["device", "vmm"]}
    outside = [{"reason": "outside_the_pool"}]
    if "pool_bytes" in stats:
        truth.check("JAX's pool at the end", "usage", int(stats["pool_bytes"]),
                    "jax memory_stats() pool_bytes", where=driver_memory,
                    field="live_bytes_at_end", device=0, allow=outside)
    if "peak_pool_bytes" in stats:
        truth.check("JAX's pool at its peak", "peak", int(stats["peak_pool_bytes"]),
                    "jax memory_stats() peak_pool_bytes", where={"level": "driver"},
                    field="bytes", device=0, allow=outside)
    truth.check("JAX's memory is named", "owners", 1, "JAX owns the pool",
                where={"level": "driver", "owner": "jax"}, field="bytes_at_peak",
                relation="at_least", device=0)
    truth.write()
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
