# SPDX-License-Identifier: Apache-2.0
"""The lines that a new user reads first: of saved traces, all but one of real GPUs, the fault, who holds the memory and what to
change stand in lines 1 to 14 of the summary.

GPUMEMTRACE_PROGRAM names the program. Names of native code come from the saved symbols.json.
"""

import concurrent.futures
import gzip
import json
import os
import pathlib
import re
import subprocess
import tempfile
import unittest

PROGRAM = os.environ["GPUMEMTRACE_PROGRAM"]
DATA = pathlib.Path(__file__).resolve().parents[1] / "data"
SAVED = {path.name: path for source in ("gpu", "simulated") for path in (DATA / source).iterdir()}
TIMEOUT_S = 300
FIRST_LINES = 14
VIOLATED = 23  # the exit code of a limit that does not hold

# Each phrase stands in the first lines, which are joined where they were broken.
EXPECTED = {
    # Out of memory.
    "torch_oom": (
        "1 error", "78.2 GiB of 79.2 GiB", "FAILED 4.0 GiB asked at torch_oom.py:18",
        "LARGEST 77.5 GiB torch_truth.py:152", "Free or avoid at least 3.0 GiB before this request"),
    "case_fragmented_faulty": (
        "1 error", "71.3 GiB of 79.2 GiB", "FAILED 12.4 GiB asked at fragmented.py:18",
        "enough was free, in pieces", "UNUSABLE 28.3 GiB",
        "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"),
    "case_batch_size_finder_faulty": (
        "1 warning", "64.5 GiB of 79.2 GiB", "FAILED 128.0 GiB asked at batch_size_finder.py:14",
        "the program went on", "Ask for less at batch_size_finder.py:14"),
    # Leaks of C++ programs.
    "leaks": ("1 error", "LEAKED 6.0 MiB 20 allocations never freed", "40 of 60 were freed", "path that skips cudaFree"),
    "case_cache_never_cleared_faulty": (
        "1 error", "LEAKED 24.0 MiB 6 allocations never freed", "cache_never_cleared.cu:20",
        "24.0 MiB leaked at cache_never_cleared.cu:20"),
    "case_leak_on_error_faulty": (
        "1 error", "LEAKED 6.0 MiB 6 allocations never freed", "leak_on_error.cu:21",
        "6.0 MiB leaked at leak_on_error.cu:21"),
    # A server.
    "case_inference_cache_faulty": (
        "1 warning", "19 repetitions of ", "GROWTH 187.4 KiB a repetition inference_cache.py:18",
        "Memory from inference_cache.py:18 (state_of) grew",
        "Something keeps the tensors made here: a list, a dict or an attribute. Store .cpu()"),
    # Trainings.
    "torch_transformer_native": (
        "nothing wrong was found", "890.0 MiB of 79.2 GiB", "LARGEST 612.0 MiB CUDA contexts, code, 69 % of the peak",
        "HEADROOM 78.3 GiB", "Transformer > Block 32.0 MiB"),
    "torch_vision": (
        "nothing wrong was found, 1 hint", "PEAK 940.0 MiB of 139.8 GiB this job on d0",
        "CARD 2.3 GiB with other processes 1.4 GiB", "LARGEST 628.0 MiB CUDA contexts, code",
        "gradients from the step before, made at torch_vision.py:31",
        "optimizer.zero_grad() before the forward pass"),
    "torch_lightning": (
        "nothing wrong was found", "LARGEST 612.0 MiB CUDA contexts, code", "PyTorch allocated: 65.3 MiB"),
    "case_evaluation_with_gradients_faulty": (
        "1 warning", "PEAK 1.9 GiB of 79.2 GiB this job on d0", "LARGEST 862.1 MiB PyTorch's free cache",
        "The forward pass at evaluation_with_gradients.py:41 (evaluate) kept 816.5 MiB",
        "run it under torch.no_grad() or torch.inference_mode()"),
    # Several ranks.
    "torch_ddp": ("2 ranks", "rank 0", "PEAK 1.6 GiB of 139.8 GiB this job on d0", "288.0 MiB 45 % nccl, 48 allocations"),
    # tests/zoo/rank_that_grows.py on four simulated devices of 1 GiB.
    "rank_that_grows": (
        "1 warning", "4 ranks", "436.0 MiB of 1.0 GiB this job on d2",
        "GROWTH 1.0 MiB a repetition rank 2, rank_that_grows.py:18 (features_of)",
        "Something keeps the tensors made here: a list, a dict or an attribute. Store .cpu()"),
    # JAX.
    "jax_train": (
        "nothing wrong was found", "8.5 GiB of 79.2 GiB", "LARGEST 7.9 GiB jax_train.py:27"),
}


def size(number):
    """As every command writes it."""
    if number < 1024:
        return f"{number} byte{'' if number == 1 else 's'}"
    for unit in ("KiB", "MiB", "GiB", "TiB"):
        number /= 1024
        if number < 1023.95:
            break
    return f"{number:.1f} {unit}"


def between(low, high):
    return size(high) if size(low) == size(high) else f"{size(low)} to {size(high)}"


