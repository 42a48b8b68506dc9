# SPDX-License-Identifier: Apache-2.0
"""What `cmake --install` puts in place works there, wherever the place is."""

import re
import shutil
import subprocess
import sys
import unittest

import support


def cmake():
    """The CMake that configured the build folder; None where the folder was carried elsewhere."""
    cache = (support.BUILD / "CMakeCache.txt").read_text()
    return shutil.which(re.search(r"^CMAKE_COMMAND:INTERNAL=(.+)$", cache, re.MULTILINE)[1])


def sections(path):
    """The names of the ELF file's sections."""
    listing = subprocess.run(["readelf", "-SW", path], capture_output=True, text=True, check=True)
    return set(re.findall(r"^ +\[ *\d+\] (\S+)", listing.stdout, re.MULTILINE))


@unittest.skipUnless(cmake(), "there is no CMake here")
class Installed(support.EndToEnd):
    def test_an_installed_copy_records_and_reports(self):
        place = self.folder / "place"
        result = self.run_command(
            [cmake(), "--install", support.BUILD, "--prefix", place], support.base_environment())
        self.assertEqual(result.returncode, 0, result.stderr)
        moved = self.folder / "moved"
        place.rename(moved)
        self.assertLessEqual(
            {"bin/gpumemtrace", "lib/gpumemtrace/libgpumemtrace.so",
             "include/gpumemtrace.h", "include/gpumemtrace_catch2.hpp",
             "include/gpumemtrace_googletest.hpp", "lib/gpumemtrace/python/gpumemtrace.py",
             "lib/gpumemtrace/python/torch_names/sitecustomize.py",
             "lib/gpumemtrace/python/gpumemtrace_pytest.py",
             "lib/cmake/gpumemtrace/gpumemtrace_check.cmake", "share/doc/gpumemtrace/findings.md",
             "share/doc/gpumemtrace/LICENSE"},
            {str(path.relative_to(moved)) for path in moved.rglob("*") if path.is_file()})

        for installed in (moved / "bin" / "gpumemtrace",
                          moved / "lib" / "gpumemtrace" / "libgpumemtrace.so"):
            found = sections(installed)
            self.assertIn(".gnu_debuglink", found)
            self.assertFalse({".symtab", ".debug_info", ".debug_line"} & found, installed)
            self.assertLessEqual({".symtab", ".debug_info", ".debug_line"},
                                 sections(installed.with_name(installed.name + ".debug")))

        program = "import simcuda; cuda = simcuda.Context(); cuda.free(cuda.alloc(4096))"
        result = self.run_command(
            [moved / "bin" / "gpumemtrace", "run", "--simulate", "-o", "job.gmt", "--",
             sys.executable, "-c", program],
            support.base_environment(PYTHONPATH=support.SIMCUDA))
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn(
            str(moved / "lib" / "gpumemtrace" / "libgpumemtrace.so"),
            "\n".join(support.dump(self.folder / "job.gmt")))
        result = self.run_command(
            [moved / "bin" / "gpumemtrace", "summary", "job.gmt"], support.base_environment())
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn(b"PEAK", result.stdout)


if __name__ == "__main__":
    unittest.main()
