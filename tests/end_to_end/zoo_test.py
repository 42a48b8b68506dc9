# SPDX-License-Identifier: Apache-2.0
"""Small programs with one planted fault each, and their clean twins.

tests/zoo/README.md says how a program is written. Every fault is found with its rule and severity
at its line; on the twins nothing is found. Traces that were saved on a GPU have the findings that
their programs deserve.
"""

import gzip
import json
import pathlib
import re
import shutil
import sys

import support

GPU_DATA = pathlib.Path(__file__).resolve().parents[1] / "data" / "gpu"
ZOO = pathlib.Path(__file__).resolve().parents[1] / "zoo"
RUNS = 3  # of each faulty program: the same findings each time
ANALYSES = 5  # of one trace: the same bytes each time

sys.path.insert(0, str(ZOO / "support"))

import faults  # noqa: E402


def programs():
    return sorted(path.stem for path in ZOO.glob("*.py"))


# Rules of severity error and warning on the traces that were saved on a GPU (tests/data/gpu), where
# there are any; their programs leak, run out of memory and copy from pageable memory on purpose.
SAVED = {
    "all_runtime_calls_cupti": {"leak", "out_of_memory"},
    "all_runtime_calls_cupti_full": {"leak", "out_of_memory"},
    "all_runtime_calls_shared": {"leak", "out_of_memory"},
    "all_runtime_calls_shared_per_thread": {"leak", "out_of_memory"},
    "all_runtime_calls_static": {"leak", "out_of_memory"},
    "all_runtime_calls_static_per_thread": {"leak", "out_of_memory"},
    "case_batch_size_finder_faulty": {"out_of_memory"},
    "case_cache_never_cleared_faulty": {"leak"},
    "case_ddp_first_device_faulty": {"wrong_device"},
    "case_evaluation_with_gradients_faulty": {"graph_without_backward"},
    "case_fragmented_faulty": {"fragmentation", "out_of_memory"},
    "case_inference_cache_faulty": {"growth"},
    "case_leak_on_error_faulty": {"leak"},
    "case_reference_cycles_faulty": {"reference_cycles"},
    "case_repeated_copies_faulty": {"repeated_copies"},
    "case_retries_faulty": {"out_of_memory_recovered"},
    "case_unpinned_loader_faulty": {"pageable_copies"},
    "cupti_copies": {"leak", "low_bandwidth", "pageable_copies"},
    "cupti_late": {"leak"},
    "cupy_program": {"pageable_copies"},
    # A program of XLA, with a setting that makes it ask the driver for every buffer.
    "flax_train": {"allocation_churn"},
    "leaks": {"leak"},
    "managed_migrations": {"managed_thrash"},
    "torch_near_full": {"out_of_memory_recovered"},
    "torch_oom": {"out_of_memory"},
}


class Saved(support.EndToEnd):
    def report_of(self, saved):
        folder = self.folder / saved.name
        folder.mkdir()
        for packed in (saved / "traces").glob("*.gz"):
            (folder / packed.stem).write_bytes(gzip.decompress(packed.read_bytes()))
        return support.analyze(folder)

    def test_real_programs_have_the_faults_that_they_have_and_no_others(self):
        programs = sorted(path for path in GPU_DATA.iterdir() if (path / "traces").is_dir())
        self.assertGreaterEqual(len(programs), len(SAVED))
        for saved in programs:
            with self.subTest(saved.name):
                rows = [row for row in self.report_of(saved)["findings"]
                        if row["severity"] != "info"]
                self.assertEqual({row["rule"] for row in rows}, SAVED.get(saved.name, set()), rows)

    def test_item_in_a_loop_waits_although_its_copy_is_asynchronous(self):
        saved = GPU_DATA / "torch_sites"
        for packed in [*(saved / "traces").glob("*.gz"), saved / "symbols.json.gz"]:
            (self.folder / packed.stem).write_bytes(gzip.decompress(packed.read_bytes()))
        result = self.run_command(
            [support.TOOL, "analyze", next(self.folder.glob("*.gmt")), "--symbols",
             self.folder / "symbols.json", "--threshold", "synchronous_copies.count=8"],
            support.base_environment())
        found = [row for row in json.loads(result.stdout)["findings"]
                 if row["rule"] == "synchronous_copies"]
        self.assertEqual([(row["site"]["line"], row["evidence"]["count"]) for row in found], [(92, 8)])
        self.assertIn(".item()", found[0]["fix"])

    def test_out_of_memory_names_who_held_the_memory_outside_pytorch(self):
        finding = self.report_of(GPU_DATA / "torch_oom")["findings"][0]
        self.assertEqual(finding["bytes"], 4 << 30)
        self.assertEqual(finding["site"]["line"], 18)
        self.assertEqual(finding["evidence"]["ledger"]["allocated_by_pytorch"], 64 << 20)
        self.assertIn("the 77.5 GiB of the program outside PyTorch", finding["fix"])


    def test_churn_under_xla_names_the_setting_that_makes_it(self):
        finding = self.report_of(GPU_DATA / "flax_train")["findings"][0]
        self.assertEqual((finding["rule"], finding["owner"]), ("allocation_churn", "jax"))
        self.assertIn("XLA_PYTHON_CLIENT_ALLOCATOR", finding["fix"])

    def test_a_request_for_more_than_the_device_has_is_to_ask_for_less(self):
        finding = self.report_of(GPU_DATA / "case_batch_size_finder_faulty")["findings"][0]
        self.assertIn("Ask for less at batch_size_finder.py:14 (try_batch), at most 78.7 GiB",
                      finding["fix"])

    def test_a_loss_that_is_kept_is_told_apart_from_its_graph(self):
        finding = self.report_of(GPU_DATA / "case_kept_loss_faulty")["findings"][0]
        # 512 bytes a step: the card lasts for 165 million steps.
        self.assertEqual((finding["rule"], finding["severity"]), ("growth", "info"))
        self.assertEqual(finding["evidence"]["other_places_growing"], 0)
        self.assertIn("No graph of autograd is kept", finding["fix"])

    def test_memory_free_in_pieces_is_counted_once(self):
        finding = self.report_of(GPU_DATA / "torch_near_full")["findings"][0]
        self.assertIn("with 1.71 GiB free in PyTorch's cache", finding["detail"])


