# SPDX-License-Identifier: Apache-2.0
"""Targets of links in the documents exist, and the lists of tests and programs in them are complete."""

import collections
import gzip
import hashlib
import json
import os
import re
import unittest

import compatibility_test
import python_stacks_test
import support
import tutorials_test

ROOT = support.HERE.parent.parent
# In Markdown: after `](`, or after `[name]: ` at the beginning of a line; in HTML: a value of
# these.
LINK = re.compile(r"""(?:\]\(<?|^\[[^\]]+\]:\s+<?|\b(?:href|src|srcset)=["'])([^\s)>"'#]*)(?:#([^\s)>"']*))?""",
                  re.MULTILINE)
ROOMS = ("analyzer", "bench", "cmake", "cupti", "preload", "tests", "tools", "trace")
# A path from the top, such as preload/hooks/dlsym.cpp or trace/{reader,unpack}.cpp; what stands
# behind another folder, such as build/tools/, is none.
PATH = re.compile(rf"(?<![\w/.$-])((?:{'|'.join(ROOMS)}|docs)/[\w./{{}},*-]*[\w}}*])")
SUFFIXES = {".c", ".cmake", ".cpp", ".cu", ".def", ".h", ".hpp", ".inc", ".mjs", ".py", ".S",
            ".ts"}
COMMENT = re.compile(r"(?<!\S)(//|#) .*")


def sources():
    """Everything that is compiled or run: also what has no suffix and begins with #!."""
    files = [ROOT / "CMakeLists.txt", *(ROOT / ".ci").iterdir()]
    for room in ROOMS:
        for file in sorted((ROOT / room).rglob("*")):
            if {"__pycache__", "data", "node_modules", "regressions"} & set(file.parts) or not file.is_file():
                continue
            if (file.suffix in SUFFIXES or file.name == "CMakeLists.txt"
                    or file.read_bytes()[:2] == b"#!"):
                files.append(file)
    return files


def without_braces(path):
    """a/{b,c}.d stands for a/b.d and a/c.d."""
    found = re.search(r"\{([^{}]*)\}", path)
    if not found:
        return [path]
    return [whole for part in found[1].split(",")
            for whole in without_braces(path[:found.start()] + part + path[found.end():])]


def documents():
    yield from sorted(ROOT.glob("*.md"))
    for folder in ("docs", *ROOMS):
        yield from (file for file in sorted((ROOT / folder).rglob("*.md"))
                    if "node_modules" not in file.parts)


def prose(document):
    """Its text without code, in which neither a link nor a heading is one."""
    text = re.sub(r"^( *)```.*?^\1```", "", document.read_text(), flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"(?<=\n\n)(?: {4}.*\n|\n(?= {4}))+", "", text)


def anchors(document):
    """The valid texts of a link behind #, as GitHub makes it of the headings, or an id in HTML."""
    found = set(re.findall(r"""<[^>]*\b(?:id|name)=["']([^"']+)""", prose(document)))
    seen = collections.Counter()
    for heading in re.findall(r"^#{1,6} +(.*?)(?: #+)? *$", prose(document), re.MULTILINE):
        heading = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        slug = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        found.add(f"{slug}-{seen[slug]}" if seen[slug] else slug)
        seen[slug] += 1
    return found


class Links(support.EndToEnd):
    def test_every_link_leads_to_a_file_and_a_heading(self):
        links = 0
        for document in documents():
            for place, heading in LINK.findall(re.sub(r"`[^`\n]*`", "", prose(document))):
                if re.match(r"\w+:", place):  # of the network
                    continue
                links += 1
                with self.subTest(document=str(document.relative_to(ROOT)), link=f"{place}#{heading}"):
                    target = (document.parent / place).resolve() if place else document
                    self.assertTrue(target.is_relative_to(ROOT) and target.exists())
                    if heading:
                        self.assertIn(heading, anchors(target))
        self.assertGreater(links, 100)


