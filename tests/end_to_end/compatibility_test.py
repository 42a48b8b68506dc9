# SPDX-License-Identifier: Apache-2.0
"""Drivers and runtimes of other CUDA versions.

The simulated driver is also built with the symbols of older drivers alone (11040 is that of R470).
"""

import pathlib
import re
import unittest

import binary_test
import families_test
import support

SOURCE = support.HERE.parent.parent
EXPORTS = SOURCE / "tests" / "simulated_cuda" / "exports.inc"
TOOLKIT = pathlib.Path("/usr/local/cuda/include")
RUNTIMES = (11040, 11080, 12000, 12010, 12020, 12030, 12040, 12050, 12060, 12080, 12090, 13000)
# Functions that allocate, free, map, copy or set; the rest asks or launches.
MEMORY = re.compile(r"^cu(Mem(?!Get|Is|Range|AddressGet)|Array(3D)?(Create|Destroy)|Mipmapped|"
                    r"Ipc(Open|Close)Mem|ImportExternalMemory|ExternalMemoryGet|"
                    r"DestroyExternalMemory)")
# Memory functions by name that neither take, give, move nor set memory of this process.
HARMLESS = re.compile(r"^cu(MemAdvise|MemExport|MemHostGet|MemPool(Get|Export|SetAccess|ImportFrom)|"
                      r"MemRetain|MemSetAccess|MemMapArrayAsync|MipmappedArrayGet)")


def rows_of_exports():
    """Symbol and first CUDA version of each function that the simulated driver has."""
    return {symbol: int(version) for symbol, version in re.findall(
        r"^GPUMEMTRACE_EXPORT\(\d+, (\w+), (\d+),", EXPORTS.read_text(), re.MULTILINE)}


def base_name(symbol):
    """cuMemAlloc of cuMemAlloc_v2 and of cuMemAlloc_v2_ptds."""
    return re.match(r"(cu\w+?)(_v\d+)?(_ptds|_ptsz)?$", symbol)[1]


class Runtimes:
    """Mixed into one class a driver; `version` is as cuDriverGetVersion says it."""

    version = 0
    folder_of_driver = None

    @property
    def variables(self):
        driver = self.folder_of_driver or f"simulated_cuda_{self.version}"
        return {"LD_LIBRARY_PATH": support.BUILD / driver,
                "GPUMEMTRACE_SIM_DRIVER_VERSION": self.version}

    def test_what_runtimes_of_each_version_ask_for_is_wrapped(self):
        rows = rows_of_exports()
        names = sorted({base_name(symbol) for symbol in rows})
        for version in RUNTIMES:
            if version > self.version:
                continue
            with self.subTest(runtime=version):
                trace = self.folder / f"{version}.gmt"
                result = self.record(
                    support.PYTHON, support.SCRIPTS / "resolve_versions.py", version, *names,
                    GPUMEMTRACE_OUTPUT=trace, **self.variables)
                there = {base_name(symbol) for symbol, first in rows.items() if first <= version}
                self.assertEqual(int(result.stdout), 2 * len(there))
                report = support.analyze(trace)
                self.assertEqual(report["coverage"]["resolved_unwrapped"], [])
                self.assertEqual(support.usage(report, "driver", "device")["allocations"], 1)


class OldDriver(Runtimes, families_test.Families):
    """The same for a driver that programs run on."""

    test_behaves_as_without_us_and_the_report_is_true = None  # of one program; all run below

    def test_every_program_that_the_driver_can_run_is_recorded_to_the_byte(self):
        whole = self.folder
        ran = set()
        for case in vars(families_test).values():
            if not isinstance(case, type) or not issubclass(case, families_test.Families):
                continue
            # Linked with the newest driver, or made for several devices.
            if case.program in ("", "entry_points") or case.variables:
                continue
            with self.subTest(program=case.program):
                self.folder = whole / case.program
                self.folder.mkdir()
                self.program, self.arguments = case.program, case.arguments
                self.also_reported = case.also_reported
                if self.runs():
                    families_test.Families.test_behaves_as_without_us_and_the_report_is_true(self)
                    ran.add(case.program)
        self.folder = whole
        self.assertLessEqual({"arrays", "device_memory", "host_memory", "managed", "many_threads",
                              "training_like"}, ran)

    def runs(self):
        result = self.run_command([support.PROGRAMS / self.program, *self.arguments],
                                  support.driver_environment(**self.variables))
        return result.returncode == 0


class Driver470(OldDriver, support.EndToEnd):
    version = 11040


class Driver520(OldDriver, support.EndToEnd):
    version = 11080


class Driver525(OldDriver, support.EndToEnd):
    version = 12000


class Driver570(OldDriver, support.EndToEnd):
    version = 12080


class Driver580(Runtimes, support.EndToEnd):
    version = 13000
    folder_of_driver = "simulated_cuda"


class Headers(support.EndToEnd):
    """The table of functions against the toolkit's own list, where there is one."""

    def setUp(self):
        super().setUp()
        if not (TOOLKIT / "cudaTypedefs.h").exists():
            self.skipTest(f"there is no CUDA toolkit in {TOOLKIT.parent}")
        text = (TOOLKIT / "cudaTypedefs.h").read_text()
        self.versions = {}
        for name, version, per_thread in re.findall(
                r"\*PFN_(cu\w+?)_v(\d+)(_ptds|_ptsz)?\)", text):
            self.versions.setdefault(name + per_thread, set()).add(int(version))

    def test_the_versions_of_memory_functions_are_those_of_the_headers(self):
        ours = {}
        for symbol, version in rows_of_exports().items():
            per_thread = re.search(r"(_ptds|_ptsz)$", symbol)
            name = base_name(symbol) + (per_thread[1] if per_thread else "")
            ours.setdefault(name, set()).add(version)
        newest = max(version for versions in ours.values() for version in versions)
        for name, versions in self.versions.items():
            if MEMORY.match(name) and not HARMLESS.match(name):
                known = {version for version in versions if version <= newest}
                with self.subTest(name):
                    self.assertEqual(known - ours.get(name, set()), set())

    def test_every_memory_function_of_the_headers_is_wrapped(self):
        header = (TOOLKIT / "cuda.h").read_text()
        symbols = set(re.findall(r"CUDAAPI (cu\w+)\s*\(", header))
        symbols |= set(re.findall(r"#\s*define cu\w+\s+(cu\w+_v\d+)\s*$", header, re.MULTILINE))
        memory = {symbol for symbol in symbols
                  if MEMORY.match(symbol) and not HARMLESS.match(symbol)}
        self.assertGreater(len(memory), 100)
        self.assertEqual(sorted(memory - binary_test.wrapped_functions()), [])


if __name__ == "__main__":
    unittest.main()
