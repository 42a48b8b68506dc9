# SPDX-License-Identifier: Apache-2.0
"""`gpumemtrace whatif --fit`: what another batch size takes, from runs of two, on programs that say
themselves how much they hold at a batch size.

GPUMEMTRACE_PROGRAM names the program; library and simulated driver lie beside it in the build.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

PROGRAM = os.environ["GPUMEMTRACE_PROGRAM"]
TESTS = pathlib.Path(__file__).resolve().parents[1]
TIMEOUT_S = 300
KIBIBYTE = 1 << 10
MEBIBYTE = 1 << 20

# A training of four layers in PyTorch's manner: weights and a workspace do not depend on the batch
# size, activations do. `python3 train.py BATCH KIND`
TRAIN = """
import os, sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "site-packages"))
import zoo_cuda
batch, kind = int(sys.argv[1]), sys.argv[2]
torch = zoo_cuda.Allocator(zoo_cuda.Cuda())
KIB = zoo_cuda.KIB

def weights():
    return torch.allocate(3000 * KIB)

def activation():
    return torch.allocate(batch * 96 * KIB)

def attention():
    return torch.allocate(batch * 40 * KIB)

def workspace():
    return torch.allocate(1500 * KIB)

def pairs():
    return torch.allocate(batch * batch * 8 * KIB)

def chosen():
    return torch.allocate((64 - batch) * 64 * KIB)

