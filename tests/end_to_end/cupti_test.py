# SPDX-License-Identifier: Apache-2.0
"""CUPTI's activity records, on the simulated libcupti: ours, and those of a program that has a
profiler of its own. The program must not notice that somebody else collects records, too."""

import re
import signal
import unittest

import support

CUPTI_13 = support.BUILD / "simulated_cupti_13"
CUPTI_12 = support.BUILD / "simulated_cupti_12"
SIMULATED = f"{support.SIMULATED_DRIVER}:{CUPTI_13}"
CLIENTS = {
    "dlsym": support.VICTIMS / "cupti_client",
    "linked": support.VICTIMS / "cupti_client_linked",
}
SCENES = ("sessions", "early", "functions", "waiting", "clock", "finalize", "no_buffers",
          "attributes", "errors", "threads", "crowd", "fork", "pytorch")
# Copies run long after they were asked for, and calls are told of before or after what they made;
# another version's records, in small buffers.
BEHAVIOURS = {
    "plain": {},
    "late": {"GPUMEMTRACE_SIMULATED_CUPTI_LATE_NS": 3_000_000},
    "late, calls last": {"GPUMEMTRACE_SIMULATED_CUPTI_LATE_NS": 3_000_000,
                         "GPUMEMTRACE_SIMULATED_CUPTI_CALLS_LAST": 1},
    "CUDA 11.8": {"GPUMEMTRACE_SIMULATED_CUPTI_VERSION": 18,
                  "GPUMEMTRACE_SIMULATED_CUPTI_MOST_RECORDS": 30},
}


def activity(trace):
    """The activity records of a trace as dictionaries, with their kind and text."""
    records = []
    for line in support.dump(trace):
        match = re.match(r".*?\bactivity_(\w+) (.*?)(?: \"(.*)\")?$", line)
        if match is None:
            continue
        fields = dict(re.findall(r"(\w+)=(\S+)", match[2]))
        records.append({"kind": match[1], "text": match[3] or "", **fields})
    return records


def of_kind(records, kind):
    return [record for record in records if record["kind"] == kind]


class Recorded:
    def record_with_cupti(self, *command, code=0, **variables):
        environment = support.recorded_environment(
            **{"LD_LIBRARY_PATH": SIMULATED, "GPUMEMTRACE_CUPTI": "copies", **variables})
        result = self.run_command(command, environment)
        self.assertEqual(result.returncode, code, result.stderr.decode(errors="replace"))
        return result

    def state(self):
        """The last state of the only trace, and all its activity records."""
        records = activity(self.only_trace())
        return of_kind(records, "state")[-1], records


class Program(Recorded, support.EndToEnd):
    def compare(self, client):
        for behaviour, variables in BEHAVIOURS.items():
            for scene in SCENES:
                with self.subTest(scene=scene, behaviour=behaviour):
                    alone = self.run_command(
                        [client, scene],
                        support.driver_environment(LD_LIBRARY_PATH=SIMULATED, **variables))
                    self.assertEqual(alone.returncode, 0, alone.stderr)
                    recorded = self.record_with_cupti(client, scene, **variables)
                    self.assertEqual(recorded.stdout.decode(), alone.stdout.decode())
                    self.assertIn("records" if scene not in ("attributes", "errors") else "",
                                  alone.stdout.decode())

    def test_gets_the_same_records_by_dlsym(self):
        self.compare(CLIENTS["dlsym"])

    def test_gets_the_same_records_by_linked_symbols(self):
        self.compare(CLIENTS["linked"])

    def test_gets_the_same_records_in_full_mode_and_with_none(self):
        for mode in ("full", "full,kernels", "off"):
            for scene in ("sessions", "functions", "finalize"):
                with self.subTest(mode=mode, scene=scene):
                    alone = self.run_command(
                        [CLIENTS["dlsym"], scene],
                        support.driver_environment(LD_LIBRARY_PATH=SIMULATED))
                    recorded = self.record_with_cupti(
                        CLIENTS["dlsym"], scene, GPUMEMTRACE_CUPTI=mode)
                    self.assertEqual(recorded.stdout.decode(), alone.stdout.decode())