class Compiled(support.EndToEnd):
    def test_the_faults_of_a_compiled_program_are_found_at_their_lines(self):
        self.record(support.PROGRAMS / "training_like", 200)
        report = self.report()
        found = {row["rule"]: row for row in report["findings"]}
        self.assertEqual(set(found), {"leak", "growth", "synchronous_copies", "allocation_churn"})
        self.assertEqual(found["growth"]["same_cause"], found["leak"]["fingerprint"])
        if found["leak"]["site"]["file"] is None:
            self.skipTest("the programs were built without debug information")
        stack = next(row for row in report["stacks"] if row["id"] == found["leak"]["stack"])
        source = (support.HERE.parent / "programs" / "training_like.cpp").read_text().splitlines()
        frame = next(frame for frame in support.frames_of(report, stack)
                     if "log_metrics" in frame["function"])
        self.assertIn("cuMemAlloc_v2, &metrics.address", source[frame["line"] - 1])
        self.assertEqual(found["leak"]["site"]["function"], "log_metrics")


class Recorded(support.EndToEnd):
    def setUp(self):
        super().setUp()
        self.packages = self.folder / "site-packages"
        shutil.copytree(ZOO / "support", self.packages)
        shutil.copy(support.SIMCUDA / "simcuda.py", self.packages)

    def report_into(self, folder, *command, **variables):
        folder.mkdir()
        self.record(support.PYTHON, *command, GPUMEMTRACE_OUTPUT=f"{folder}/",
                    PYTHONPATH=self.packages, GPUMEMTRACE_SIM_DEVICES=4, **variables)
        return support.analyze(folder)


class LooksSuspicious(Recorded):
    PROGRAMS = ZOO / "clean" / "looks_suspicious.py"

    def test_programs_without_a_fault_get_no_warning(self):
        names = re.findall(r"^@program\ndef (\w+)", self.PROGRAMS.read_text(), re.MULTILINE)
        self.assertGreaterEqual(len(names), 25)
        for name in names:
            with self.subTest(name):
                found = self.report_into(self.folder / name, self.PROGRAMS, name)["findings"]
                self.assertEqual(faults.differences(found, []), [])


class Zoo(Recorded):
    def report_of(self, name, mode, number=0):
        return self.report_into(self.folder / f"{name}-{mode}-{number}", ZOO / f"{name}.py", mode,
                                **faults.environment_of(ZOO / f"{name}.py"))

    def findings(self, name, mode, number=0):
        return self.report_of(name, mode, number)["findings"]

    def test_every_fault_is_found_at_its_line(self):
        for name in programs():
            with self.subTest(name):
                expected = faults.faults_in(ZOO / f"{name}.py")
                self.assertTrue(expected, f"{name}.py marks no fault")
                self.assertEqual(faults.differences(self.findings(name, "faulty"), expected), [])

    def test_the_summary_names_every_line_that_may_have_to_be_edited(self):
        for name in programs():
            with self.subTest(name):
                self.report_of(name, "faulty")
                result = self.run_command([support.TOOL, "summary", self.folder / f"{name}-faulty-0"],
                                          support.base_environment())
                text = result.stdout.decode()
                advice = re.split(r"\n(?:Card d0|Host memory|Leaks) ", text)[0]
                for line in faults.lines_to_name(ZOO / f"{name}.py"):
                    self.assertRegex(advice, rf"\b{name}\.py:{line}\b", text)
                self.assertNotIn("1024.0", text)

    def test_nothing_is_found_on_the_twins(self):
        for name in programs():
            with self.subTest(name):
                self.assertEqual(self.findings(name, "clean"), [])

    def test_a_program_run_again_has_the_same_findings(self):
        for name in programs():
            with self.subTest(name):
                seen = {tuple((row["fingerprint"], row["bytes"], row["evidence"].get("count"))
                              for row in self.findings(name, "faulty", number))
                        for number in range(1, 1 + RUNS)}
                self.assertEqual(len(seen), 1, seen)

    def test_a_trace_analyzed_again_gives_the_same_bytes(self):
        for name in ("wrong_device", "out_of_memory_fragmented"):
            self.report_of(name, "faulty")
            command = [support.TOOL, "analyze", self.folder / f"{name}-faulty-0"]
            outputs = {self.run_command(command, support.base_environment()).stdout
                       for _ in range(ANALYSES)}
            self.assertEqual(len(outputs), 1, name)
            self.assertGreater(len(outputs.pop()), 1000)

    def test_the_fingerprint_is_the_same_when_lines_move(self):
        first = self.findings("leak", "faulty")
        moved = self.folder / "leak.py"
        moved.write_text("# moved\n\n" + (ZOO / "leak.py").read_text())
        folder = self.folder / "moved"
        folder.mkdir()
        self.record(support.PYTHON, moved, "faulty", GPUMEMTRACE_OUTPUT=f"{folder}/",
                    PYTHONPATH=self.packages)
        second = support.analyze(folder)["findings"]
        self.assertEqual(first[0]["fingerprint"], second[0]["fingerprint"])
        self.assertEqual(first[0]["site"]["line"] + 2, second[0]["site"]["line"])