class Paths(support.EndToEnd):
    """Files that documents and comments name lie where they say."""

    def test_every_path_that_a_document_names_exists(self):
        self.check(sorted(documents()), lambda line: line)

    def test_every_path_that_a_comment_names_exists(self):
        self.check(sources(), lambda line: (COMMENT.search(line) or [""])[0])

    def test_every_script_that_names_its_interpreter_can_be_started(self):
        for file in sources():
            if file.read_bytes()[:2] == b"#!":
                with self.subTest(file=str(file.relative_to(ROOT))):
                    self.assertTrue(os.access(file, os.X_OK))

    def check(self, files, said_by):
        paths = 0
        for file in files:
            for number, line in enumerate(file.read_text().splitlines(), 1):
                for named in PATH.findall(said_by(line)):
                    for path in without_braces(named):
                        paths += 1
                        with self.subTest(file=f"{file.relative_to(ROOT)}:{number}", path=path):
                            # NAME and other words in capitals stand for any.
                            pattern = re.sub(r"(?<![A-Z])[A-Z]{3,}(?![\w.]*\.md)", "*", path)
                            self.assertTrue(any(ROOT.glob(pattern)))
        self.assertGreater(paths, 50)


class Commands(support.EndToEnd):
    """Everything to type in the documents exists: the command, and each of its options."""

    COMMAND = re.compile(r"(?<![\w-])gpumemtrace ([a-z]+)((?: +[^\s`|;]+)*)")

    def help_of(self, *command):
        return self.run_command([support.TOOL, *command, "--help"],
                                support.base_environment()).stdout.decode()

    def commands(self):
        listed = re.search(r"^Subcommands:\n((?:  .*\n)+)", self.help_of(), re.MULTILINE)[1]
        return re.findall(r"^  (\w+) ", listed, re.MULTILINE)

    def typed_in(self, document):
        """Each command in a code block or in code within a line, and its words up to ` -- `."""
        fenced = False
        for line in document.read_text().splitlines():
            fenced ^= line.startswith("```")
            block = fenced or line.startswith("    ")
            for code in [line] if block else re.findall(r"`([^`]*)`", line):
                for name, words in self.COMMAND.findall(code.split("#")[0]):
                    yield name, words.split(" -- ")[0].split()

    def test_every_command_is_listed(self):
        text = (ROOT / "docs" / "commands.md").read_text()
        self.assertGreater(len(self.commands()), 10)
        for name in self.commands():
            with self.subTest(name=name):
                self.assertRegex(text, rf"(?m)^\| `{name}[ `]")

    def test_every_command_and_option_that_is_named_exists(self):
        options = {name: set(re.findall(r"--[a-z][\w-]*", self.help_of(name)))
                   for name in self.commands()}
        options["help"] = set()
        named = 0
        for document in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
            for name, words in self.typed_in(document):
                named += 1
                with self.subTest(document=document.name, command=[name, *words]):
                    self.assertIn(name, options)
                    used = {word.split("=")[0] for word in words if word.startswith("--")}
                    self.assertLessEqual(used, options[name])
        self.assertGreater(named, 80)