class Collection(Recorded, support.EndToEnd):
    def test_records_every_copy_beside_the_programs_sessions(self):
        self.record_with_cupti(CLIENTS["dlsym"], "sessions")
        state, records = self.state()
        self.assertEqual((state["mode"], state["version"], state["returned"]), ("copies", "130001", "0"))
        copies = sorted(int(record["bytes"]) for record in of_kind(records, "copy"))
        expected = [base + part for base in range(100, 900, 100) for part in (0, 2)]
        self.assertEqual(copies, expected)
        sets = sorted(int(record["bytes"]) for record in of_kind(records, "set"))
        self.assertEqual(sets, [base + 1 for base in range(100, 900, 100)])
        # Each belongs to a call, one by the driver's function and one by the runtime's.
        calls = {record["correlation"]: record for record in of_kind(records, "call")}
        for record in of_kind(records, "copy"):
            call = calls[record["correlation"]]
            by_runtime = int(record["bytes"]) % 100 == 2
            self.assertEqual((call["domain"], call["function"]),
                             ("runtime", "31") if by_runtime else ("driver", "276"))
        self.assertEqual({call["domain"] + " " + call["function"] for call in calls.values()},
                         {"driver 276", "driver 249", "runtime 31"})

    def test_says_when_the_program_profiles_itself(self):
        self.record_with_cupti(CLIENTS["dlsym"], "sessions")
        shared = [state["is_shared"] for state in of_kind(activity(self.only_trace()), "state")]
        self.assertEqual(shared, ["0", "1"])

    def test_reads_the_records_of_older_versions(self):
        for version, copies in (("18", "0"), ("24", "0"), ("26", "1"), ("130001", "1")):
            with self.subTest(version=version):
                trace = self.folder / f"{version}.gmt"
                self.record_with_cupti(
                    CLIENTS["dlsym"], "end", "return", GPUMEMTRACE_OUTPUT=trace,
                    GPUMEMTRACE_SIMULATED_CUPTI_VERSION=version)
                records = activity(trace)
                self.assertEqual([record["bytes"] for record in of_kind(records, "copy")],
                                 [str(n) for n in range(1, 21)])
                self.assertEqual({record["copies"] for record in of_kind(records, "copy")},
                                 {copies})
                self.assertEqual(of_kind(records, "state")[0]["version"], version)

    def test_every_way_to_end_keeps_what_was_copied(self):
        for how in ("return", "exit"):
            with self.subTest(how=how):
                trace = self.folder / f"{how}.gmt"
                self.record_with_cupti(CLIENTS["dlsym"], "end", how, GPUMEMTRACE_OUTPUT=trace)
                self.assertEqual(len(of_kind(activity(trace), "copy")), 20)

    def test_a_library_that_the_program_closes_stays(self):
        process = self.run_command(
            [support.PYTHON, "-c",
             "import ctypes, _ctypes\n"
             "library = ctypes.CDLL('libcupti.so.13')\n"
             "driver = ctypes.CDLL('libcuda.so.1')\n"
             "assert driver.cuInit(0) == 0\n"
             "_ctypes.dlclose(library._handle)\n"
             "context, address = ctypes.c_void_p(), ctypes.c_uint64()\n"
             "assert driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0\n"
             "assert driver.cuCtxSetCurrent(context) == 0\n"
             "assert driver.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(64)) == 0\n"
             "assert driver.cuMemsetD8_v2(address, 1, ctypes.c_size_t(64)) == 0\n"],
            support.recorded_environment(LD_LIBRARY_PATH=SIMULATED, GPUMEMTRACE_CUPTI="copies"))
        self.assertEqual(process.returncode, 0, process.stderr.decode(errors="replace"))
        self.assertEqual(len(of_kind(activity(self.only_trace()), "set")), 1)

    def test_a_program_that_only_initialises_cuda_leaves_nothing(self):
        process = self.run_command(
            [support.PYTHON, "-c",
             "import ctypes\n"
             "ctypes.CDLL('libcupti.so.13')\n"
             "assert ctypes.CDLL('libcuda.so.1').cuInit(0) == 0\n"],
            support.recorded_environment(LD_LIBRARY_PATH=SIMULATED, GPUMEMTRACE_CUPTI="copies"))
        self.assertEqual(process.returncode, 0, process.stderr.decode(errors="replace"))
        self.assertEqual((process.stdout, process.stderr), (b"", b""))
        self.assert_folder_is_empty()

    def test_a_killed_process_has_what_was_flushed(self):
        process = self.start(
            [CLIENTS["dlsym"], "end", "kill"],
            support.recorded_environment(LD_LIBRARY_PATH=SIMULATED, GPUMEMTRACE_CUPTI="copies"), stdout=-1)
        self.assertEqual(process.stdout.readline(), b"copied\n")
        trace = support.wait_until(lambda: (self.traces() or [None])[0], "a trace")
        support.wait_until(
            lambda: len(of_kind(activity(trace), "copy")) == 20, "the copies are in the trace")
        process.kill()
        self.assertEqual(process.wait(support.TIMEOUT_S), -signal.SIGKILL)
        self.assertEqual(len(of_kind(activity(trace), "copy")), 20)

    def test_pairs_its_clock_with_the_recorders(self):
        self.record_with_cupti(CLIENTS["dlsym"], "clock")
        clocks = of_kind(activity(self.only_trace()), "clock")
        # The program has exchanged it: a pair on either side, and one at the end.
        self.assertLessEqual({"0", "1"}, {clock["epoch"] for clock in clocks})
        self.assertGreaterEqual(sum(clock["epoch"] == "1" for clock in clocks), 2)
        self.assertEqual(clocks[-1]["epoch"], "1")
        self.assertLess(int(clocks[-1]["timestamp"]), 1_000_000)

    def test_counts_what_it_could_not_get(self):
        self.record_with_cupti(CLIENTS["dlsym"], "no_buffers")
        records = activity(self.only_trace())
        self.assertEqual(len(of_kind(records, "copy")), 3)  # ours are not the program's


