# SPDX-License-Identifier: Apache-2.0
"""`check`, `run --check` and `diff` as build servers run them; every recipe of docs/ci.md; the
integrations with pytest, CMake, Catch2 and GoogleTest."""

import importlib.util
import json
import os
import pathlib
import re
import shutil
import subprocess
import unittest
import xml.etree.ElementTree

import support

try:
    import jsonschema
except ImportError:
    jsonschema = None

try:
    import yaml
except ImportError:
    yaml = None

ROOT = support.HERE.parents[1]
ZOO = support.HERE.parent / "zoo"
INTEGRATIONS = ROOT / "tools" / "integrations"
RECIPE = re.compile(r"^\s*(?:- )?(?:run: )?(gpumemtrace .*)$", re.MULTILINE)
SARIF_SCHEMA = ROOT / "tests" / "data" / "sarif" / "sarif-2.1.0.json"
SARIF_LEVELS = {"error", "warning", "note", "none"}


def recipes():
    """The commands of each code block of docs/ci.md."""
    text = (ROOT / "docs" / "ci.md").read_text()
    blocks = re.findall(r"```(?:sh|yaml)\n(.*?)```", text, re.DOTALL)
    return [commands for commands in map(RECIPE.findall, blocks) if commands]


class Ci:
    """In a folder with a test program `my_test`, clean unless FAULTY=1."""

    def setUp(self):
        super().setUp()
        self.packages = self.folder / "site-packages"
        self.packages.mkdir()
        for module in (support.SIMCUDA / "simcuda.py", ZOO / "support" / "zoo_cuda.py"):
            shutil.copy(module, self.packages)
        self.environment = support.base_environment(
            LD_LIBRARY_PATH=support.SIMULATED_DRIVER, PYTHONPATH=self.packages,
            PYTHONDONTWRITEBYTECODE="1", GPUMEMTRACE_PROGRAM=support.TOOL,
            PATH=f"{support.TOOL.parent}:{os.environ['PATH']}", GITHUB_STEP_SUMMARY=None)
        self.write("leak.py", (ZOO / "leak.py").read_text())
        self.write("my_test", f"#!/bin/sh\nif [ -n \"$FAULTY\" ]; then mode=faulty; else mode=clean; "
                              f"fi\nexec {support.PYTHON} leak.py $mode\n").chmod(0o755)
        self.write("suppressions.txt", "leak:^load_plugin$\n")
        self.write("policy.txt", "max-leak = 0\nmax-peak = 2GiB,level=driver\n"
                                 "fail-on = invalid_free\nsuppressions = suppressions.txt\n")

    def write(self, name, text):
        path = self.folder / name
        path.write_text(text)
        return path

    def shell(self, command, **variables):
        return subprocess.run(["sh", "-c", command], cwd=self.folder, text=True, timeout=support.TIMEOUT_S,
                              capture_output=True, env={**self.environment, **variables})

    def expect(self, code, command, **variables):
        result = self.shell(command, **variables)
        self.assertEqual(result.returncode, code, f"{command}\n{result.stdout}{result.stderr}")
        return result


class Recipes(Ci, support.EndToEnd):
    def test_every_recipe_passes_on_a_clean_program_and_fails_on_a_faulty_one(self):
        blocks = [commands for commands in recipes() if "diff" not in commands[0]]
        self.assertGreaterEqual(len(blocks), 4)
        for commands in blocks:
            for variables in ({}, {"FAULTY": "1"}):
                with self.subTest(commands=commands, **variables):
                    shutil.rmtree(self.folder / "traces", ignore_errors=True)
                    codes = [self.shell(command, **variables).returncode for command in commands]
                    gates = "--baseline" not in " ".join(commands)
                    self.assertEqual(codes[-1], 23 if variables and gates else 0, codes)

    def test_the_recipe_of_diff_says_what_grew(self):
        self.expect(0, "gpumemtrace run -o before.gmt -- ./my_test")
        self.expect(0, "gpumemtrace run -o after.gmt -- ./my_test", FAULTY="1")
        plain, limited = next(commands for commands in recipes() if "diff" in commands[0])
        self.assertIn("leak.py:12 in load", self.expect(0, plain).stdout)
        self.assertIn("FAILED: ", self.expect(23, limited).stdout)
        self.expect(0, limited.replace("after", "before"))


