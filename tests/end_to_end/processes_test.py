# SPDX-License-Identifier: Apache-2.0
"""Several processes: each has a trace of its own, under a name of its own."""

import os
import re
import subprocess
import unittest

import support

OF_PARENT, OF_CHILD, OF_NEW_PROGRAM = 3, 5, 7  # allocations; see victims/processes.cpp


class Children(support.EndToEnd):
    """Every way to make a process. The trace of one is never touched by another."""

    def allocations_by_trace(self, mode, **variables):
        """Runs victims/processes.cpp: [(allocations, failed)] of each trace, oldest first."""
        result = self.record(support.VICTIMS / "processes", mode, **variables)
        self.assertEqual(result.stderr, b"")
        traces = sorted(self.traces(), key=lambda trace: trace.stat().st_ino)
        counts = []
        self.ends = []
        for trace in traces:
            report = support.analyze(trace)
            row = support.usage(report, "driver", "device")
            self.assertEqual(row["live_bytes_at_end"], 0)
            self.assertEqual(
                set(support.losses(report)) - {"clock_not_calibrated", "unknown_context"}, set())
            counts.append((row["allocations"], row["failed"]))
            self.ends.append(report["traces"][0]["end"])
        return sorted(counts, reverse=True)

    def test_the_failing_calls_of_a_forked_child_are_its_own(self):
        self.assertEqual(
            self.allocations_by_trace("fork_after_use"), [(OF_PARENT + 1, 0), (0, 1)])

    def test_a_child_of_a_process_that_has_not_used_cuda_yet_uses_it(self):
        self.assertEqual(
            self.allocations_by_trace("fork_before_use"), [(OF_CHILD, 0), (OF_PARENT, 0)])

    def test_a_child_that_only_exits_leaves_nothing(self):
        self.assertEqual(self.allocations_by_trace("fork_without_cuda"), [(OF_PARENT + 1, 0)])
        self.assertEqual(self.ends, ["exit"])

    def test_forks_while_threads_record_disturb_nothing(self):
        # Four threads at full rate fill the ring where the machine is busy with other things, too.
        self.assertEqual(
            self.allocations_by_trace("fork_while_threads_run", GPUMEMTRACE_ON_FULL="block"),
            [(80000, 0)])

    def test_fork_and_exec(self):
        self.assertEqual(
            self.allocations_by_trace("fork_and_exec"), [(OF_NEW_PROGRAM, 0), (OF_PARENT, 0)])

    def test_vfork_and_exec(self):
        self.assertEqual(
            self.allocations_by_trace("vfork_and_exec"), [(OF_NEW_PROGRAM, 0), (OF_PARENT, 0)])

    def test_posix_spawn(self):
        self.assertEqual(
            self.allocations_by_trace("spawn"), [(OF_NEW_PROGRAM, 0), (OF_PARENT, 0)])

    def test_a_child_that_libc_does_not_know_of(self):
        for _ in range(20):
            self.assertEqual(
                self.allocations_by_trace("raw_clone"), [(OF_CHILD, 0), (OF_PARENT + 1, 0)])
            for trace in self.folder.iterdir():
                trace.unlink()

    def test_children_that_libc_does_not_know_of_find_no_lock_held(self):
        self.assertEqual(self.allocations_by_trace("raw_clones"), [(OF_PARENT, 0)])

    def test_a_child_by_the_newest_call_that_makes_one(self):
        self.assertEqual(
            self.allocations_by_trace("raw_clone3"), [(OF_CHILD, 0), (OF_PARENT + 1, 0)])

    def test_a_child_in_the_same_memory_that_only_exits_is_not_the_end(self):
        self.assertEqual(self.allocations_by_trace("vfork_and_exit"), [(OF_PARENT + 1, 0)])
        self.assertEqual(self.ends, ["exit"])

    def test_a_daemon_that_uses_cuda_after_it_has_closed_everything(self):
        self.assertEqual(self.allocations_by_trace("daemon"), [(OF_CHILD, 0)])
        self.assertEqual(self.ends, ["exit"])

    def test_exec_ends_a_trace_and_the_new_program_has_another(self):
        self.assertEqual(
            self.allocations_by_trace("exec_after_use"), [(OF_NEW_PROGRAM, 0), (OF_PARENT, 0)])

    def test_the_program_of_the_fork_family(self):
        self.record(support.PROGRAMS / "fork_child")
        report = self.report()
        self.assertEqual(len(report["processes"]), 3)
        device = support.usage(report, "driver", "device")
        self.assertEqual((device["allocations"], device["failed"]), (3, 1))
        self.assertEqual(device["live_bytes_at_end"], 1 << 20)


class Multiprocessing(support.EndToEnd):
    def check(self, method):
        result = self.record(support.PYTHON, support.SCRIPTS / "multiprocess.py", method)
        self.assertEqual(result.stdout, b"[0, 0, 0]\n")
        self.assertEqual(result.stderr, b"")
        counts = [support.usage(support.analyze(trace), "driver", "device")["allocations"]
                  for trace in self.traces()]
        self.assertEqual(sorted(counts), [1, 2, 3, 10])
        report = self.report()
        self.assertEqual(len(report["processes"]), 4)
        parent = next(row["pid"] for row in report["processes"]
                      if support.usage({"usage": [usage for usage in report["usage"]
                                                  if usage["process"] == row["id"]]},
                                       "driver", "device")["allocations"] == 10)
        workers = [row for row in report["processes"] if row["pid"] != parent]
        # A server stands between.
        self.assertEqual({row["ppid"] for row in workers} == {parent}, method != "forkserver")

    def test_spawned_workers(self):
        self.check("spawn")

    def test_forked_workers(self):
        self.check("fork")

    def test_workers_of_a_server_that_forks(self):
        self.check("forkserver")


