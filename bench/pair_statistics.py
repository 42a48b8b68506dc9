# SPDX-License-Identifier: Apache-2.0
"""From the turns that processes took to ratios with bounds."""

import math
import random
import statistics

BOOTSTRAP_ROUNDS = 4000
PERCENTILE = 0.95
LARGEST_NULL_BOUND = 1.005
LARGEST_STEP_BOUND = 1.01
LARGEST_CPU_BOUND = 1.02


def ratio_of(turns, plain_turns, measure):
    """The factor by which `measure` is larger in the turns of one process than in those of a plain one.

    Both took a turn in each round, one soon after the other, so that what drifts is in both. The median
    over rounds: what interrupts a turn counts for one of them.
    """
    return statistics.median(turn[measure] / plain[measure]
                             for turn, plain in zip(turns, plain_turns, strict=True))


def middle_of(turn, other):
    """The geometric mean of two turns."""
    return {measure: math.sqrt(turn[measure] * other[measure]) for measure in turn}


def median_of(turns, measure):
    return statistics.median(turn[measure] for turn in turns)


def mean_of(ratios):
    return math.exp(statistics.fmean(math.log(ratio) for ratio in ratios))


def upper_bound_of(ratios, seed=17):
    """The 95th percentile of the mean over pairs of processes that are drawn again and again."""
    generator = random.Random(seed)
    means = sorted(mean_of(generator.choices(ratios, k=len(ratios)))
                   for _ in range(BOOTSTRAP_ROUNDS))
    return means[int(PERCENTILE * BOOTSTRAP_ROUNDS)]


def null_bound_of(ratios):
    """Which of two like processes is the first one is chance: the larger bound of both orders."""
    return max(upper_bound_of(ratios), upper_bound_of([1 / ratio for ratio in ratios]))


def judge(pairs, null_pairs):
    """A form's row from `pairs`, [{"step": ratio, "cpu": ratio}], beside pairs of plain processes."""
    row = {}
    for measure in ("step", "cpu"):
        ratios = [pair[measure] for pair in pairs]
        row[f"{measure}_ratio"] = mean_of(ratios)
        row[f"{measure}_bound"] = upper_bound_of(ratios)
        row[f"{measure}_null_bound"] = null_bound_of([pair[measure] for pair in null_pairs])
    row["is_valid"] = row["step_null_bound"] <= LARGEST_NULL_BOUND
    row["is_reached"] = (row["is_valid"] and row["step_bound"] <= LARGEST_STEP_BOUND
                         and row["cpu_bound"] <= LARGEST_CPU_BOUND)
    return row