class Reasons(Recorded, support.EndToEnd):
    def assert_off(self, reason, mode="off", **fields):
        state, records = self.state()
        self.assertEqual(state["mode"], mode)
        self.assertIn(reason, state["text"])
        for name, value in fields.items():
            self.assertEqual(state[name], value)
        return records

    def test_another_tool_holds_it(self):
        self.record_with_cupti(CLIENTS["dlsym"], "end", "return",
                               GPUMEMTRACE_SIMULATED_CUPTI_HELD=1)
        records = self.assert_off("another tool", returned="39", version="130001")
        self.assertEqual(of_kind(records, "copy"), [])

    def test_a_profiler_of_the_program_subscribed_first(self):
        result = self.record_with_cupti(CLIENTS["dlsym"], "subscriber")
        self.assertEqual(result.stdout, b"a subscriber: 1\n")
        self.assert_off("cuptiSubscribe_v2", returned="39")

    def test_the_user_wants_none(self):
        self.record_with_cupti(CLIENTS["dlsym"], "end", "return", GPUMEMTRACE_CUPTI="off")
        self.assert_off("switched off")

    def test_there_is_none(self):
        self.record_with_cupti(CLIENTS["dlsym"], "end", "return",
                               CUPTI_CLIENT_NOT_BEFORE=1)
        self.assert_off("had not loaded libcupti")

    def test_it_is_too_old(self):
        self.record_with_cupti(CLIENTS["dlsym"], "end", "return",
                               GPUMEMTRACE_SIMULATED_CUPTI_VERSION=17)
        self.assert_off("older than CUDA 11.8")

    def test_there_are_two(self):
        self.record_with_cupti(
            CLIENTS["linked"], "end", "return",
            LD_PRELOAD=f"{support.LIBRARY} {CUPTI_12 / 'libcupti.so.12'}")
        self.assert_off("another copy of CUPTI may be used by")

    def test_the_program_finalizes_it(self):
        self.record_with_cupti(CLIENTS["dlsym"], "finalize")
        self.assert_off("the program called cuptiFinalize", mode="lost")

    def test_the_process_is_a_forked_child(self):
        self.record_with_cupti(
            support.PROGRAMS / "fork_child",
            LD_PRELOAD=f"{support.LIBRARY} {CUPTI_13 / 'libcupti.so.13'}")
        states = {of_kind(activity(trace), "state")[-1]["text"] for trace in self.traces()}
        self.assertEqual(states, {"", "CUDA was initialised before this process was forked"})

    def test_a_wrong_mode_is_named(self):
        result = self.record_with_cupti(CLIENTS["dlsym"], "end", "return",
                                        GPUMEMTRACE_CUPTI="everything")
        self.assertIn(b"GPUMEMTRACE_CUPTI=everything is none of off, copies, full", result.stderr)
        self.assertEqual(self.state()[0]["mode"], "off")

    def test_nobody_asked_for_it(self):
        environment = support.recorded_environment(LD_LIBRARY_PATH=SIMULATED)
        self.assertEqual(self.run_command([CLIENTS["dlsym"], "end", "return"], environment).returncode, 0)
        self.assert_off("not asked for (--cupti copies)")

    def test_the_user_names_one(self):
        self.record_with_cupti(
            CLIENTS["dlsym"], "end", "return", CUPTI_CLIENT_NOT_BEFORE=1,
            GPUMEMTRACE_CUPTI_LIBRARY=CUPTI_12 / "libcupti.so.12")
        state, records = self.state()
        self.assertEqual(state["mode"], "copies")
        self.assertEqual(len(of_kind(records, "copy")), 20)

    def test_the_named_one_cannot_be_loaded(self):
        result = self.record_with_cupti(
            CLIENTS["dlsym"], "end", "return", CUPTI_CLIENT_NOT_BEFORE=1,
            GPUMEMTRACE_CUPTI_LIBRARY=self.folder / "missing.so")
        self.assertIn(b"GPUMEMTRACE_CUPTI_LIBRARY cannot be loaded", result.stderr)
        self.assert_off("had not loaded libcupti")