class Ranks(support.EndToEnd):
    def record_ranks(self, count, **variables):
        processes = [
            self.start(
                [support.PROGRAMS / "pools"],
                support.recorded_environment(RANK=rank, WORLD_SIZE=count, LOCAL_RANK=rank,
                                             **variables),
                stdout=self.make_file(f"out.{rank}"))
            for rank in range(count)
        ]
        for process in processes:
            self.assertEqual(process.wait(support.TIMEOUT_S), 0)

    def make_file(self, name):
        file = open(self.folder / name, "wb")
        self.addCleanup(file.close)
        return file

    def test_several_ranks_share_a_folder_and_are_one_job(self):
        self.record_ranks(4)
        folder = self.folder / "gpumemtrace-job"
        names = sorted(path.name for path in folder.glob("*.gmt"))
        self.assertEqual([re.search(r"\.r(\d)\.", name)[1] for name in names], list("0123"))
        report = support.analyze(folder)
        self.assertEqual(sorted(row["rank"] for row in report["processes"]), [0, 1, 2, 3])
        self.assertEqual({row["world_size"] for row in report["processes"]}, {4})
        self.assertEqual(sorted(row["local_rank"] for row in report["processes"]), [0, 1, 2, 3])

    def test_the_folder_is_named_after_the_job(self):
        self.record_ranks(2, SLURM_JOB_ID="4711")
        self.assertEqual(len(list((self.folder / "gpumemtrace-4711").glob("*.gmt"))), 2)

    def test_one_rank_alone_is_no_job(self):
        self.record_ranks(1)
        self.assertEqual(self.only_trace().parent, self.folder)


class Names(support.EndToEnd):
    def record_as(self, pattern, **variables):
        self.record(support.PROGRAMS / "host_memory", GPUMEMTRACE_OUTPUT=pattern, **variables)

    def names(self):
        return [str(path.relative_to(self.folder)) for path in self.traces()]

    def test_the_usual_name_tells_program_host_and_process(self):
        self.record(support.PROGRAMS / "host_memory")
        host = re.escape(os.uname().nodename)
        self.assertRegex(self.only_trace().name, rf"^gpumemtrace-host_memory\.{host}\.\d+\.gmt$")

    def test_a_taken_name_gets_a_number(self):
        for _ in range(3):
            self.record_as("trace.gmt")
        self.assertEqual(self.names(), ["trace.2.gmt", "trace.3.gmt", "trace.gmt"])

    def test_processes_that_want_one_name_at_once_all_get_one(self):
        processes = [
            self.start(
                [support.PROGRAMS / "host_memory"],
                support.recorded_environment(GPUMEMTRACE_OUTPUT="trace.gmt"),
                stdout=subprocess.DEVNULL)
            for _ in range(8)
        ]
        for process in processes:
            self.assertEqual(process.wait(support.TIMEOUT_S), 0)
        self.assertEqual(len(self.traces()), 8)
        # On a busy machine they run one after the other: the same program again.
        report = support.analyze(self.folder, "--all-runs")
        self.assertEqual(len(report["processes"]), 8)

    def test_force_replaces_what_was_there(self):
        self.record_as("trace.gmt")
        first = self.report()["processes"][0]["pid"]
        self.record_as("trace.gmt", GPUMEMTRACE_FORCE=1)
        self.assertEqual(self.names(), ["trace.gmt"])
        self.assertNotEqual(self.report()["processes"][0]["pid"], first)

    def test_force_does_not_replace_a_trace_that_is_being_written(self):
        self.record(
            support.VICTIMS / "processes", "fork_and_exec", GPUMEMTRACE_OUTPUT="trace.gmt",
            GPUMEMTRACE_FORCE=1)
        self.assertEqual(self.names(), ["trace.2.gmt", "trace.gmt"])
        self.assertEqual(
            support.usage(self.report(), "driver", "device")["allocations"],
            OF_PARENT + OF_NEW_PROGRAM)

    def test_placeholders_are_filled_in(self):
        host = os.uname().nodename
        self.record_as("%e/%h-%n-%q{COLOR}-%j-100%%.gmt", COLOR="red", SLURM_JOB_ID=12)
        short = host.split(".")[0]
        self.assertEqual(self.names(), [f"host_memory/{host}-{short}-red-12-100%.gmt"])

    def test_process_and_time_are_numbers(self):
        self.record_as("%p-%t")
        self.assertRegex(self.names()[0], r"^\d+-\d{10,}\.gmt$")

    def test_an_unset_rank_vanishes_with_its_dot(self):
        self.record_as("a.r%r.gmt")
        self.record_as("b.%r.gmt")
        self.record_as("c.r%r.gmt", RANK=3, WORLD_SIZE=8)
        self.assertEqual(self.names(), ["a.gmt", "b.gmt", "c.r3.gmt"])

    def test_an_unset_variable_is_empty_and_a_slash_in_one_stays_in_the_folder(self):
        self.record_as("a%q{OF_NOBODY}.gmt")
        self.record_as("b-%q{PLACE}.gmt", PLACE="../elsewhere")
        self.assertEqual(self.names(), ["a.gmt", "b-.._elsewhere.gmt"])

    def test_a_name_that_ends_in_a_slash_is_a_folder(self):
        self.record_as("traces/")
        self.assertRegex(self.names()[0], r"^traces/gpumemtrace-host_memory\.")


if __name__ == "__main__":
    unittest.main()
