# SPDX-License-Identifier: Apache-2.0
"""Whatever ends a process, what it recorded is in the trace.

GPUMEMTRACE_TEST_KILLS sets how often each victim is killed at a random moment.
"""

import concurrent.futures
import os
import random
import signal
import unittest

import support
from victim_counters import Counters, dropped_calls, reported_calls

KILLS = int(os.environ.get("GPUMEMTRACE_TEST_KILLS", "25"))
SEED = int(os.environ.get("GPUMEMTRACE_TEST_SEED", "0")) or random.SystemRandom().getrandbits(32)
THREADS = 4
AT_ONCE = 4


class RandomKills:
    """SIGKILL at random moments: returned <= reported <= returned + threads, per kind."""

    def kill_once(self, number, generator, variables):
        counters = Counters(self.folder / f"counters.{number}")
        trace = self.folder / f"{number}.gmt"
        process = self.start(
            [support.PROGRAMS / "endless", self.folder / f"counters.{number}", THREADS],
            support.recorded_environment(GPUMEMTRACE_OUTPUT=trace, **variables))
        # From the first call to many recycled rings, as likely early as late.
        moment = int(2 ** generator.uniform(0, 17))
        support.wait_until(
            lambda: counters.read()["allocations"] >= moment or process.poll() is not None,
            f"{moment} allocations")
        process.kill()
        self.assertEqual(process.wait(support.TIMEOUT_S), -signal.SIGKILL)
        report = support.analyze(trace)
        self.check(counters.read(), report)
        trace.unlink()
        trace.with_name(trace.name + ".ring").unlink()

    def check(self, returned, report):
        self.assertEqual(report["traces"][0]["end"], "unknown")
        reported = reported_calls(report)
        dropped = dropped_calls(report)
        for name, count in returned.items():
            seen = reported[name] + dropped[name]
            self.assertLessEqual(count, seen, f"{name}: {returned} {reported} {dropped}")
            self.assertLessEqual(seen, count + THREADS, f"{name}: {returned} {reported} {dropped}")
        self.assertEqual(report["leaks"]["state"], "not_applicable")
        lost = support.losses(report)
        # The victims' loops have a period, so they may have more steps than are reported.
        allowed = {
            "unfinished_calls", "order_repaired", "clock_not_calibrated", "steps_left_out"}
        if any(dropped.values()):
            allowed |= {f"dropped_{name}" for name in (*Counters.NAMES, "others")}
            allowed |= {"unknown_frees", "live_address_allocated"}
        self.assertLessEqual(set(lost), allowed)

    def kill_often(self, **variables):
        generators = [random.Random(f"{SEED}.{number}") for number in range(KILLS)]
        with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as executor:
            runs = [
                executor.submit(self.kill_once, number, generator, variables)
                for number, generator in enumerate(generators)
            ]
            for number, run in enumerate(runs):
                with self.subTest(seed=SEED, run=number):
                    run.result()


class KilledWithTheUsualRing(RandomKills, support.EndToEnd):
    def test_nothing_is_lost(self):
        self.kill_often()


class KilledWithASmallRing(RandomKills, support.EndToEnd):
    """Chunks change hands, are packed and recycled all the time."""

    def test_nothing_is_lost_where_the_program_waits(self):
        self.kill_often(GPUMEMTRACE_RING_SIZE="2MiB", GPUMEMTRACE_ON_FULL="block")

    def test_what_is_lost_is_counted_where_the_program_does_not_wait(self):
        self.kill_often(GPUMEMTRACE_RING_SIZE="2MiB", GPUMEMTRACE_ON_FULL="drop")


