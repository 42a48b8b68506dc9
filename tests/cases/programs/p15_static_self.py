# SPDX-License-Identifier: Apache-2.0
"""Cross-validation of a surrogate model in JAX: one object for each fold, which holds the fold's data on the GPU and
has a compiled method. usage: p15_static_self.py [clean]"""
import functools
import gc
import json
import os
import sys
import weakref

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
os.environ.setdefault("XLA_PYTHON_CLIENT_ALLOCATOR", "cuda_async")
try:
    import jax
    import jax.numpy as jnp
    import numpy as np
except Exception as error:
    print(f"MISSING {type(error).__name__}: {error}", flush=True)
    sys.exit(77)

FOLDS, ROWS, FEATURES, HIDDEN, BATCH, STEPS = 10, 16384, 1024, 256, 1024, 8


def loss_of(params, inputs, targets):
    hidden = jnp.tanh(inputs @ params["first"])
    return jnp.mean((hidden @ params["second"] - targets) ** 2)


def descend(params, inputs, targets, rate):
    gradient = jax.grad(loss_of)(params, inputs, targets)
    return jax.tree_util.tree_map(lambda p, g: p - rate * g, params, gradient)


compiled_descend = jax.jit(descend, static_argnames="rate")


class Surrogate:
    def __init__(self, fold, rate, clean):
        random = np.random.default_rng(fold)
        self.rate, self.clean = rate, clean
        self.inputs = jax.device_put(random.random((ROWS, FEATURES), dtype=np.float32))  #!ALLOC
        self.targets = jax.device_put(random.random((ROWS, 1), dtype=np.float32))
        self.params = {
            "first": jax.device_put(0.03 * random.standard_normal((FEATURES, HIDDEN), dtype=np.float32)),
            "second": jax.device_put(0.03 * random.standard_normal((HIDDEN, 1), dtype=np.float32)),
        }

    @functools.partial(jax.jit, static_argnums=0)  #!FAULT
    def step(self, params, inputs, targets):
        return descend(params, inputs, targets, self.rate)

    def fit(self):
        for index in range(STEPS):
            first = index * BATCH
            inputs, targets = self.inputs[first:first + BATCH], self.targets[first:first + BATCH]
            if self.clean:
                self.params = compiled_descend(self.params, inputs, targets, rate=self.rate)
            else:
                self.params = self.step(self.params, inputs, targets)
        return float(loss_of(self.params, self.inputs[-BATCH:], self.targets[-BATCH:]))

    def nbytes(self):
        return self.inputs.nbytes + self.targets.nbytes + sum(p.nbytes for p in self.params.values())


def run_fold(fold, clean):
    surrogate = Surrogate(fold, 1e-2, clean)
    score = surrogate.fit()
    return score, surrogate.nbytes(), weakref.ref(surrogate)


def device_statistics():
    try:
        stats = jax.local_devices()[0].memory_stats() or {}
    except Exception:
        stats = {}
    return {k: stats[k] for k in ("bytes_in_use", "peak_bytes_in_use") if k in stats}


def main():
    clean = "clean" in sys.argv[1:]
    if jax.local_devices()[0].platform != "gpu":
        print("MISSING jax sees no GPU", flush=True)
        sys.exit(77)
    scores, sizes, alive, live_bytes = [], [], [], []
    for fold in range(FOLDS):
        score, size, reference = run_fold(fold, clean)
        scores.append(score)
        sizes.append(size)
        alive.append(reference)
        gc.collect()
        live_bytes.append(sum(array.nbytes for array in jax.live_arrays()))
    kept = sum(reference() is not None for reference in alive)
    truth = {
        "case": "p15", "mode": "clean" if clean else "faulty", "folds": FOLDS,
        "allocator": os.environ["XLA_PYTHON_CLIENT_ALLOCATOR"],
        "bytes_of_a_fold": sizes[0], "objects_still_alive": kept, "held_bytes": kept * sizes[0],
        "live_arrays_after_first_fold_bytes": live_bytes[0], "live_arrays_at_end_bytes": live_bytes[-1],
        "device_statistics_approx": device_statistics().get("bytes_in_use"),
        "score_approx": round(sum(scores), 2),
    }
    print("TRUTH " + json.dumps(truth), flush=True)


if __name__ == "__main__":
    main()