@unittest.skipIf(yaml is None, "python3-yaml is not installed")
class GithubAction(Ci, support.EndToEnd):
    """The steps of the composite action, run as GitHub runs them with the inputs that docs/ci.md gives."""

    def act(self, **variables):
        """The exit code of the first step that fails, or 0."""
        action = yaml.safe_load((INTEGRATIONS / "github-action" / "action.yml").read_text())
        recipe, = re.findall(r"```yaml\n( *- uses: OWNER/gpumemtrace/tools/integrations/github-action@.*?)```",
                             (ROOT / "docs" / "ci.md").read_text(), re.DOTALL)
        given = yaml.safe_load(recipe)[0]["with"]
        self.assertLessEqual(set(given), set(action["inputs"]))
        inputs = {name: given.get(name, row.get("default")) for name, row in action["inputs"].items()}
        self.assertEqual(action["runs"]["using"], "composite")
        for step in action["runs"]["steps"]:
            self.assertEqual(step["shell"], "bash")
            # The text of an input is never a part of the script.
            self.assertNotIn("${{", step["run"])
            values = {name: re.sub(r"\$\{\{ inputs\.(\w+) \}\}", lambda found: inputs[found[1]], value)
                      for name, value in step["env"].items()}
            script = self.write("step.sh", step["run"])
            result = self.shell(f"bash --noprofile --norc -eo pipefail {script}", **values, **variables)
            if result.returncode != 0:
                return result.returncode, result.stdout
        return 0, result.stdout

    def test_a_clean_program_passes(self):
        self.assertEqual(self.act()[0], 0)

    def test_a_violated_policy_fails_with_an_annotation(self):
        code, output = self.act(FAULTY="1", GITHUB_STEP_SUMMARY=str(self.folder / "summary.md"))
        self.assertEqual(code, 23)
        self.assertIn("::error file=leak.py,line=12,title=", output)
        self.assertIn("**FAIL**", (self.folder / "summary.md").read_text())
        self.assertTrue((self.folder / "gpu-memory.sarif").exists())

    def test_a_command_that_fails_keeps_its_exit_code(self):
        self.write("my_test", "#!/bin/sh\nexit 7\n").chmod(0o755)
        self.assertEqual(self.act()[0], 7)