class Summaries(unittest.TestCase):
    def test_the_first_lines_say_what_is_wrong_who_holds_it_and_what_to_do(self):
        for name, phrases in EXPECTED.items():
            with self.subTest(name):
                first = " ".join(" ".join(self.summary(name)[:FIRST_LINES]).split())
                for phrase in phrases:
                    self.assertIn(phrase, first)

    def test_no_summary_is_longer_than_a_screen_or_wider_than_a_terminal(self):
        for name in sorted(SAVED):
            with self.subTest(name):
                lines = self.summary(name)
                self.assertLessEqual(len(lines), 40)
                self.assertFalse([line for line in lines if len(line) > 80])
                self.assertFalse([line for line in lines if line.endswith("...")])

    def test_every_command_shows_the_same_peaks(self):
        names = sorted(SAVED)
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            for name, differences in zip(names, pool.map(self.differences_of_peaks, names)):
                with self.subTest(name):
                    self.assertEqual(differences, [])

    def differences_of_peaks(self, name):
        """The words of summary, page, check and diff on two peaks that are not in the report."""
        with tempfile.TemporaryDirectory(prefix="gpumemtrace-") as folder:
            path = pathlib.Path(folder) / "report.json"
            self.call("analyze", *self.unpack(name, folder), "-o", path)
            report = json.loads(path.read_text())
            summary = self.call("summary", path, "--full").splitlines()
            page = re.search(r'id="head">(.*?)</script>', self.call("report", path, "-o", "-"))[1]
            check = json.loads(self.call("check", path, "--json", "--max-peak", "0", "--max-peak",
                                         "0,scope=card", "--allow-incomplete", code=VIOLATED))
            diff = json.loads(self.call("diff", path, path, "--json"))
        found = []
        devices = {row["id"]: row for row in report["devices"]}
        shown = [row for row in report["card_peaks"] if row["of"] == "job" and row["high_bytes"]]
        for row in shown:
            text = between(row["low_bytes"], row["high_bytes"])
            total = devices[row["device"]]["total_bytes"]
            amount = text if total is None else f"{text} of {size(total)}"
            lines = [line for line in summary if line.startswith("  PEAK ")]
            if f" this job on {row['device']}" in lines[0] and amount not in lines[0]:
                found.append(f"{lines[0]}: {amount}")
        if shown and not any(" this job on " in line for line in summary if "PEAK" in line):
            found.append("no peak of the job in the summary")
        for row in report["card_peaks"]:
            if row["low_bytes"] > row["bytes"] or row["bytes"] > row["high_bytes"]:
                found.append(f"{row['of']}: {row['low_bytes']} {row['bytes']} {row['high_bytes']}")
            if sum(part["bytes"] for part in row["parts"]) != row["bytes"]:
                found.append(f"{row['of']}: parts")
        if json.loads(page)["card_peaks"] != report["card_peaks"]:
            found.append("page")
        peaks = {(row["of"], row["device"]): row for row in report["card_peaks"]}
        judged = {row["subject"]: (row["low_bytes"], row["high_bytes"])
                  for row in check["checks"] if row["name"] == "max-peak"}
        if judged != {f"{of} on {device}": (row["low_bytes"], row["high_bytes"])
                      for (of, device), row in peaks.items()}:
            found.append(f"check: {judged}")
        sections = {section["name"]: {row["name"]: row["base_bytes"] for row in section["rows"]}
                    for section in diff["sections"] if all(
                        row["base_bytes"] == row["new_bytes"] for row in section["rows"])}
        if sections["card_peaks"] != {f"{of} peak on {device}": row["bytes"]
                                      for (of, device), row in peaks.items()}:
            found.append(f"diff: {sections['card_peaks']}")
        highest = max(shown, key=lambda row: row["high_bytes"])
        amount = between(highest["low_bytes"], highest["high_bytes"])
        if diff["in_short"] != f"The job peaks at {amount}, as BASE.":
            found.append(diff["in_short"])
        for line in summary:
            share = re.search(r"^  LARGEST .* (\d+) % of", line)
            if share and int(share[1]) > 100:
                found.append(line)
        return found

    def unpack(self, name, folder):
        """The inputs and options for a saved job, whose traces are written to the folder."""
        for packed in (SAVED[name] / "traces").glob("*.gz"):
            (pathlib.Path(folder) / packed.stem).write_bytes(gzip.decompress(packed.read_bytes()))
        symbols = SAVED[name] / "symbols.json.gz"
        if not symbols.exists():
            return [folder]
        names = pathlib.Path(folder) / "symbols.json"
        names.write_bytes(gzip.decompress(symbols.read_bytes()))
        return [folder, "--symbols", names]

    def call(self, *words, code=0):
        result = subprocess.run([PROGRAM, *words], capture_output=True, text=True,
                                timeout=TIMEOUT_S, check=False)
        self.assertEqual(result.returncode, code, result.stderr)
        return result.stdout

    def summary(self, name):
        with tempfile.TemporaryDirectory(prefix="gpumemtrace-") as folder:
            return self.call("summary", *self.unpack(name, folder)).splitlines()


if __name__ == "__main__":
    unittest.main()
