# SPDX-License-Identifier: Apache-2.0
"""Snapshots of PyTorch's allocator where a trace may stand.

GPUMEMTRACE_PROGRAM names the program.
"""

import collections
import gzip
import json
import os
import pathlib
import pickle
import random
import subprocess
import sys
import tempfile
import unittest

PROGRAM = os.environ["GPUMEMTRACE_PROGRAM"]
CHECK_REPORT = pathlib.Path(__file__).resolve().parents[1] / "schema" / "check_report.py"
TIMEOUT_S = 300  # what takes longer hangs, on a busy machine, too
MEBIBYTE = 1 << 20
SEGMENT = 0x7000_0000_0000
SEGMENT_BYTES = 20 * MEBIBYTE
PEAK_BYTES = 11 * MEBIBYTE
KEPT_LINE = 77


def frames(line):
    return [
        {"name": "c10::cuda::malloc()", "filename": "??", "line": 0},
        {"name": "keep" if line == KEPT_LINE else "step", "filename": "/app/train.py", "line": line},
    ]


def sum_of(blocks):
    return sum(size for size, _ in blocks.values())


class History:
    """Events of one device, and what is there at their end."""

    def __init__(self, device=0, segment_bytes=SEGMENT_BYTES):
        self.device = device
        self.base = SEGMENT + (max(device, 0) << 40)
        self.segment_bytes = segment_bytes
        self.events = []
        self.live = {}
        self.peak = {}  # what was live when that was most
        self.add("segment_alloc", self.base, segment_bytes, 1)

    def add(self, action, address, size, line):
        self.events.append(
            {"action": action, "addr": address, "size": size, "stream": 0,
             "time_us": 1_700_000_000_000_000 + 1000 * len(self.events)}
        )
        if line is not None:
            self.events[-1]["frames"] = frames(line)

    def allocate(self, offset, size, line):
        self.add("alloc", self.base + offset, size, line)
        self.live[self.base + offset] = (size, line)
        if sum_of(self.live) > sum_of(self.peak):
            self.peak = dict(self.live)

    def free(self, offset, line):
        size, _ = self.live.pop(self.base + offset)
        self.add("free_requested", self.base + offset, size, line)
        self.add("free_completed", self.base + offset, size, line)

    def snapshot(self):
        blocks = [
            {"address": address, "size": size, "requested_size": size, "state": "active_allocated",
             "frames": frames(line)}
            for address, (size, line) in sorted(self.live.items())
        ]
        segment = {
            "device": self.device, "address": self.base, "total_size": self.segment_bytes, "stream": 0,
            "allocated_size": sum(block["size"] for block in blocks),
            "active_size": sum(block["size"] for block in blocks),
            "requested_size": sum(block["size"] for block in blocks),
            "segment_type": "large", "segment_pool_id": (0, 0), "is_expandable": False,
            "frames": [], "blocks": blocks,
        }
        return {
            "segments": [segment],
            "device_traces": [[] for _ in range(self.device)] + [self.events],
            "allocator_settings": {"PYTORCH_CUDA_ALLOC_CONF": ""},
        }


def training(device=0):
    """Weights that stay, and activations of 9 MiB in each of four steps."""
    history = History(device)
    history.allocate(0, 2 * MEBIBYTE, 10)
    for _ in range(4):
        history.allocate(2 * MEBIBYTE, 4 * MEBIBYTE, 20)
        history.allocate(6 * MEBIBYTE, 5 * MEBIBYTE, 21)
        history.free(6 * MEBIBYTE, 30)
        history.free(2 * MEBIBYTE, 31)
    return history