class Check(Ci, support.EndToEnd):
    def test_run_check_judges_and_a_failing_command_keeps_its_code(self):
        self.expect(0, "gpumemtrace run --check -- ./my_test")
        failed = self.expect(23, "gpumemtrace run --check --verdict-file v.json -- ./my_test",
                             FAULTY="1")
        self.assertIn("leak.py:12", failed.stderr)
        self.assertIn("--write-baseline", failed.stderr)
        verdict = json.loads((self.folder / "v.json").read_text())
        self.assertEqual((verdict["outcome"], verdict["exit_code"]), ("violated", 23))
        self.assertEqual([row["status"] for row in verdict["findings"]], ["fails"])
        self.expect(7, "gpumemtrace run --max-leak 0 -- sh -c './my_test; exit 7'", FAULTY="1")

    def test_a_gate_that_saw_nothing_fails(self):
        self.expect(1, "gpumemtrace run --check -- true")
        self.expect(0, "gpumemtrace run --check --allow-empty -- true")
        (self.folder / "empty").mkdir()
        self.expect(1, "gpumemtrace check empty")
        self.expect(0, "gpumemtrace check empty --allow-empty")

    def test_a_killed_process_is_incomplete(self):
        code = "import os, zoo_cuda; zoo_cuda.Cuda().alloc(1 << 20); os.kill(os.getpid(), 9)"
        self.write("killed.py", code)
        self.shell(f"gpumemtrace run -o killed.gmt -- {support.PYTHON} killed.py")
        self.expect(24, "gpumemtrace check killed.gmt")
        self.expect(0, "gpumemtrace check killed.gmt --allow-incomplete")

    def test_baselines_and_suppressions_accept_what_is_known(self):
        self.expect(0, "gpumemtrace run -o t.gmt -- ./my_test", FAULTY="1")
        self.expect(23, "gpumemtrace check t.gmt")
        self.expect(0, "gpumemtrace check t.gmt --baseline b.json --write-baseline")
        self.expect(0, "gpumemtrace check t.gmt --baseline b.json")
        proposal = re.search(r"Suppress: (\S+)", self.expect(23, "gpumemtrace check t.gmt").stdout)
        self.write("s.txt", proposal[1] + "\nleak:nowhere\n")
        passed = self.expect(0, "gpumemtrace check t.gmt --suppressions s.txt")
        self.assertIn("hid nothing:\n  leak:nowhere", passed.stdout)

    def test_a_program_brings_its_own_suppressions(self):
        self.write("leak.py", "import gpumemtrace\ngpumemtrace.suppress('leak:^load$\\nleak:no')\n"
                   + (ZOO / "leak.py").read_text())
        api = {"PYTHONPATH": f"{self.packages}:{ROOT / 'preload' / 'api'}"}
        self.expect(0, "gpumemtrace run -o t.gmt -- ./my_test", FAULTY="1", **api)
        result = self.expect(0, "gpumemtrace check t.gmt")
        self.assertRegex(result.stdout, r"1 +1\.0 MiB +leak:\^load\$ \(in .*python.*:1\)")
        self.assertRegex(result.stdout, r"hid nothing:\n  leak:no \(in ")

    def test_a_stripped_program_brings_its_own_suppressions(self):
        self.expect(0, f"gpumemtrace run -o t.gmt -- {support.VICTIMS}/suppressing")
        result = self.expect(0, "gpumemtrace check t.gmt")
        self.assertRegex(result.stdout, r"1 +1\.0 MiB +leak:\^suppressing\$ \(in .*suppressing:2\)")

    def test_outputs_for_build_servers(self):
        self.expect(0, "gpumemtrace run -o t.gmt -- ./my_test", FAULTY="1")
        result = self.expect(23, "gpumemtrace check t.gmt --junit j.xml --sarif s.json --github",
                             GITHUB_STEP_SUMMARY=str(self.folder / "summary.md"))
        self.assertIn("::error file=leak.py,line=12,title=", result.stdout)
        self.assertIn("**FAIL**", (self.folder / "summary.md").read_text())
        suite = xml.etree.ElementTree.parse(self.folder / "j.xml").getroot()[0]
        self.assertEqual(suite.get("failures"), "1")
        self.assertEqual(len(suite.findall("testcase")), int(suite.get("tests")))
        run = json.loads((self.folder / "s.json").read_text())["runs"][0]
        for row in run["results"]:
            self.assertEqual(run["tool"]["driver"]["rules"][row["ruleIndex"]]["id"], row["ruleId"])
            self.assertIn(row["level"], SARIF_LEVELS)
            self.assertTrue(row["message"]["text"])
            self.assertTrue(all(row["partialFingerprints"].values()))
        place = run["results"][0]["locations"][0]["physicalLocation"]
        self.assertEqual(place["artifactLocation"]["uri"], "leak.py")
        self.assertEqual(place["region"]["startLine"], 12)

    @unittest.skipIf(jsonschema is None, "python3-jsonschema is not installed")
    def test_sarif_agrees_with_the_schema_of_its_standard(self):
        schema = json.loads(SARIF_SCHEMA.read_text())
        validate = jsonschema.validators.validator_for(schema)(schema).validate
        self.expect(0, "gpumemtrace run -o t.gmt -- ./my_test", FAULTY="1")
        self.expect(23, "gpumemtrace check t.gmt --sarif failed.json")
        proposal = re.search(r"Suppress: (\S+)", self.expect(23, "gpumemtrace check t.gmt").stdout)
        self.write("s.txt", proposal[1] + "\n")
        self.expect(0, "gpumemtrace check t.gmt --suppressions s.txt --sarif suppressed.json")
        for name in ("failed.json", "suppressed.json"):
            content = json.loads((self.folder / name).read_text())
            validate(content)
            content["runs"][0]["results"][0]["level"] = "fatal"
            with self.assertRaises(jsonschema.ValidationError):
                validate(content)


