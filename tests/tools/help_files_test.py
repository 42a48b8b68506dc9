# SPDX-License-Identifier: Apache-2.0
"""Files that tools/help_files makes of the program's help: manual pages, and completion as shells give it.

GPUMEMTRACE_PROGRAM names the program.
"""

import gzip
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

PROGRAM = os.environ["GPUMEMTRACE_PROGRAM"]
HELP_FILES = pathlib.Path(__file__).resolve().parents[2] / "tools" / "help_files"
TIMEOUT_S = 300  # what takes longer hangs, on a busy machine, too
# A line for bash as its words; prints what may follow, and a last line: whether files may, too.
COMPLETE_IN_BASH = r"""
compopt() { files=no; }
complete() { options="$*"; }
source "$1"
shift
files=yes
COMP_WORDS=("$@")
COMP_CWORD=$(($# - 1))
_gpumemtrace
[[ $options == *" -o default "*" gpumemtrace" ]] || exit 1
printf '%s\n' "${COMPREPLY[@]}" "$files"
"""


def run(*command, **options):
    return subprocess.run([*map(str, command)], check=True, capture_output=True, text=True, timeout=TIMEOUT_S,
                          **options).stdout


def help_of(*command):
    return run(PROGRAM, *command, "--help")


def option_names(text):
    """The begins of a help's lines of options."""
    return {name for names in re.findall(r"^  (-\S+)", text, re.MULTILINE) for name in names.split(",")}


