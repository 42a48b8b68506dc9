# SPDX-License-Identifier: Apache-2.0
"""Registration of pairs of images of various sizes with CuPy: phase correlation by Fourier transforms. After each pair
everything is let go and the memory pool is emptied. usage: p16_fft_plans.py [clean]"""
import gc
import json
import sys

try:
    import cupy as cp
    import numpy as np
    from cupy.fft.config import get_plan_cache
except Exception as error:
    print(f"MISSING {type(error).__name__}: {error}", flush=True)
    sys.exit(77)

EDGES = [3001, 3011, 3019, 3023, 3037, 3041, 3049, 3061, 3067, 3079, 3083, 3089]


class Scene:
    """A synthetic image and the same image, moved."""

    def __init__(self, edge, shift):
        rows = np.arange(edge, dtype=np.float32)
        wave = np.sin(rows * 0.05)[:, None] * np.cos(rows * 0.03)[None, :]
        wave[edge // 3: edge // 2, edge // 4: edge // 3] += 1.0
        self.fixed = wave.astype(np.float32)
        self.moving = np.roll(self.fixed, shift, axis=(0, 1))


def spectrum(image):
    return cp.fft.fftn(image)  #!FAULT


def correlate(fixed, moving):
    cross = spectrum(fixed) * cp.conj(spectrum(moving))
    cross /= cp.maximum(cp.abs(cross), 1e-6)
    return cp.fft.ifftn(cross)


def displacement(scene):
    fixed, moving = cp.asarray(scene.fixed), cp.asarray(scene.moving)
    peak = int(cp.argmax(cp.abs(correlate(fixed, moving))))
    edge = scene.fixed.shape[0]
    return (-(peak // edge)) % edge, (-(peak % edge)) % edge


def clean_up(pool, plans, clean):
    gc.collect()
    if clean:
        plans.clear()
    pool.free_all_blocks()
    cp.get_default_pinned_memory_pool().free_all_blocks()


def main():
    clean = "clean" in sys.argv[1:]
    pool, plans = cp.get_default_memory_pool(), get_plan_cache()
    found, used, total = 0, [], []
    for number, edge in enumerate(EDGES):
        shift = (5 + number, 11 + 2 * number)
        found += displacement(Scene(edge, shift)) == shift
        clean_up(pool, plans, clean)
        used.append(pool.used_bytes())
        total.append(pool.total_bytes())
    cp.cuda.Device().synchronize()
    truth = {
        "case": "p16", "mode": "clean" if clean else "faulty", "scenes": len(EDGES), "found": found,
        "plans_in_cache": plans.get_curr_size(), "plan_memory_bytes": plans.get_curr_memsize(),
        "used_bytes_after_first_scene": used[0], "used_bytes_at_end": used[-1],
        "pool_bytes_after_first_scene": total[0], "pool_bytes_at_end": total[-1],
    }
    print("TRUTH " + json.dumps(truth), flush=True)


if __name__ == "__main__":
    main()