class KilledAtBothEnds(support.EndToEnd):
    """SIGKILL while the trace is being made, and while the process ends."""

    def test_a_trace_that_was_just_made_is_readable_or_told_to_be_no_trace(self):
        for number in range(KILLS // 5):
            with self.subTest(number=number):
                counters = Counters(self.folder / f"counters.{number}")
                trace = self.folder / f"{number}.gmt"
                process = self.start(
                    [support.PROGRAMS / "endless", self.folder / f"counters.{number}", THREADS],
                    support.recorded_environment(GPUMEMTRACE_OUTPUT=trace))
                support.wait_until(trace.exists, "the trace exists")
                process.kill()
                process.wait(support.TIMEOUT_S)
                result = self.run_command(
                    [support.TOOL, "analyze", trace], support.base_environment())
                if result.returncode == 0:
                    continue
                self.assertEqual(result.returncode, 1)
                self.assertEqual(len(result.stderr.splitlines()), 1, result.stderr)
                self.assertEqual(counters.read()["allocations"], 0)

    def test_nothing_is_lost_in_the_last_moments(self):
        generator = random.Random(SEED)
        rounds = 2000
        for number in range(KILLS // 5):
            with self.subTest(seed=SEED, number=number):
                path = self.folder / f"counters.{number}"
                counters = Counters(path)
                trace = self.folder / f"{number}.gmt"
                process = self.start(
                    [support.VICTIMS / "endings", path, "return", "quiet", rounds],
                    support.recorded_environment(GPUMEMTRACE_OUTPUT=trace))
                everything = {"allocations": THREADS * rounds, "copies": THREADS * rounds,
                              "frees": THREADS * (rounds - 2)}
                support.wait_until(
                    lambda counters=counters: counters.read() == everything, "all calls returned")
                for _ in range(generator.randrange(3000)):
                    process.poll()
                process.kill()
                process.wait(support.TIMEOUT_S)
                report = support.analyze(trace)
                self.assertEqual(reported_calls(report), everything)
                self.assertIn(report["traces"][0]["end"], ("exit", "unknown"))
                self.assertLessEqual(set(support.losses(report)), {"clock_not_calibrated"})


class OtherEndings(support.EndToEnd):
    """Ends that the kernel or the program makes."""

    ORDERLY = ("return", "exit", "exit_in_thread", "_exit", "_Exit", "quick_exit")
    SUDDEN = {"abort": -signal.SIGABRT, "sigterm": -signal.SIGTERM,
              "segmentation_fault": -signal.SIGSEGV}

    def end(self, mode, state):
        path = self.folder / f"counters.{mode}.{state}"
        trace = self.folder / f"{mode}.{state}.gmt"
        counters = Counters(path)
        result = self.run_command(
            [support.VICTIMS / "endings", path, mode, state],
            support.recorded_environment(GPUMEMTRACE_OUTPUT=trace))
        self.assertEqual(result.returncode, self.SUDDEN.get(mode, 0), result.stderr)
        self.assertEqual(result.stderr, b"")
        report = support.analyze(trace)
        self.assertEqual(
            report["traces"][0]["end"], "exit" if mode in self.ORDERLY else "unknown")
        return counters.read(), report

    def test_nothing_is_lost_where_no_call_is_under_way(self):
        for mode in (*self.ORDERLY, *self.SUDDEN):
            with self.subTest(mode=mode):
                returned, report = self.end(mode, "quiet")
                self.assertEqual(reported_calls(report), returned)
                device = support.usage(report, "driver", "device")
                self.assertEqual(
                    device["live_count_at_end"], returned["allocations"] - returned["frees"])
                self.assertEqual(set(support.losses(report)) - {"clock_not_calibrated"}, set())

    def test_at_most_the_calls_under_way_differ_while_threads_run(self):
        for mode in (*self.ORDERLY, *self.SUDDEN):
            with self.subTest(mode=mode):
                returned, report = self.end(mode, "busy")
                reported = reported_calls(report)
                dropped = dropped_calls(report)
                for name, count in returned.items():
                    seen = reported[name] + dropped[name]
                    self.assertLessEqual(count, seen, name)
                    self.assertLessEqual(seen, count + THREADS, name)

    def test_python_ending_at_once_loses_nothing(self):
        program = (
            "import os, simcuda\n"
            "cuda = simcuda.Context()\n"
            "blocks = [cuda.alloc(4096) for _ in range(1000)]\n"
            "for block in blocks[:-3]: cuda.free(block)\n"
            "os._exit(5)\n")
        result = self.run_command(
            [support.PYTHON, "-c", program], support.recorded_environment())
        self.assertEqual(result.returncode, 5, result.stderr)
        device = support.usage(self.report(), "driver", "device")
        self.assertEqual((device["allocations"], device["frees"]), (1000, 997))


if __name__ == "__main__":
    unittest.main()
