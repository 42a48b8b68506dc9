# SPDX-License-Identifier: Apache-2.0
"""From windows of steps of two processes that ran side by side to a ratio with a bound."""

import math
import random
import statistics

BOOTSTRAP_ROUNDS = 4000
PERCENTILE = 0.95
LARGEST_NULL_BOUND = 1.005
LARGEST_STEP_BOUND = 1.01
LARGEST_CPU_BOUND = 1.02


def windows_between(windows, begin, end):
    """Those that lie wholly between two times."""
    return [window for window in windows if window["begin"] >= begin and window["end"] <= end]


def ratio_of(first, second, placements, measure):
    """How much larger `measure` is in the windows of the first process than in those of the second.

    `placements` has (which, begin, end): from when to when the first process was on the cores
    number `which`. The two are compared on the same cores, so that cores may differ. None where a
    process has no window on one of them.
    """
    medians = {}
    for cores in (0, 1):
        times = [(begin, end) for which, begin, end in placements if which == cores]
        others = [(begin, end) for which, begin, end in placements if which != cores]
        for name, windows, spans in (("first", first, times), ("second", second, others)):
            found = [window[measure] for begin, end in spans
                     for window in windows_between(windows, begin, end)]
            if not found:
                return None
            medians[name, cores] = statistics.median(found)
    return math.sqrt(medians["first", 0] / medians["second", 0]
                     * medians["first", 1] / medians["second", 1])


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


def judge(recorded, null):
    """The row of a workload: `recorded` and `null` are {"step": [ratio of a pair], "cpu": [...]}."""
    row = {f"{measure}_ratio": mean_of(ratios) for measure, ratios in recorded.items()}
    row |= {f"{measure}_bound": upper_bound_of(ratios) for measure, ratios in recorded.items()}
    row |= {f"{measure}_null_bound": null_bound_of(ratios) for measure, ratios in null.items()}
    row["is_valid"] = row["step_null_bound"] <= LARGEST_NULL_BOUND
    row["is_reached"] = (row["is_valid"] and row["step_bound"] <= LARGEST_STEP_BOUND
                         and row["cpu_bound"] <= LARGEST_CPU_BOUND)
    return row