class ExecutedCommands(tutorials_test.Shown, support.EndToEnd):
    """The commands that pages show do what they are shown for: those on traces on saved ones, those
    that record on the simulated driver.

    tutorials_test executes the blocks `sh` of the pages in ELSEWHERE.
    """

    ELSEWHERE = {"faq.md", "tutorial-leak-check.md", "tutorial-out-of-memory.md"}
    TRACES = {"train": "torch_transformer_native", "job": "torch_transformer_native",
              "before": "case_kept_loss_faulty", "after": "case_kept_loss_faulty",
              "fragmented": "case_fragmented_faulty", "traces/": "torch_ddp"}
    NOT_EXECUTED = {"--fit": "needs recordings at several batch sizes, as whatif_fit_test has"}
    # Recorded programs that the simulated driver is not enough for.
    NOT_RECORDED = {"cases/fragmented.py": "fills an H100 through PyTorch: tests/gpu has it",
                    "fragmented.py": "needs PyTorch and a GPU",
                    "torchrun": "is PyTorch's: tests/gpu runs torch_ddp under it"}
    # Other recorded programs allocate and free.
    PROGRAMS = ("train.py", "my_test")
    PROGRAM = (f"#!{support.PYTHON}\nimport simcuda\ncontext = simcuda.Context()\n"
               "context.free(context.alloc(1 << 20))\n")

    def typed(self):
        """Every line of a code block that begins with the command."""
        for page in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]:
            fenced = False
            for line in page.read_text().splitlines():
                fenced ^= line.startswith("```")
                elsewhere = fenced and page.name in self.ELSEWHERE
                block = not elsewhere and (fenced or line.startswith("    "))
                if block and line.strip().startswith("gpumemtrace "):
                    yield page.name, line.split(" #")[0].strip()

    def test_every_command_that_records_does(self):
        for name in self.PROGRAMS:
            path = self.folder / name
            path.write_text(self.PROGRAM)
            path.chmod(0o755)
        records = [(page, line) for page, line in self.typed() if line.startswith("gpumemtrace run ")]
        words = [set(line.split()) for _, line in records]
        self.assertLessEqual(set(self.NOT_RECORDED), set().union(*words))
        records = [one for one, its_words in zip(records, words) if not its_words & set(self.NOT_RECORDED)]
        self.assertGreater(len(records), 4)
        outputs = tutorials_test.run_blocks([line for _, line in records], self.folder,
                                            LD_LIBRARY_PATH=support.SIMULATED_DRIVER, PYTHONPATH=support.SIMCUDA)
        self.assertEqual(len(outputs), len(records))
        for (page, line), (printed, exit_code) in zip(records, outputs):
            with self.subTest(page=page, command=line):
                self.assertEqual(exit_code, 0, printed)
                written = re.search(r"^gpumemtrace: wrote (\S+) ", printed, re.MULTILINE)[1]
                left = written + ".part.json.zst" if "--drop-traces" in line else written
                self.assertTrue((self.folder / left).exists())
                named = re.search(r" -o (\S+)", line)
                self.assertTrue(named is None or written.startswith(named[1].removesuffix(".gmt")), printed)
                self.assertTrue("--check" not in line or "\nPASSED: " in printed, printed)

    def test_every_command_on_a_trace_succeeds(self):
        for name, saved in self.TRACES.items():
            self.unpack(saved, name)
        (self.folder / "policy.txt").write_text("max-peak = 80GiB\n")
        snapshot = ROOT / "tests" / "data" / "snapshots" / "gpu" / "training.pickle.gz"
        (self.folder / "snapshot.pickle").write_bytes(gzip.decompress(snapshot.read_bytes()))
        typed = list(self.typed())
        words = [set(line.split(" -- ")[0].split()) for _, line in typed]
        skipped = {"run", *self.NOT_EXECUTED}
        read = [one for one, its_words in zip(typed, words) if not its_words & skipped]
        self.assertGreater(len(read), 15)
        self.assertLessEqual(set(self.NOT_EXECUTED), set().union(*words))
        outputs = tutorials_test.run_blocks([line for _, line in read], self.folder)
        self.assertEqual(len(outputs), len(read))
        for (page, line), (printed, exit_code) in zip(read, outputs):
            with self.subTest(page=page, command=line):
                # Commands that judge a job may say that it does not hold.
                judges = re.search(r" check | --max-", line)
                self.assertIn(exit_code, (0, 23) if judges else (0,), printed)