PYTEST_FILE = """
import pytest
import zoo_cuda

@pytest.mark.limit_gpu_leaks("0 B")
def test_leaks():
    zoo_cuda.Cuda().alloc(1 << 20)

@pytest.mark.limit_gpu_leaks("2 MiB")
@pytest.mark.limit_gpu_memory("2 MiB", level="driver")
def test_leaks_little():
    zoo_cuda.Cuda().alloc(1 << 20)

@pytest.mark.limit_gpu_memory("1 MiB")
def test_uses_much():
    cuda = zoo_cuda.Cuda()
    cuda.free(cuda.alloc(8 << 20))

@pytest.mark.limit_gpu_leaks("0 B")
def test_fails_by_itself():
    assert False

@pytest.mark.limit_gpu_leaks("0 B")
def test_skips():
    pytest.skip("no reason")

cache = []

@pytest.mark.limit_gpu_leaks("0 B", warmup=1)
def test_keeps_its_first():
    cuda = zoo_cuda.Cuda()
    if not cache:
        cache.append(cuda.alloc(1 << 20))
    cuda.free(cuda.alloc(1 << 20))

@pytest.mark.limit_gpu_leaks("0 B", warmup=2)
def test_keeps_more_each_time():
    zoo_cuda.Cuda().alloc(1 << 20)

def test_is_not_marked():
    pass
"""


