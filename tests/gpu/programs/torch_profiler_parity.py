# SPDX-License-Identifier: Apache-2.0
"""torch.profiler's own view of a training loop, for a comparison with and without the recorder.

Prints one JSON object: for each profiler session how many events of each kind its trace has, and
how many copies and sets with how many bytes. Run it alone and under the recorder; the sessions must
be the same. `torch_profiler_parity.py --compare ALONE RECORDED` says so.

--sessions N    profiler sessions, each around 3 steps (default 3), with steps between them
--teardown      with Kineto's TEARDOWN_CUPTI=1: it calls cuptiFinalize after each session
--schedule      one profiler with a schedule (wait, warm up, active, repeat) instead
--kinds cuda    the profiler's activities: cuda alone, or cuda,cpu (default)
"""

import argparse
import collections
import json
import os
import sys
import tempfile
import warnings

STEPS = 3
# CUPTI's own overhead depends on its buffers.
NOT_COMPARED = ("overhead",)
GPU_CATEGORIES = ("kernel", "gpu_memcpy", "gpu_memset", "cuda_runtime", "cuda_driver", "overhead",
                  "cuda_sync", "ac2g")


def parse_arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--sessions", type=int, default=3)
    parser.add_argument("--teardown", action="store_true")
    parser.add_argument("--schedule", action="store_true")
    parser.add_argument("--kinds", default="cuda,cpu")
    parser.add_argument("--compare", nargs=2, metavar=("ALONE", "RECORDED"))
    return parser.parse_args()


def compare(alone_file, recorded_file):
    """0 if both saw the same; says each difference."""
    with open(alone_file) as alone, open(recorded_file) as recorded:
        alone = json.loads(alone.read().splitlines()[-1])
        recorded = json.loads(recorded.read().splitlines()[-1])
    same = True
    for number, (one, other) in enumerate(zip(alone["sessions"], recorded["sessions"])):
        for name in sorted(set(one) | set(other)):
            if one.get(name) == other.get(name) or name in NOT_COMPARED:
                continue
            same = False
            print(f"session {number}: {name}: alone {one.get(name)}, recorded {other.get(name)}")
    if len(alone["sessions"]) != len(recorded["sessions"]):
        same = False
        print(f"sessions: {len(alone['sessions'])} and {len(recorded['sessions'])}")
    print("same" if same else "different", json.dumps(alone["sessions"][0]))
    return 0 if same else 1


def summary_of(trace_file):
    """Counts of a Chrome trace's GPU events by category and, of copies and sets, by name."""
    with open(trace_file) as file:
        events = json.load(file)["traceEvents"]
    summary = collections.Counter()
    for event in events:
        category = event.get("cat")
        if category not in GPU_CATEGORIES or event.get("ph") not in ("X", "s"):
            continue
        summary[category] += 1
        if category in ("gpu_memcpy", "gpu_memset"):
            summary[event["name"]] += 1
            summary[event["name"] + " bytes"] += event["args"].get("bytes", 0)
    return dict(summary)


class Training:
    def __init__(self, torch):
        self.torch = torch
        torch.manual_seed(0)
        self.model = torch.nn.Sequential(
            torch.nn.Linear(512, 1024), torch.nn.GELU(), torch.nn.Linear(1024, 512)).cuda()
        self.optimizer = torch.optim.Adam(self.model.parameters())
        self.host = torch.randn(256, 512)
        self.pinned = torch.randn(256, 512).pin_memory()

    def step(self):
        torch = self.torch
        for source in (self.host.cuda(), self.pinned.to("cuda", non_blocking=True)):
            loss = self.model(source).square().mean()
            self.optimizer.zero_grad(set_to_none=True)
            loss.backward()
            self.optimizer.step()
        torch.zeros(1 << 20, device="cuda")
        loss.item()


def profile_sessions(torch, training, activities, sessions, folder):
    summaries = []
    for number in range(sessions):
        training.step()
        with torch.profiler.profile(activities=activities) as profiler:
            for _ in range(STEPS):
                training.step()
        training.step()
        path = os.path.join(folder, f"{number}.json")
        profiler.export_chrome_trace(path)
        summaries.append(summary_of(path))
    return summaries


def profile_by_schedule(torch, training, activities, sessions, folder):
    summaries = []

    def ready(profiler):
        path = os.path.join(folder, f"{len(summaries)}.json")
        profiler.export_chrome_trace(path)
        summaries.append(summary_of(path))

    plan = torch.profiler.schedule(wait=1, warmup=1, active=STEPS, repeat=sessions)
    with torch.profiler.profile(
            activities=activities, schedule=plan, on_trace_ready=ready) as profiler:
        for _ in range(sessions * (2 + STEPS)):
            training.step()
            profiler.step()
    return summaries


def main():
    arguments = parse_arguments()
    if arguments.compare:
        return compare(*arguments.compare)
    if arguments.teardown:
        os.environ["TEARDOWN_CUPTI"] = "1"
    import torch

    kinds = {"cuda": torch.profiler.ProfilerActivity.CUDA,
             "cpu": torch.profiler.ProfilerActivity.CPU}
    activities = [kinds[name] for name in arguments.kinds.split(",")]
    training = Training(torch)
    training.step()
    torch.cuda.synchronize()
    profile = profile_by_schedule if arguments.schedule else profile_sessions
    with warnings.catch_warnings(record=True) as caught, tempfile.TemporaryDirectory() as folder:
        warnings.simplefilter("always")
        summaries = profile(torch, training, activities, arguments.sessions, folder)
    print(json.dumps({"sessions": summaries, "warnings": [str(one.message) for one in caught]}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