class Compatibility(support.EndToEnd):
    """docs/limits.md says what was tried, no more and no less."""

    def setUp(self):
        super().setUp()
        text = (ROOT / "docs" / "limits.md").read_text()
        self.rows = [[cell.strip() for cell in line.strip("|").split("|")]
                     for line in text.splitlines() if line.startswith("| ")]

    def versions(self, what, column):
        row = next(row for row in self.rows if row[0].startswith(what))
        return row[column].split(", ")

    def test_gpus_and_versions_are_those_of_the_saved_traces(self):
        programs = collections.defaultdict(set)
        for saved in (ROOT / "tests" / "data" / "gpu").glob("*/report.json.gz"):
            report = json.loads(gzip.decompress(saved.read_bytes()))
            for process in report["processes"]:
                python, torch = ((process[key] or {}).get("version") or "-" for key in ("python", "torch"))
                for name in {device["name"] for device in report["devices"]}:
                    programs[name, python, torch].add(saved.parent.name)
        expected = [[*key, str(len(names))] for key, names in programs.items()]
        self.assertCountEqual([row for row in self.rows if row[0].startswith("NVIDIA")], expected)

    def test_versions_are_those_of_the_tests(self):
        def all_of(module, name):
            return [vars(module)[key] for key in sorted(vars(module)) if re.fullmatch(name + r"\d+", key)]

        def written(version):
            return f"{version // 1000}.{version % 1000 // 10}"

        pythons = [f"{test.VERSION[0]}.{test.VERSION[1]}" for test in all_of(python_stacks_test, "Python")]
        drivers = all_of(compatibility_test, "Driver")
        self.assertCountEqual(self.versions("CPython", 2), pythons)
        self.assertEqual(self.versions("CUDA driver", 2), [test.__name__[len("Driver"):] for test in drivers])
        self.assertEqual(self.versions("CUDA of the driver", 2), [written(test.version) for test in drivers])
        self.assertEqual(self.versions("CUDA runtime", 1), [written(version) for version in compatibility_test.RUNTIMES])

    def test_what_ran_on_gpus_is_in_the_first_table(self):
        rows = [row for row in self.rows if row[0].startswith("NVIDIA")]
        self.assertEqual(self.versions("GPU", 1), sorted({row[0] for row in rows}))
        self.assertEqual(self.versions("CPython", 1),
                         sorted({row[1].rpartition(".")[0] for row in rows if row[1] != "-"}))
        self.assertEqual(self.versions("PyTorch", 1),
                         sorted({row[2].partition("+")[0] for row in rows if row[2] != "-"}))


class Licences(support.EndToEnd):
    def test_every_source_names_its_licence_at_its_top(self):
        files = sources()
        for file in files:
            with self.subTest(file=str(file.relative_to(ROOT))):
                self.assertRegex("".join(file.read_text().splitlines(True)[:2]),
                                 r"^(#!.*\n)?(//|#|/\*) SPDX-License-Identifier: Apache-2\.0( \*/)?\n")
        self.assertGreater(len(files), 800)

    def test_the_licence_is_the_official_text(self):
        self.assertEqual(hashlib.sha256((ROOT / "LICENSE").read_bytes()).hexdigest(),
                         "cfc7749b96f63bd31c3c42b5c471bf756814053e847c10f3eb003417bc523d30")


class Lists(support.EndToEnd):
    """The tables of each README name everything that lies beside it."""

    def check(self, folder, names):
        text = (ROOT / "tests" / folder / "README.md").read_text()
        self.assertTrue(names)
        for name in names:
            with self.subTest(name=name):
                self.assertRegex(text, rf"\| `{re.escape(name)}[` ]")

    def files(self, folder, pattern):
        return [path.stem for path in (ROOT / "tests" / folder).glob(pattern)]

    def test_the_end_to_end_tests(self):
        self.check("end_to_end", self.files("end_to_end", "*_test.py"))

    def test_the_programs_of_the_end_to_end_tests(self):
        self.check("programs", self.files("programs", "*.cpp"))

    def test_the_fuzzed_programs(self):
        self.check("fuzz", self.files("fuzz", "fuzz_*.cpp"))

    def test_the_folders_of_the_tests(self):
        self.check(".", [path.name + "/" for path in (ROOT / "tests").iterdir()
                        if path.is_dir() and path.name != "__pycache__"])

    def test_the_pages_of_the_documents(self):
        text = (ROOT / "docs" / "README.md").read_text()
        for page in sorted([*(ROOT / "docs").glob("*.md"), *(ROOT / "docs" / "internals").glob("*.md")]):
            name = page.relative_to(ROOT / "docs")
            if page.name != "README.md":
                with self.subTest(page=name):
                    self.assertIn(f"| [{name}]({name}) |", text)

    def test_the_cases_on_a_gpu(self):
        text = (ROOT / "tests" / "gpu" / "README.md").read_text()
        cases = self.files("gpu/programs/cases", "*.py")
        self.assertTrue(cases)
        for case in cases:
            with self.subTest(case=case):
                self.assertIn(f"`case_{case}`", text)


if __name__ == "__main__":
    unittest.main()