class HelpFiles(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        temporary = tempfile.TemporaryDirectory(prefix="gpumemtrace-")
        cls.addClassCleanup(temporary.cleanup)
        cls.share = pathlib.Path(temporary.name)
        run(sys.executable, HELP_FILES, PROGRAM, cls.share, env={**os.environ, "SOURCE_DATE_EPOCH": "0"})
        cls.bash = cls.share / "bash-completion/completions/gpumemtrace"
        cls.zsh = cls.share / "zsh/site-functions/_gpumemtrace"
        cls.fish = cls.share / "fish/vendor_completions.d/gpumemtrace.fish"
        cls.commands = re.findall(r"^  (\w+)  +\S", help_of().partition("Subcommands:")[2], re.MULTILINE)


class ManualPages(HelpFiles):
    def test_there_is_one_for_the_program_and_for_each_command(self):
        names = {path.name for path in (self.share / "man/man1").iterdir()}
        self.assertEqual(names, {"gpumemtrace.1.gz", *(f"gpumemtrace-{name}.1.gz" for name in self.commands)})

    def test_a_page_says_what_the_help_says(self):
        page = gzip.decompress((self.share / "man/man1/gpumemtrace-export.1.gz").read_bytes()).decode()
        self.assertIn('.TH GPUMEMTRACE-EXPORT 1 1970-01-01 "gpumemtrace ', page)
        for line in help_of("export").splitlines()[1:]:
            self.assertIn(line.replace("\\", "\\e").replace("-", "\\-"), page)


    @unittest.skipUnless(shutil.which("man"), "man is not installed")
    def test_man_shows_each_page_without_a_warning(self):
        environment = {**os.environ, "LC_ALL": "C.UTF-8", "MANWIDTH": "80"}
        for path in sorted((self.share / "man/man1").iterdir()):
            with self.subTest(path.name):
                shown = subprocess.run(["man", "--warnings", "--local-file", "-E", "UTF-8", path], check=False,
                                       capture_output=True, text=True, timeout=TIMEOUT_S, env=environment)
                self.assertEqual((shown.returncode, shown.stderr), (0, ""))
                self.assertIn("DESCRIPTION", shown.stdout)


class Bash(HelpFiles):
    def complete(self, *words):
        """The words that bash offers for the last one; None if it offers files."""
        *found, files = run("bash", "--norc", "-c", COMPLETE_IN_BASH, "bash", self.bash, "gpumemtrace",
                            *words).splitlines()
        found = set(filter(None, found))
        self.assertFalse(found and files == "yes", found)
        return None if files == "yes" else found

    @unittest.skipUnless(shutil.which("shellcheck"), "shellcheck is not installed")
    def test_shellcheck_finds_nothing(self):
        run("shellcheck", "--shell=bash", self.bash)

    def test_the_first_word_is_a_command(self):
        self.assertEqual(self.complete(""), {*self.commands, "-h", "--help", "--version"})
        self.assertEqual(self.complete("su"), {"summary"})

    def test_every_command_has_the_options_of_its_help(self):
        for command in self.commands:
            with self.subTest(command):
                self.assertEqual(self.complete(command, "-"), option_names(help_of(command)))
        self.assertEqual(self.complete("export", "job.gmt", "--redact", "--requ"), {"--require-complete"})

    def test_a_value_is_one_of_those_that_the_help_names(self):
        formats = {"collapsed", "speedscope", "svg", "pprof", "perfetto",
                   "perfetto_archive", "memory_viz", "sqlite", "parquet"}
        self.assertEqual(self.complete("export", "--to", ""), formats)
        self.assertEqual(self.complete("export", "job.gmt", "--to", "s"), {"speedscope", "svg", "sqlite"})
        self.assertEqual(self.complete("export", "--to", "=", "m"), {"memory_viz"})
        self.assertEqual(self.complete("export", "--to", "="), formats)
        self.assertEqual(self.complete("env", "--for", "s"), {"shell", "srun", "slurm", "systemd"})
        self.assertEqual(self.complete("run", "--cupti", "full"), {"full", "full,kernels"})
        self.assertEqual(self.complete("dump", "job.gmt", "--kind", "mem"), {"memory_sample"})
        self.assertEqual(self.complete("ctl", "1", ""), {"start", "stop", "mark"})

    def test_the_names_of_commands_do_not_mix(self):
        """--to is a format in one command, a time in another."""
        self.assertEqual(self.complete("report", "--to", ""), set())

    def test_files_are_offered_where_one_is_read_or_written(self):
        for words in (["summary", ""], ["summary", "a.gmt", "b"], ["diff", "base.gmt", ""], ["report", "-o", ""],
                      ["run", "--policy", "="], ["export", "--to", "svg", ""]):
            with self.subTest(words):
                self.assertIsNone(self.complete(*words))

    def test_nothing_is_offered_where_nobody_can_know(self):
        for words in (["run", "--ring-size", ""], ["ctl", ""], ["ctl", "4711", "mark", ""]):
            with self.subTest(words):
                self.assertEqual(self.complete(*words), set())

    def test_what_a_run_starts_is_completed_as_without_it(self):
        before = ["run", "--max-peak", "2GiB,level", "=", "driver", "--simulate", "-o", "t.gmt", "--fail-on", "leak",
                  ":", "error"]
        for words in (["run"], before, ["run", "--"], [*before, "--"]):
            with self.subTest(words):
                found = self.complete_program(*words, "env")
                self.assertIn("env", found)
                self.assertNotIn("--force", self.complete_program(*words, "env", "-"))

    def complete_program(self, *words):
        """bash-completion is asked with the number of the program's word; without it there are
        commands, and files behind."""
        asked = run("bash", "--norc", "-c", "_command_offset() { COMPREPLY=(\"${COMP_WORDS[$1]}\"); }\n" +
                    COMPLETE_IN_BASH, "bash", self.bash, "gpumemtrace", *words).splitlines()[0]
        self.assertEqual(asked, "env")
        return run("bash", "--norc", "-c", COMPLETE_IN_BASH, "bash", self.bash, "gpumemtrace", *words).splitlines()


class OtherShells(HelpFiles):
    def test_every_option_of_every_command_is_there(self):
        zsh = self.zsh.read_text()
        fish = self.fish.read_text()
        self.assertTrue(zsh.startswith("#compdef gpumemtrace\n"))
        for command in self.commands:
            zsh_part = re.search(rf"^        {command}\)\n(.*?)^          ;;", zsh, re.MULTILINE | re.DOTALL)[1]
            fish_part = "".join(re.findall(rf"^.*__gpumemtrace_is {command}\b.*\n", fish, re.MULTILINE))
            for name in option_names(help_of(command)):
                with self.subTest(f"{command} {name}"):
                    self.assertRegex(zsh_part, rf"(?m)^ *'\*?{name}[=+]?\[")
                    flag = f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}"
                    self.assertIn(f" {flag} ", fish_part)

    def test_values_and_files_are_there(self):
        zsh = self.zsh.read_text()
        self.assertIn(":(collapsed speedscope svg pprof perfetto perfetto_archive memory_viz sqlite parquet)'", zsh)
        self.assertIn("'2:ACTION:(start stop mark)'", zsh)
        self.assertIn("'*:INPUT:_files'", zsh)

    def test_a_description_is_the_first_sentence_of_the_helps(self):
        """Also where the help has it below a long name."""
        self.assertIn("--max-regression=[How much more than the baseline is allowed ", self.zsh.read_text())
        self.assertIn(" -l on-full -x -a 'drop block' -d 'A full ring drops events ", self.fish.read_text())

    @unittest.skipUnless(shutil.which("zsh"), "zsh is not installed")
    def test_zsh_reads_its_file(self):
        run("zsh", "-n", self.zsh)

    @unittest.skipUnless(shutil.which("fish"), "fish is not installed")
    def test_fish_reads_its_file(self):
        run("fish", "--no-execute", self.fish)

    @unittest.skipUnless(shutil.which("fish"), "fish is not installed")
    def test_fish_completes_as_bash_does(self):
        for line, expected in (("su", {"summary"}), ("export --to s", {"speedscope", "svg", "sqlite"}),
                               ("env --for=sr", {"--for=srun"}), ("ctl 4711 st", {"start", "stop"}),
                               ("run --fo", {"--force"}), ("run -o t.gmt env --fo", set()),
                               ("report --to ", set()), ("run -- gpumemtrace su", {"summary"})):
            with self.subTest(line):
                found = run("fish", "--no-config", "-c", f"source {self.fish}; complete -C 'gpumemtrace {line}'")
                self.assertEqual({row.split("\t")[0] for row in found.splitlines()}, expected)


if __name__ == "__main__":
    unittest.main()
