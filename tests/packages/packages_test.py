# SPDX-License-Identifier: Apache-2.0
"""Packages of tools/package: each is put where its users put it, and records a job there.

GPUMEMTRACE_BUILD names the build folder that is packed.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ["GPUMEMTRACE_BUILD"])
SIMCUDA = ROOT / "tests" / "simulated_cuda"
LARGEST_BYTES = 10_000_000
TIMEOUT_S = 600
JOB = "import simcuda; context = simcuda.Context(); context.alloc(3 << 20)"

MARKED = """
import pytest, simcuda

@pytest.mark.limit_gpu_leaks("0 B")
@pytest.mark.parametrize("is_freed", [False, True])
def test_block(is_freed):
    context = simcuda.Context()
    block = context.alloc(3 << 20)
    if is_freed:
        context.free(block)
"""

READ = """
import sys, gpumemtrace
sys.modules["pandas"] = None
job = gpumemtrace.read("job.gmt")
print([row["bytes"] for row in job.allocations if row["level"] == "driver"], job._repr_html_()[:7])
"""


def run(*command, **options):
    return subprocess.run([*map(str, command)], check=True, capture_output=True, text=True, timeout=TIMEOUT_S,
                          **options).stdout


class Packages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory(prefix="gpumemtrace-")
        cls.addClassCleanup(cls.temporary.cleanup)
        cls.folder = pathlib.Path(cls.temporary.name) / "packages"
        cls.pack(cls.folder)

    @classmethod
    def pack(cls, folder):
        run(sys.executable, ROOT / "tools" / "package", folder, "--build", BUILD,
            env={**os.environ, "SOURCE_DATE_EPOCH": "1750000000"})

    def place(self, name):
        place = pathlib.Path(self.temporary.name) / name
        place.mkdir()
        return place

    def package(self, pattern):
        found, = self.folder.glob(pattern)
        return found

    def check_records(self, program, python=sys.executable, modules=""):
        """The program records a job on the simulated driver and explains it; Python reads it with the
        program that was installed beside its modules."""
        folder = pathlib.Path(tempfile.mkdtemp(dir=self.temporary.name))
        environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(SIMCUDA)}
        run(program, "run", "--simulate", "-o", "job.gmt", "--", python, "-c", JOB, cwd=folder, env=environment)
        self.assertIn("LEAKED    3.0 MiB", run(program, "summary", "job.gmt", cwd=folder))
        run(program, "report", "job.gmt", "-o", "job.html", cwd=folder)
        self.assertGreater((folder / "job.html").stat().st_size, 100_000)
        environment = {"PATH": "/nowhere", "PYTHONPATH": str(modules), "PYTHONDONTWRITEBYTECODE": "1"}
        self.assertEqual(run(python, "-c", READ, cwd=folder, env=environment), "[3145728] <iframe\n")

    def check_marked_tests(self, python):
        """By the entry point of the package alone, and with the plugin named as well."""
        folder = pathlib.Path(tempfile.mkdtemp(dir=self.temporary.name))
        (folder / "test_marked.py").write_text(MARKED)
        environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(SIMCUDA), "GPUMEMTRACE_PYTEST_OPTIONS": "--simulate"}
        for options in ((), ("-p", "gpumemtrace_pytest")):
            done = subprocess.run([python, "-m", "pytest", "-q", *options], cwd=folder, env=environment, check=False,
                                  capture_output=True, text=True, timeout=TIMEOUT_S)
            self.assertIn("3.0 MiB leaked", done.stdout)
            self.assertIn("1 failed, 1 passed", done.stdout)

    def check_header_is_found(self, place):
        """By pkg-config; install_test.py has a project of CMake, too."""
        self.assertTrue((place / "lib/cmake/gpumemtrace/gpumemtrace-targets.cmake").exists())
        folder = run("pkg-config", "--variable=includedir", "gpumemtrace",
                     env={**os.environ, "PKG_CONFIG_PATH": str(place / "share/pkgconfig")}).strip()
        self.assertTrue(pathlib.Path(folder, "gpumemtrace.h").samefile(place / "include/gpumemtrace.h"))

    def check_help_files(self, share, folder_of_zsh):
        """Files of man and shells, in their places; help_files_test.py checks their content."""
        for name in ("man/man1/gpumemtrace-run.1.gz", "bash-completion/completions/gpumemtrace",
                     f"{folder_of_zsh}/_gpumemtrace", "fish/vendor_completions.d/gpumemtrace.fish"):
            self.assertGreater((share / name).stat().st_size, 1000, name)

    def test_the_same_build_gives_the_same_bytes(self):
        again = self.place("again")
        self.pack(again)
        for path in sorted(self.folder.iterdir()):
            with self.subTest(path.name):
                self.assertEqual(path.read_bytes(), (again / path.name).read_bytes())

    def test_no_package_is_large(self):
        for path in self.folder.iterdir():
            self.assertLess(path.stat().st_size, LARGEST_BYTES, path.name)

    def test_the_archive_can_be_unpacked_anywhere_and_moved(self):
        place = self.place("archive")
        with tarfile.open(self.package("*.tar.gz")) as archive:
            archive.extractall(place)
        top, = place.iterdir()
        moved = top.rename(place / "moved")
        self.check_records(moved / "bin" / "gpumemtrace", modules=moved / "lib/gpumemtrace/python")
        self.assertTrue((moved / "share/doc/gpumemtrace/licenses/zstd.txt").exists())
        self.check_header_is_found(moved)
        self.check_help_files(moved / "share", "zsh/site-functions")

    def test_debian_packages_have_the_program_the_library_and_debug_information(self):
        place = self.place("debian")
        run("dpkg-deb", "-x", self.package("gpumemtrace_*.deb"), place)
        self.check_header_is_found(place / "usr")
        self.check_help_files(place / "usr/share", "zsh/vendor-completions")
        for name in ("libgpumemtrace", "gpumemtrace-dbgsym"):
            run("dpkg-deb", "-x", self.package(f"{name}_*.deb"), place)
        self.check_records(place / "usr" / "bin" / "gpumemtrace", modules=place / "usr/lib/python3/dist-packages")
        self.assertTrue((place / "usr/lib/debug/usr/bin/gpumemtrace.debug").exists())
        self.assertTrue((place / "usr/lib/debug/usr/lib/gpumemtrace/libgpumemtrace.so.debug").exists())
        control = run("dpkg-deb", "-f", self.package("gpumemtrace_*.deb"))
        self.assertIn("libgpumemtrace (=", control)

    def test_the_line_of_the_readme_installs_the_program_without_its_debug_information(self):
        pattern, = re.findall(r"apt-get install \./packages/(\S+)", (ROOT / "README.md").read_text())
        self.assertEqual({path.name.split("_")[0] for path in self.folder.glob(pattern)},
                         {"gpumemtrace", "libgpumemtrace"})

    @unittest.skipUnless(shutil.which("lintian"), "lintian is not installed")
    def test_lintian_finds_nothing_in_the_debian_packages(self):
        found = subprocess.run(["lintian", "--no-cfg", "--allow-root", "--fail-on", "error,warning",
                                *sorted(self.folder.glob("*.deb"))],
                               check=False, capture_output=True, text=True, timeout=TIMEOUT_S)
        self.assertEqual((found.returncode, found.stdout), (0, ""), found.stderr)

    def test_the_wheel_goes_into_an_environment_and_leaves_nothing(self):
        place = self.place("wheel")
        run(sys.executable, "-m", "venv", "--system-site-packages", place)  # for pytest
        before = self.files(place)
        pip = (place / "bin/python", "-m", "pip", "--disable-pip-version-check", "--no-input")
        run(*pip, "install", "--no-index", self.package("*.whl"))
        python = place / "bin" / "python"
        self.check_records(place / "bin" / "gpumemtrace", python)
        self.check_help_files(place / "share", "zsh/site-functions")
        self.assertEqual(run(python, "-c", "import gpumemtrace; gpumemtrace.step(); "
                                           "print(gpumemtrace.is_recorded())"), "False\n")
        self.assertEqual(run(python, "-c", "from importlib.metadata import distribution; "
                                           "print(*distribution('gpumemtrace').entry_points)").count("pytest11"), 1)
        self.check_marked_tests(python)
        run(*pip, "uninstall", "--yes", "gpumemtrace")
        self.assertEqual(self.files(place) - before, set())

    @staticmethod
    def files(place):
        return {path for path in place.rglob("*") if path.is_file() and "__pycache__" not in path.parts}

    def test_nothing_needs_a_newer_glibc_than_it_says_or_another_library(self):
        place = self.place("symbols")
        with tarfile.open(self.package("*.tar.gz")) as archive:
            archive.extractall(place)
        checked = 0
        for path in sorted(place.rglob("*")):
            if not path.is_file() or path.read_bytes()[:4] != b"\x7fELF":
                continue
            needed = set(re.findall(r"NEEDED +(\S+)", run("objdump", "-p", path)))
            self.assertLessEqual(needed, {"libc.so.6", "libdl.so.2", "libm.so.6", "libpthread.so.0",
                                          "ld-linux-x86-64.so.2"}, path)
            versions = re.findall(r"GLIBC_2\.(\d+)", run("objdump", "-T", path))
            self.assertLessEqual(max(map(int, versions)), 28, path)
            checked += 1
        self.assertEqual(checked, 3)


if __name__ == "__main__":
    unittest.main()
