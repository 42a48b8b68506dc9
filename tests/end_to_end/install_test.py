# SPDX-License-Identifier: Apache-2.0
"""Files of `cmake --install` work in any place."""

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


PROJECT = """
cmake_minimum_required(VERSION 3.20)
project(steps C)
enable_testing()
find_package(gpumemtrace ${VERSION} EXACT REQUIRED)
add_executable(steps steps.c)
target_link_libraries(steps PRIVATE gpumemtrace::api)
gpumemtrace_check(steps SIMULATE)
"""

# Memory that the program takes from the driver and gives back, so that there is something to judge.
STEPS = """
#include <gpumemtrace.h>
static void* function(const char* name) {
  static void* driver;
  if (driver == NULL) driver = dlopen("libcuda.so.1", RTLD_NOW);
  return dlsym(driver, name);
}
int main(void) {
  void* context;
  unsigned long long address;
  gpumemtrace_step();
  ((int (*)(unsigned))function("cuInit"))(0);
  ((int (*)(void**, int))function("cuDevicePrimaryCtxRetain"))(&context, 0);
  ((int (*)(void*))function("cuCtxSetCurrent"))(context);
  ((int (*)(unsigned long long*, size_t))function("cuMemAlloc_v2"))(&address, 4096);
  gpumemtrace_mark("of_the_header");
  return ((int (*)(unsigned long long))function("cuMemFree_v2"))(address);
}
"""


@unittest.skipUnless(cmake(), "there is no CMake here")
class Installed(support.EndToEnd):
    def install(self):
        """A copy that was moved as a whole since it was installed."""
        place = self.folder / "place"
        self.run_well([cmake(), "--install", support.BUILD, "--prefix", place])
        return place.rename(self.folder / "moved")

    def run_well(self, command, **variables):
        result = self.run_command(command, support.base_environment(**variables))
        self.assertEqual(result.returncode, 0, (result.stdout + result.stderr).decode())
        return result.stdout.decode()

    def version(self, place):
        return self.run_well([place / "bin" / "gpumemtrace", "--version"]).splitlines()[0].split()[-1]

    def test_an_installed_copy_records_and_reports(self):
        moved = self.install()
        self.assertLessEqual(
            {"bin/gpumemtrace", "lib/gpumemtrace/libgpumemtrace.so",
             "include/gpumemtrace.h", "include/gpumemtrace_catch2.hpp",
             "include/gpumemtrace_googletest.hpp", "lib/gpumemtrace/python/gpumemtrace.py",
             "lib/gpumemtrace/python/torch_names/sitecustomize.py",
             "lib/gpumemtrace/python/gpumemtrace_pytest.py",
             "lib/gpumemtrace/python/gpumemtrace_reader.py",
             "lib/gpumemtrace/python/gpumemtrace_lightning.py",
             "lib/gpumemtrace/python/gpumemtrace_training.py",
             "lib/gpumemtrace/python/gpumemtrace_transformers.py",
             "lib/cmake/gpumemtrace/gpumemtrace_check.cmake", "share/pkgconfig/gpumemtrace.pc",
             "lib/cmake/gpumemtrace/gpumemtrace-config.cmake", "share/doc/gpumemtrace/findings.md",
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
        self.run_well(
            [moved / "bin" / "gpumemtrace", "run", "--simulate", "-o", "job.gmt", "--",
             sys.executable, "-c", program], PYTHONPATH=support.SIMCUDA)
        self.assertIn(
            str(moved / "lib" / "gpumemtrace" / "libgpumemtrace.so"),
            "\n".join(support.dump(self.folder / "job.gmt")))
        self.assertIn("PEAK", self.run_well([moved / "bin" / "gpumemtrace", "summary", "job.gmt"]))

    def test_a_cmake_project_finds_the_header_the_function_and_the_program(self):
        moved = self.install()
        (self.folder / "CMakeLists.txt").write_text(PROJECT)
        (self.folder / "steps.c").write_text(STEPS)
        self.run_well([cmake(), "-B", "build", f"-Dgpumemtrace_DIR={moved}/lib/cmake/gpumemtrace",
                       f"-DVERSION={self.version(moved)}"])
        self.run_well([cmake(), "--build", "build"])
        cache = (self.folder / "build" / "CMakeCache.txt").read_text()
        self.assertIn(f"={moved}/bin/gpumemtrace\n", cache)
        output = self.run_well([shutil.which("ctest"), "--test-dir", "build", "--output-on-failure"])
        self.assertIn("100% tests passed, 0 tests failed out of 1", output)
        self.assertIn("of_the_header", "\n".join(support.dump(self.only_trace())))

    def test_pkg_config_finds_the_header_and_what_it_needs(self):
        moved = self.install()
        (self.folder / "steps.c").write_text(STEPS)
        folder = {"PKG_CONFIG_PATH": moved / "share" / "pkgconfig"}
        flags = self.run_well(["pkg-config", "--cflags", "--libs", "gpumemtrace"], **folder).split()
        self.run_well(["cc", "-Werror", "steps.c", "-o", "steps", *flags])
        self.assertIn("-ldl", flags)
        version = self.run_well(["pkg-config", "--modversion", "gpumemtrace"], **folder)
        self.assertEqual(version.strip(), self.version(moved))


if __name__ == "__main__":
    unittest.main()