class Tool(Recorded, support.EndToEnd):
    def test_run_takes_the_mode_and_the_library(self):
        result = self.run_command(
            [support.TOOL, "run", "--cupti", "full", "--cupti-library", CUPTI_12 / "libcupti.so.12",
             "-o", self.folder / "trace.gmt", "--", CLIENTS["dlsym"], "end", "return"],
            support.driver_environment(LD_LIBRARY_PATH=SIMULATED, CUPTI_CLIENT_NOT_BEFORE=1))
        self.assertEqual(result.returncode, 0, result.stderr.decode(errors="replace"))
        state, records = self.state()
        self.assertEqual(state["mode"], "full")
        self.assertEqual(len(of_kind(records, "copy")), 20)

    def test_doctor_names_the_library_and_its_version(self):
        result = self.run_command(
            [support.TOOL, "doctor"], support.driver_environment(LD_LIBRARY_PATH=SIMULATED))
        self.assertIn(f"CUPTI: {CUPTI_13 / 'libcupti.so.13'}, version 130001",
                      result.stdout.decode())


class LateLibrary(Recorded, support.EndToEnd):
    """The program opens libcupti when it begins to profile, long after it has initialised CUDA."""

    def test_the_program_gets_the_same_records(self):
        for behaviour in ("plain", "late, calls last"):
            variables = {"CUPTI_CLIENT_NOT_BEFORE": 1, **BEHAVIOURS[behaviour]}
            for scene in SCENES:
                with self.subTest(scene=scene, behaviour=behaviour):
                    alone = self.run_command(
                        [CLIENTS["dlsym"], scene],
                        support.driver_environment(LD_LIBRARY_PATH=SIMULATED, **variables))
                    recorded = self.record_with_cupti(CLIENTS["dlsym"], scene, **variables)
                    self.assertEqual(recorded.stdout.decode(), alone.stdout.decode())

    def test_collection_begins_with_the_programs_first_call(self):
        self.record_with_cupti(CLIENTS["dlsym"], "sessions", CUPTI_CLIENT_NOT_BEFORE=1)
        state, records = self.state()
        self.assertEqual((state["mode"], state["is_shared"]), ("copies", "1"))
        texts = [record["text"] for record in of_kind(records, "state")]
        self.assertIn("had not loaded libcupti", texts[0])
        self.assertIn("since the program first used CUPTI", texts[1])
        copies = sorted(int(record["bytes"]) for record in of_kind(records, "copy"))
        self.assertEqual(copies, [base + part for base in range(200, 900, 100) for part in (0, 2)])
        calls = {record["correlation"]: record for record in of_kind(records, "call")}
        for record in of_kind(records, "copy"):
            self.assertIn(calls[record["correlation"]]["function"], ("31", "276"))
        self.assertEqual({call["domain"] + " " + call["function"] for call in calls.values()},
                         {"driver 276", "driver 249", "runtime 31"})

    def test_nothing_begins_where_nobody_asked_or_the_library_may_be_a_tools(self):
        for name, value in (("GPUMEMTRACE_CUPTI", "off"), ("CUDA_INJECTION64_PATH", "/tool.so")):
            with self.subTest(variable=name):
                trace = self.folder / f"{name}.gmt"
                self.record_with_cupti(CLIENTS["dlsym"], "sessions", CUPTI_CLIENT_NOT_BEFORE=1,
                                       GPUMEMTRACE_OUTPUT=trace, **{name: value})
                records = activity(trace)
                self.assertEqual([record["mode"] for record in of_kind(records, "state")], ["off"])
                self.assertEqual(of_kind(records, "copy"), [])