held = [weights() for _ in range(4)]
for step in range(2):
    live = []
    for layer in range(4 + (batch // 8 if kind == "deeper" else 0)):
        live += [activation(), attention()]
    if kind == "pairs":
        live.append(pairs())
    if kind == "falls":
        live.append(chosen())
    live.append(workspace())
    while live:
        torch.free(live.pop())
if kind == "refused":
    try:
        torch.allocate(1 << 50)
    except MemoryError:
        pass
"""


def truth(batch):
    return (4 * 3000 + 1500 + 4 * batch * (96 + 40)) * KIBIBYTE


class WhatIfFit(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        temporary = tempfile.TemporaryDirectory(prefix="gpumemtrace-")
        cls.addClassCleanup(temporary.cleanup)
        cls.folder = pathlib.Path(temporary.name)
        packages = cls.folder / "site-packages"  # whose frames are not the program's own
        packages.mkdir()
        for module in (TESTS / "simulated_cuda" / "simcuda.py",
                       TESTS / "zoo" / "support" / "zoo_cuda.py"):
            (packages / module.name).write_text(module.read_text())
        (cls.folder / "train.py").write_text(TRAIN)
        (cls.folder / "infer.py").write_text(TRAIN)

    def call(self, *arguments):
        return subprocess.run([PROGRAM, *map(str, arguments)], cwd=self.folder,
                              capture_output=True, text=True, timeout=TIMEOUT_S, check=False)

    def record(self, batch, kind="plain", program="train.py"):
        """INPUT of the run, recorded once."""
        trace = f"{program}.{kind}.{batch}.gmt"
        if not (self.folder / trace).exists():
            done = self.call("run", "--simulate", "-o", trace, "--", sys.executable, program, batch,
                             kind)
            self.assertEqual(done.returncode, 0, done.stderr)
        return f"{trace}={batch}"

    def fit(self, *arguments):
        done = self.call("whatif", "--fit", *arguments, "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)["fit"]

    def refuse(self, word, *arguments, code=1):
        done = self.call("whatif", *arguments)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        self.assertIn(word, done.stderr)

    def test_two_runs_predict_others_to_the_byte(self):
        batches = (8, 32, 100)
        asked = [word for batch in batches for word in ("--batch", batch)]
        for pair in ((16, 24), (24, 16)):  # either may come first
            fit = self.fit(*(self.record(batch) for batch in pair), *asked)
            self.assertEqual(fit["basis"], "arithmetic")
            self.assertIsNone(fit["reason"])
            self.assertEqual(fit["checks"], [])
            self.assertEqual([run["allocated_peak_bytes"] for run in fit["runs"]],
                             [truth(batch) for batch in pair])
            self.assertEqual([row["allocated_peak_bytes"] for row in fit["predictions"]],
                             [truth(batch) for batch in batches])

    def test_each_call_site_is_a_line(self):
        fit = self.fit(self.record(16), self.record(24))
        lines = {row["site"].split()[-1]: row for row in fit["lines"]}
        self.assertEqual({name: (row["constant_bytes"], row["bytes_per_item"])
                          for name, row in lines.items()},
                         {"weights": (4 * 3000 * KIBIBYTE, 0), "workspace": (1500 * KIBIBYTE, 0),
                          "activation": (0, 4 * 96 * KIBIBYTE),
                          "attention": (0, 4 * 40 * KIBIBYTE)})
        self.assertEqual(lines["activation"]["counts"], [4, 4])
        self.assertEqual({row["shape"] for row in fit["lines"]}, {"line"})
        for i, batch in enumerate((16, 24)):
            self.assertEqual(sum(row["bytes"][i] for row in fit["lines"]), truth(batch))

    def test_a_third_run_checks_it(self):
        fit = self.fit(self.record(16), self.record(24), self.record(32))
        self.assertEqual(fit["basis"], "checked")
        self.assertEqual(fit["checks"], [{
            "batch": 32, "predicted_bytes": truth(32), "recorded_bytes": truth(32),
            "deviation_bytes": 0, "deviation_percent": 0}])

    def test_what_was_reserved_lies_in_the_range(self):
        fit = self.fit(self.record(16), self.record(24), "--batch", 32)
        real = self.fit(self.record(32), self.record(16))["runs"][0]
        (row,) = fit["predictions"]
        self.assertGreaterEqual(real["reserved_peak_bytes"], row["reserved_low_bytes"])
        self.assertLessEqual(real["reserved_peak_bytes"], row["reserved_high_bytes"])

    def test_the_largest_batch_fits_and_one_more_does_not(self):
        capacity = 4 << 30
        fit = self.fit(self.record(16), self.record(24), "--capacity", capacity)
        card = next(row for row in fit["cards"] if row["capacity_bytes"] == capacity)
        other = max(run["other_bytes"] for run in fit["runs"])
        sizes = ("--batch", card["batch"], "--batch", card["batch"] + 1)
        most, more = self.fit(self.record(16), self.record(24), *sizes)["predictions"]
        self.assertEqual(card["margin_bytes"], capacity - other - most["reserved_high_bytes"])
        self.assertGreaterEqual(card["margin_bytes"], 0)
        self.assertGreater(more["reserved_high_bytes"] + other, capacity)
        small = self.fit(self.record(16), self.record(24), "--capacity", MEBIBYTE)["cards"][-1]
        self.assertEqual((small["batch"], small["margin_bytes"]), (0, None))

    def test_a_run_off_the_lines_leaves_no_prediction(self):
        # More layers at the third batch size than at the first two.
        fit = self.fit(self.record(16), self.record(24), self.record(32, "deeper"),
                       "--batch", 48)
        self.assertEqual(fit["basis"], "arithmetic")
        self.assertIn("the run of batch 32 deviates by", fit["reason"])
        self.assertGreater(fit["checks"][0]["deviation_percent"], 5)
        self.assertIsNone(fit["predictions"][0]["allocated_peak_bytes"])
        self.assertEqual({row["batch"] for row in fit["cards"]}, {None})

    def test_what_is_no_line_is_refused_with_its_site(self):
        for kind, words in (("pairs", "in pairs grows faster than the batch size"),
                            ("deeper", "in activation holds another number of blocks"),
                            ("falls", "in chosen holds less at the larger batch size")):
            with self.subTest(kind):
                self.refuse(words, "--fit", self.record(16, kind), self.record(24, kind))

    def test_runs_that_cannot_be_compared_are_refused(self):
        one, two = self.record(16), self.record(24)
        self.refuse("another program: train.py in BASE, infer.py in NEW", "--fit", one,
                    self.record(24, program="infer.py"))
        self.refuse("nothing that is held at the peaks depends on the batch size", "--fit", one,
                    one.replace("=16", "=24"))
        self.refuse("was refused memory", "--fit", one, self.record(24, "refused"))
        whole = (self.folder / two.split("=")[0]).read_bytes()
        (self.folder / "cut.gmt").write_bytes(whole[:len(whole) * 3 // 4])
        self.refuse("misses events", "--fit", one, "cut.gmt=24")

    def test_wrong_usage_is_said(self):
        one, two = self.record(16), self.record(24)
        for word, arguments in (
                ("both runs have the batch size 16", ("--fit", one, one)),
                ("--fit needs two runs", ("--fit", one)),
                ("has no batch size", ("--fit", one, two.split("=")[0])),
                ("is no batch size", ("--fit", one, two + "x")),
                ("is no batch size", ("--fit", one, two, "--batch", "0")),
                ("--redact", ("--fit", one, two, "--redact")),
                ("--setting", ("--fit", one, two, "--setting", "max_split_size_mb:32")),
                ("--fit", (one.split("=")[0], "--batch", "32"))):
            self.refuse(word, *arguments, code=2)

    def test_text_is_no_wider_than_a_terminal(self):
        for third, *words in (((), "a third one checks it", "Batch 48: allocated 38.7 MiB"),
                              ((self.record(32),), "basis: checked", "+0 bytes (+0.00 %)",
                               "Batch sizes beyond 64, twice the largest recorded"),
                              ((self.record(32, "deeper"),), "+17,825,792 bytes (+36.03 %)",
                               "Batch 48: not known", "Largest batch by card: not known")):
            done = self.call("whatif", "--fit", self.record(16), self.record(24), *third, "--batch",
                             "48")
            self.assertEqual(done.returncode, 0, done.stderr)
            for word in words:
                self.assertIn(word, done.stdout)
            for line in done.stdout.splitlines():
                self.assertLessEqual(len(line), 80, line)
                self.assertEqual(line, line.rstrip())


if __name__ == "__main__":
    unittest.main()