def random_history(seed, device=0, segment_mib=128, keeps=False):
    """Blocks of 1.5 to 2.5 MiB come and go, far enough apart that none gets the rest behind it."""
    choose = random.Random(seed)
    history = History(device, segment_mib * MEBIBYTE)
    if keeps:
        for place in range(28, 32):
            history.allocate(4 * MEBIBYTE * place, 2 * MEBIBYTE, KEPT_LINE)
    lines = {}
    for _ in range(300):
        place = choose.randrange(28)
        if place in lines:
            history.free(4 * MEBIBYTE * place, 90 + lines.pop(place))
        else:
            lines[place] = choose.randrange(10, 16) + 10 * device
            history.allocate(4 * MEBIBYTE * place, 512 * choose.randrange(3000, 5000), lines[place])
    return history


def in_one_file(*histories):
    """As PyTorch writes what one process has on several devices."""
    parts = [history.snapshot() for history in histories]
    return {**parts[0], "segments": [segment for part in parts for segment in part["segments"]],
            "device_traces": [history.events for history in histories]}


def by_line(blocks):
    sums = collections.Counter()
    for size, line in blocks.values():
        sums[line] += size
    return dict(sums)


class SnapshotInput(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))

    def enterContext(self, context):
        value = context.__enter__()
        self.addCleanup(context.__exit__, None, None, None)
        return value

    def write(self, name, snapshot):
        path = self.folder / name
        data = pickle.dumps(snapshot)
        path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
        return str(path)

    def run_program(self, *arguments, code=0):
        done = subprocess.run([PROGRAM, *arguments], capture_output=True, text=True,
                              timeout=TIMEOUT_S, check=False, cwd=self.folder)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout + done.stderr

    def analyze(self, *inputs):
        path = self.folder / "report.json"
        self.run_program("analyze", "--output", str(path), *inputs)
        subprocess.run([sys.executable, str(CHECK_REPORT), str(path)], check=True,
                       capture_output=True, timeout=TIMEOUT_S)
        return json.loads(path.read_text())

    def test_the_summary_says_first_which_part_of_the_run_the_file_covers(self):
        text = self.run_program("summary", self.write("a.pickle", training().snapshot()))
        top = " ".join(" ".join(text.splitlines()[:6]).split())
        self.assertIn("PyTorch's part only, a.pickle: 26 events in 25.0 ms.", top)
        self.assertIn("gpumemtrace run -- COMMAND", top)
        self.assertIn("train.py:21", text)
        self.assertNotIn("LEAKED", text)
        text = self.run_program("summary", "--full", str(self.folder / "a.pickle"))
        self.assertIn("not checked, because a snapshot is of a program that still runs", " ".join(text.split()))

    def test_the_summary_does_not_name_every_file_of_a_large_job(self):
        for rank in range(7):
            self.write(f"rank{rank}.pickle", training().snapshot())
        text = " ".join(self.run_program("summary", str(self.folder)).split())
        self.assertEqual(text.count("PyTorch's part only"), 4)
        self.assertIn("3 more snapshots: 78 events; --full shows each.", text)
        text = self.run_program("summary", "--full", str(self.folder))
        self.assertEqual(text.count("PyTorch's part only"), 7)

    def test_a_history_of_which_nothing_fits_is_not_called_none(self):
        snapshot = training().snapshot()
        snapshot["segments"] = []
        text = " ".join(self.run_program("summary", self.write("a.pickle", snapshot)).split())
        self.assertIn("PyTorch's part only, a.pickle: 0 events", text)
        self.assertIn("26 events before them do not fit and are left out", text)

    def test_partial_reports_of_its_ranks_make_the_report_of_the_job(self):
        for rank in range(3):
            self.write(f"rank{rank}.pickle", training().snapshot())
        self.run_program("analyze", ".", "-o", "whole.json")
        self.run_program("analyze", "--partial", "./rank2.pickle", "-o", "b.part.json.zst")
        self.run_program("analyze", "--partial", "./rank0.pickle", "./rank1.pickle", "-o", "a.part.json.zst")
        self.run_program("merge", "b.part.json.zst", "a.part.json.zst", "b.part.json.zst", "-o", "merged.json")
        self.assertEqual((self.folder / "merged.json").read_bytes(),
                         (self.folder / "whole.json").read_bytes())
        self.assertIn("rank 1", self.run_program("summary", "a.part.json.zst"))
        self.assertIn("whole.json is no partial report", self.run_program("merge", "whole.json", code=1))
        self.assertIn("--partial goes with", self.run_program(
            "analyze", "--partial", "--redact", "rank0.pickle", code=2))

    def test_the_report_has_pytorchs_memory_and_null_for_what_the_file_does_not_tell(self):
        report = self.analyze(self.write("a.pickle.gz", training().snapshot()))
        [process] = report["processes"]
        self.assertEqual([process[key] for key in ("pid", "host", "rank")], [None] * 3)
        self.assertIn("does not say which process", process["identity_reason"])
        [device] = report["devices"]
        self.assertEqual([device["uuid"], device["total_bytes"]], [None, None])
        self.assertIn("ordinal", device["uuid_reason"])
        self.assertEqual(report["card_peaks"], [])
        self.assertIn("PyTorch's part", report["card_peaks_reason"])
        [trace] = report["traces"]
        self.assertEqual(trace["source"]["events"], 26)
        self.assertEqual(trace["source"]["events_left_out"], 0)
        [peak] = [row for row in report["peak"] if row["level"] == "framework"]
        self.assertEqual(peak["bytes"], PEAK_BYTES)
        lines = {row["site"]["line"]: row["bytes"] for row in peak["holders"] if row["bytes"] != 0}
        self.assertEqual(lines, {10: 2 * MEBIBYTE, 20: 4 * MEBIBYTE, 21: 5 * MEBIBYTE})
        self.assertEqual(report["leaks"]["state"], "not_applicable")
        self.assertEqual(report["findings"], [])

    def test_events_that_do_not_fit_are_left_out_with_the_reason(self):
        history = training()
        del history.events[10]
        path = self.write("a.pickle", history.snapshot())
        [trace] = self.analyze(path)["traces"]
        self.assertEqual(trace["source"]["events"] + trace["source"]["events_left_out"], 25)
        self.assertIn("event 10", trace["source"]["left_out_because"])
        self.assertIn("do not fit", " ".join(self.run_program("summary", path).split()))

    def test_files_of_several_ranks_are_devices_of_their_own(self):
        for rank in range(2):
            self.write(f"rank{rank}.pickle", training().snapshot())
        report = self.analyze(str(self.folder))
        self.assertEqual([(row["rank"], row["rank_guessed"]) for row in report["processes"]], [(0, True), (1, True)])
        self.assertEqual(len(report["devices"]), 2)
        self.assertEqual([row["bytes"] for row in report["peak"] if row["level"] == "framework"],
                         [PEAK_BYTES] * 2)

    def check_memory(self, report, histories):
        """Usage, and holders at the peak, of each history's process and device in their order."""
        def rows_of(section):
            rows = [row for row in report[section] if row["level"] == "framework" and row["device"]]
            return sorted(rows, key=lambda row: (row["process"], row["device"]))
        usage = rows_of("usage")
        self.assertEqual([(row["peak_bytes"], row["live_bytes_at_end"], row["reserved_peak_bytes"]) for row in usage],
                         [(sum_of(history.peak), sum_of(history.live), history.segment_bytes) for history in histories])
        self.assertEqual([{row["site"]["line"]: row["bytes"] for row in peak["holders"] if row["bytes"] != 0}
                          for peak in rows_of("peak")], [by_line(history.peak) for history in histories])

    def check_limits(self, path):
        """One of the two reserves 128 MiB, the other 192."""
        text = self.run_program("check", "--allow-incomplete", "--max-peak", "191MiB", path, code=23)
        self.assertEqual((text.count("FAIL "), text.count("192.0 MiB at the peak, 191.0 MiB allowed")), (1, 1))
        self.run_program("check", "--allow-incomplete", "--max-peak", "192MiB", path)

    def test_two_devices_in_one_file_are_told_apart(self):
        first, second = random_history(41), random_history(42, device=1, segment_mib=192)
        path = self.write("two.pickle", in_one_file(first, second))
        report = self.analyze(path)
        self.assertEqual([seen["ordinal"] for device in report["devices"] for seen in device["seen_as"]], [0, 1])
        self.assertEqual(report["traces"][0]["source"]["devices"], 2)
        self.check_memory(report, [first, second])
        self.check_limits(path)
        text = " ".join(self.run_program("summary", path).split())
        self.assertIn("Card d0 at its peak: 128.0 MiB reserved by PyTorch", text)
        self.assertIn("Card d1 at its peak: 192.0 MiB reserved by PyTorch", text)
        more = random_history(42, device=1, segment_mib=192, keeps=True)
        text = self.run_program("diff", path, self.write("more.pickle", in_one_file(first, more)))
        self.assertRegex(text, r"\+8.0 MiB .* pytorch at app/train.py:77 in keep")

    def test_two_ranks_of_a_folder_are_told_apart(self):
        ranks = [random_history(51), random_history(52, segment_mib=192)]
        more = random_history(52, segment_mib=192, keeps=True)
        for folder, histories in (("before", ranks), ("after", [ranks[0], more])):
            (self.folder / folder).mkdir()
            for rank, history in enumerate(histories):
                self.write(f"{folder}/rank{rank}.pickle", history.snapshot())
        report = self.analyze("before")
        self.assertEqual([row["rank"] for row in report["processes"]], [0, 1])
        self.check_memory(report, ranks)
        self.check_limits("before")
        text = " ".join(self.run_program("summary", "before").split())
        self.assertIn("PEAK 192.0 MiB reserved by PyTorch, rank 1, d1", text)
        self.assertRegex(self.run_program("diff", "before", "after"), r"\+8.0 MiB .* pytorch at app/train.py:77 in keep")

    def test_the_summary_says_that_a_rank_is_of_the_name(self):
        text = self.run_program("summary", self.write("oom_rank_3.pickle", training().snapshot()))
        self.assertIn("oom_rank_3.pickle (rank 3 by its name)", " ".join(text.split()))

    def test_a_rank_is_not_guessed_twice(self):
        for folder in ("step1", "step2"):
            (self.folder / folder).mkdir()
            self.write(f"{folder}/rank0.pickle", training().snapshot())
        report = self.analyze(str(self.folder / "step1"), str(self.folder / "step2"))
        self.assertEqual([(row["rank"], row["rank_guessed"]) for row in report["processes"]], [(None, False)] * 2)

    def test_pinned_memory_is_the_host_memory_of_the_report(self):
        """As PyTorch's CachingHostAllocator.h records it: the stack stands at the block, and a block that was given back stays pinned."""
        host = History(-1)
        host.events = []
        first, second = 1 << 32, 1 << 33
        for offset, size, line in ((first, MEBIBYTE, 40), (second, 2 * MEBIBYTE, 41)):
            host.add("segment_alloc", SEGMENT + offset, size, None)
            host.allocate(offset, size, line)
        host.free(first, 42)
        host.add("segment_free", SEGMENT + first, MEBIBYTE, None)
        pinned = {**training().snapshot(), "host_traces": host.events}
        pinned["host_segments"] = [
            {"device": -1, "address": address, "total_size": size, "stream": 0, "segment_type": "small",
             "segment_pool_id": (0, 0), "is_expandable": False, "frames": [], "blocks": [
                 {"address": address, "size": size, "requested_size": size, "state": "active_allocated",
                  "frames": frames(line)}]}
            for address, (size, line) in host.live.items()]
        report = self.analyze(self.write("a.pickle", pinned))
        [usage] = [row for row in report["usage"] if row["level"] == "host"]
        self.assertEqual((usage["kind"], usage["device"]), ("pinned", None))
        self.assertEqual((usage["peak_bytes"], usage["live_bytes_at_end"]), (3 * MEBIBYTE, 2 * MEBIBYTE))
        [peak] = [row for row in report["peak"] if row["level"] == "host"]
        self.assertEqual({row["site"]["line"]: row["bytes"] for row in peak["holders"] if row["bytes"] != 0},
                         {40: MEBIBYTE, 41: 2 * MEBIBYTE})
        self.assertEqual(report["traces"][0]["source"]["events"], 26 + len(host.events))

    def test_a_full_history_is_a_loss(self):
        snapshot = training().snapshot()
        snapshot["allocator_settings"]["trace_alloc_overflowed"] = True
        path = self.write("a.pickle", snapshot)
        report = self.analyze(path)
        self.assertIn("history_overflowed", [row["name"] for row in report["losses"]])
        self.assertFalse(report["traces"][0]["complete"])
        self.assertIn("history was full", " ".join(self.run_program("summary", path).split()))

    def test_the_lines_of_the_model_stand_for_compiled_code(self):
        """As torch.cuda.memory._snapshot(augment_with_fx_traces=True) marks a frame of generated code."""
        history = training()
        [large] = [event["frames"] for event in history.events if event["action"] == "alloc" and event["size"] == 2 * MEBIBYTE]
        large.insert(1, {
            "name": "forward", "filename": "fx_generated_7.py", "line": 8, "fx_node_op": "call_module",
            "fx_node_name": "linear", "fx_node_target": "net1",
            "fx_original_trace": '  File "/app/train.py", line 70, in run\n    loss = model(x)\n'
                                 '  File "/app/model.py", line 71, in forward\n    a = self.net1(x)\n'})
        report = self.analyze(self.write("a.pickle", history.snapshot()))
        [peak] = [row for row in report["peak"] if row["level"] == "framework"]
        [holder] = [row for row in peak["holders"] if row["bytes"] == 2 * MEBIBYTE]
        self.assertEqual((holder["site"]["file"], holder["site"]["line"]), ("/app/model.py", 71))
        [indexes] = [row["frames"] for row in report["stacks"] if row["id"] == holder["stack"]]
        stack = [report["frames"][index] for index in indexes]
        self.assertEqual([frame["function"] for frame in stack if frame["kind"] == "python"],
                         ["forward", "run", "linear", "forward", "step"])

    def test_what_is_not_shown_is_counted(self):
        history = training()
        history.events[4]["of_a_later_version"] = 1
        snapshot = {**history.snapshot(), "host_traces": [[], history.events[:2]]}
        [note] = self.analyze(self.write("a.pickle", snapshot))["traces"][0]["notes"]
        for text in ("1 event.of_a_later_version", "1 frame.native", "2 host_traces.further_events"):
            self.assertIn(text, note)

    def test_words_for_an_event_are_the_outermost_frames_of_its_stack(self):
        history = training()
        for event in history.events:
            event["compile_context"] = "0/1" if event["size"] == 4 * MEBIBYTE else "N/A"
            event["user_metadata"] = "teacher" if event["size"] >= 4 * MEBIBYTE else ""
        report = self.analyze(self.write("a.pickle", history.snapshot()))
        frames_of = {row["id"]: [report["frames"][index] for index in row["frames"]] for row in report["stacks"]}
        [peak] = [row for row in report["peak"] if row["level"] == "framework"]
        words = {row["site"]["line"]: [(frame["file"], frame["function"]) for frame in frames_of[row["stack"]][1:]]
                 for row in peak["holders"] if row["bytes"] != 0}
        self.assertEqual(words, {10: [], 20: [("<compile_context>", "0/1"), ("<user_metadata>", "teacher")],
                                 21: [("<user_metadata>", "teacher")]})

    def test_growth_says_where_the_rest_was_freed(self):
        history = History(segment_bytes=512 * MEBIBYTE)
        for step in range(60):
            history.allocate(4 * MEBIBYTE * step, 2 * MEBIBYTE, 20)
            history.allocate(400 * MEBIBYTE, 2 * MEBIBYTE, 21)
            history.free(400 * MEBIBYTE, 31)
            if step % 6 == 5:
                history.free(4 * MEBIBYTE * (step - 2), 33)
        [growth] = self.analyze(self.write("a.pickle", history.snapshot()))["leaks"]["growth"]
        self.assertEqual((growth["site"]["line"], growth["freed_count"], growth["freed_at"]["site"]["line"]), (20, 10, 33))

    def test_an_export_has_the_stacks_of_frees(self):
        self.run_program("export", "--format", "memory_viz", "--output", "out.pickle",
                         self.write("a.pickle", training().snapshot()))
        [events] = pickle.loads((self.folder / "out.pickle").read_bytes())["device_traces"]
        for action in ("free_requested", "free_completed"):
            lines = [event["frames"][0]["line"] for event in events if event["action"] == action]
            self.assertEqual(lines, [30, 31] * 4)

    def test_frames_of_cpp_name_lines_where_python_has_none(self):
        """As a program in C++ has them, and the threads of autograd."""
        history = training()
        engine = [{"name": name, "filename": "??", "line": 0} for name in
                  ("c10::cuda::malloc()", "torch::autograd::generated::AddmmBackward0::apply(int)",
                   "torch::autograd::Engine::thread_main(int)", "__clone")]
        program = [{"name": "at::empty_cuda()", "filename": "RegisterCUDA_0.cpp", "line": 0},
                   {"name": "infer(int)", "filename": "/app/infer.cpp", "line": 31}]
        for event in history.events:
            if event["action"] == "alloc" and event["size"] >= 4 * MEBIBYTE:
                event["frames"] = engine if event["size"] == 4 * MEBIBYTE else program
        report = self.analyze(self.write("a.pickle", history.snapshot()))
        [peak] = [row for row in report["peak"] if row["level"] == "framework"]
        sites = {row["bytes"]: (row["site"]["kind"], row["site"]["function"], row["site"]["line"])
                 for row in peak["holders"] if row["bytes"] != 0}
        self.assertEqual(sites, {2 * MEBIBYTE: ("python", "step", 10), 4 * MEBIBYTE: ("native", "AddmmBackward0", None),
                                 5 * MEBIBYTE: ("native", "infer(int)", 31)})

    def test_free_bytes_of_the_device_at_a_failure_are_those_that_the_driver_told(self):
        history = training()
        history.events.append(
            {"action": "oom", "device_free": 3 * MEBIBYTE, "size": 40 * MEBIBYTE, "stream": 0,
             "time_us": 1_700_000_001_000_000, "frames": frames(50)})
        [failure] = self.analyze(self.write("a.pickle", history.snapshot()))["oom"]
        self.assertEqual(failure["device_free_bytes"], 3 * MEBIBYTE)
        self.assertEqual(failure["requested_bytes"], 40 * MEBIBYTE)
        self.assertIsNone(failure["composition"]["driver_bytes"])

    def test_live_shows_a_snapshot_once(self):
        text = self.run_program("live", self.write("a.pickle", training().snapshot()))
        self.assertIn("snapshot, ", text)
        self.assertNotIn("recording", text)

    def test_every_command_takes_a_snapshot(self):
        path = self.write("a.pkl", training().snapshot())
        self.run_program("check", "--allow-incomplete", path)
        self.run_program("check", "--allow-incomplete", "--max-peak", "1MiB", path, code=23)
        self.run_program("diff", path, path)
        self.run_program("report", "--output", str(self.folder / "page.html"), path)
        self.run_program("export", "--format", "sqlite", "--output", "tables.sqlite", path)
        self.assertIn("expandable_segments", self.run_program("whatif", path))

    def test_a_pickle_that_is_no_snapshot_is_an_error(self):
        path = self.write("model.pickle", {"weights": [1, 2, 3]})
        self.assertIn("model.pickle", self.run_program("summary", path, code=1))


if __name__ == "__main__":
    unittest.main()