@unittest.skipIf(importlib.util.find_spec("pytest") is None, "pytest is not installed")
class Pytest(Ci, support.EndToEnd):
    def test_marked_tests_are_held_to_their_limits(self):
        self.write("test_memory.py", PYTEST_FILE)
        result = self.shell(
            f"{support.PYTHON} -m pytest -p gpumemtrace_pytest -p no:cacheprovider -rA",
            PYTHONPATH=f"{self.packages}:{INTEGRATIONS}")
        outcomes = {name: outcome for outcome, name in re.findall(
            r"^(PASSED|FAILED) test_memory.py::(\w+)", result.stdout, re.MULTILINE)}
        self.assertEqual(outcomes, {"test_leaks": "FAILED", "test_leaks_little": "PASSED",
                                    "test_uses_much": "FAILED", "test_fails_by_itself": "FAILED",
                                    "test_keeps_its_first": "PASSED",
                                    "test_keeps_more_each_time": "FAILED",
                                    "test_is_not_marked": "PASSED"}, result.stdout)
        self.assertIn("1 skipped", result.stdout)
        self.assertIn("gpumemtrace: max-leak: 1.0 MiB lost, 0 bytes allowed", result.stdout)
        self.assertRegex(result.stdout,
                         r"FAILED test_memory.py::test_leaks - 1.0 MiB leaked at test_memory.py:7\n")
        self.assertRegex(result.stdout, r"\n    test_leaks \(test_memory.py:7\)\n")
        self.assertIn("test_memory.py:7", result.stdout)

    def pytest(self, text, *options, conftest="", **variables):
        self.write("conftest.py", conftest)
        self.write("test_it.py", "import pytest, zoo_cuda\n" + text)
        path = {"PYTHONPATH": f"{self.packages}:{INTEGRATIONS}"}
        return self.shell(f"{support.PYTHON} -m pytest -p gpumemtrace_pytest -rA {' '.join(options)}",
                          **{**path, **variables}).stdout

    def outcomes(self, output):
        return dict((name, outcome) for outcome, name in re.findall(
            r"^(PASSED|FAILED|XFAIL|XPASS|ERROR|SKIPPED) test_it.py::(\S+)", output, re.MULTILINE))

    def test_options_fixtures_and_parameters_are_those_of_the_session(self):
        output = self.pytest("""
@pytest.mark.limit_gpu_memory("1 MiB", level="driver")
@pytest.mark.parametrize("name", ["a", "b/c [d]"])
def test_size(size, name):
    cuda = zoo_cuda.Cuda()
    cuda.free(cuda.alloc(size))
    assert size == 64, name
""", "--size=64", "test_it.py", conftest="""
import pytest
def pytest_addoption(parser): parser.addoption("--size", type=int, default=1)
@pytest.fixture
def size(request): return request.config.getoption("--size")
""")
        self.assertIn("2 passed", output)

    def test_xfail_strict_or_not_foresees_a_broken_limit(self):
        output = self.pytest("""
@pytest.mark.xfail(reason="known")
@pytest.mark.limit_gpu_leaks("0 B")
def test_leaks(): zoo_cuda.Cuda().alloc(1 << 20)

@pytest.mark.xfail(strict=True, reason="known")
@pytest.mark.limit_gpu_leaks("0 B")
def test_leaks_strictly(): zoo_cuda.Cuda().alloc(1 << 20)

@pytest.mark.xfail
@pytest.mark.limit_gpu_leaks("0 B")
def test_fails(): assert zoo_cuda.Cuda() is None

@pytest.mark.xfail(strict=True)
@pytest.mark.limit_gpu_leaks("0 B")
def test_passes_strictly():
    cuda = zoo_cuda.Cuda()
    cuda.free(cuda.alloc(1))
""")
        self.assertEqual(self.outcomes(output), {
            "test_leaks": "XFAIL", "test_leaks_strictly": "XFAIL", "test_fails": "XFAIL",
            "test_passes_strictly": "FAILED"}, output)

    def test_times_and_output_are_those_of_the_test(self):
        output = self.pytest("""
@pytest.mark.limit_gpu_leaks("0 B")
def test_speaks():
    cuda = zoo_cuda.Cuda()
    print("said " + "once")
    cuda.alloc(1 << 20)

@pytest.mark.limit_gpu_leaks("0 B")
def test_skips(): pytest.skip("not today")
""", "--junitxml=j.xml")
        self.assertEqual(output.count("said once"), 1, output)
        self.assertIn("not today", output)
        self.assertNotIn("To accept", output)
        cases = xml.etree.ElementTree.parse(self.folder / "j.xml").getroot()[0].findall("testcase")
        self.assertEqual([case.get("name") for case in cases], ["test_speaks", "test_skips"])
        self.assertGreater(float(cases[0].get("time")), 0)

    def test_a_missing_program_is_an_error_or_a_skip_of_the_test(self):
        text = """
@pytest.mark.limit_gpu_leaks("0 B")
def test_marked(): pass
def test_not_marked(): pass
"""
        missing = {"GPUMEMTRACE_PROGRAM": "/nowhere/gpumemtrace"}
        self.assertIn("1 passed, 1 error", self.pytest(text, **missing))
        self.assertIn("1 passed, 1 skipped",
                      self.pytest(text, "--gpumemtrace-missing=skip", **missing))

    def test_traces_are_kept_where_asked(self):
        output = self.pytest("""
@pytest.mark.limit_gpu_leaks("0 B")
def test_leaks(): zoo_cuda.Cuda().alloc(1 << 20)
""", "--gpumemtrace-traces=kept")
        command = re.search(r"the trace is kept: (gpumemtrace .*)", output)[1]
        self.assertIn("test_it.py:4", self.expect(0, command).stdout)

    def test_a_test_that_ends_its_process_has_failed(self):
        output = self.pytest("""
import os
@pytest.mark.limit_gpu_leaks("0 B")
def test_ends(): os._exit(3)
""")
        self.assertIn("ended with exit code 3", output)

    @unittest.skipIf(importlib.util.find_spec("xdist") is None, "pytest-xdist is not installed")
    def test_workers_of_xdist_give_the_same(self):
        self.write("test_memory.py", PYTEST_FILE)
        result = self.shell(f"{support.PYTHON} -m pytest -p gpumemtrace_pytest -n 2 test_memory.py",
                            PYTHONPATH=f"{self.packages}:{INTEGRATIONS}")
        self.assertIn("4 failed, 3 passed, 1 skipped", result.stdout)