class Subscribers(Recorded, support.EndToEnd):
    """CUPTI 13.3 has functions for several subscribers, which exclude those that we use."""

    def test_a_profiler_that_cannot_subscribe_gets_its_records_as_before(self):
        result = self.record_with_cupti(CLIENTS["dlsym"], "xla")
        refused, *records = result.stdout.decode().splitlines()
        self.assertEqual(refused, "a subscriber: 0")
        self.assertEqual(records[0], "profile: 5 records")
        state, ours = self.state()
        self.assertEqual((state["mode"], len(of_kind(ours, "copy"))), ("copies", 2))


class Copies(Recorded, support.EndToEnd):
    def test_a_second_copy_is_answered_by_the_one_in_use(self):
        """Loaded after ours has started, it could only refuse."""
        environment = support.recorded_environment(
            LD_LIBRARY_PATH=SIMULATED,
            LD_PRELOAD=f"{support.LIBRARY} {CUPTI_13 / 'libcupti.so.13'}",
            GPUMEMTRACE_CUPTI="copies", CUPTI_CLIENT_NOT_BEFORE=1, CUPTI_CLIENT_LIBRARY=CUPTI_12 / "libcupti.so.12")
        result = self.run_command([CLIENTS["dlsym"], "sessions"], environment)
        self.assertEqual(result.returncode, 0, result.stderr.decode(errors="replace"))
        alone = self.run_command(
            [CLIENTS["dlsym"], "sessions"],
            support.driver_environment(
                LD_LIBRARY_PATH=SIMULATED, CUPTI_CLIENT_LIBRARY=CUPTI_12 / "libcupti.so.12"))
        self.assertEqual(result.stdout.decode(), alone.stdout.decode())
        texts = [state["text"] for state in of_kind(activity(self.only_trace()), "state")]
        self.assertTrue(any("a second libcupti is answered by the first" in text
                            for text in texts), texts)

    def test_none_appears_where_none_is_loaded(self):
        environment = support.recorded_environment()
        result = self.run_command(
            [support.PYTHON, "-c",
             "import ctypes\n"
             "find = ctypes.CDLL(None).dlsym\n"
             "find.restype = ctypes.c_void_p\n"
             "find.argtypes = [ctypes.c_void_p, ctypes.c_char_p]\n"
             "print(find(None, b'cuptiActivityEnable'))"], environment)
        self.assertEqual(result.stdout.strip(), b"None", result.stderr)
        self.assert_folder_is_empty()


if __name__ == "__main__":
    unittest.main()