CMAKE_PROJECT = """
cmake_minimum_required(VERSION 3.20)
project(memory_of_tests CXX)
set(CMAKE_CXX_STANDARD 17)
enable_testing()
list(APPEND CMAKE_MODULE_PATH {root}/cmake)
include(gpumemtrace_check)
foreach(framework {frameworks})
  add_executable(${{framework}}_tests ${{framework}}_tests.cpp)
  target_include_directories(${{framework}}_tests PRIVATE {root}/tools/integrations {root}/preload/api)
  target_link_libraries(${{framework}}_tests PRIVATE ${{CMAKE_DL_LIBS}} pthread)
  gpumemtrace_check(${{framework}}_tests SIMULATE)
  gpumemtrace_check(${{framework}}_tests NAME ${{framework}}_clean ARGUMENTS {clean} SIMULATE)
endforeach()
if(TARGET googletest_tests)
  target_link_libraries(googletest_tests PRIVATE gtest_main gtest)
endif()
"""

USE_DRIVER = """
#include <dlfcn.h>
static void* driver() { static void* handle = dlopen("libcuda.so.1", RTLD_NOW); return handle; }
template <class... A> static int call(const char* name, A... arguments) {
  return reinterpret_cast<int (*)(A...)>(dlsym(driver(), name))(arguments...);
}
static unsigned long long allocate() {
  void* context = nullptr;
  unsigned long long address = 0;
  call("cuInit", 0u);
  call("cuDevicePrimaryCtxRetain", &context, 0);
  call("cuCtxSetCurrent", context);
  call("cuMemAlloc_v2", &address, static_cast<unsigned long>(1 << 20));
  return address;
}
"""

CATCH2_TESTS = """
#define CATCH_CONFIG_MAIN
#include <catch2/catch.hpp>
#include "gpumemtrace_catch2.hpp"
""" + USE_DRIVER + """
TEST_CASE("frees all") { call("cuMemFree_v2", allocate()); }
TEST_CASE("loses one") { allocate(); }
"""

GOOGLETEST_TESTS = """
#include "gpumemtrace_googletest.hpp"
""" + USE_DRIVER + """
TEST(Cache, FreesAll) { call("cuMemFree_v2", allocate()); }
TEST(Cache, LosesOne) { allocate(); }
"""

# Framework: its header, its tests, the argument that runs only the clean one, the faulty one's name.
FRAMEWORKS = {
    "catch2": ("catch2/catch.hpp", CATCH2_TESTS, '"frees all"', "loses one"),
    "googletest": ("gtest/gtest.h", GOOGLETEST_TESTS, "--gtest_filter=*FreesAll", "Cache.LosesOne"),
}


class CMake(Ci, support.EndToEnd):
    def check_framework(self, framework):
        header, tests, clean, faulty = FRAMEWORKS[framework]
        if not (pathlib.Path("/usr/include") / header).exists():
            self.skipTest(f"{header} is not installed")
        self.write(f"{framework}_tests.cpp", tests)
        self.write("CMakeLists.txt",
                   CMAKE_PROJECT.format(root=ROOT, frameworks=framework, clean=clean))
        self.expect(0, f"cmake -S . -B b -DGPUMEMTRACE_PROGRAM={support.TOOL} && cmake --build b")
        result = self.shell("ctest --test-dir b --output-on-failure")
        self.assertRegex(result.stdout, rf"{framework}_tests.gpu_memory \.*\**Failed", result.stdout)
        self.assertRegex(result.stdout, rf"{framework}_clean \.* +Passed")
        self.assertIn(f"It began in the range '{faulty}'.", result.stdout)

    def test_catch2_names_the_test_that_lost_memory(self):
        self.check_framework("catch2")

    def test_googletest_names_the_test_that_lost_memory(self):
        self.check_framework("googletest")
