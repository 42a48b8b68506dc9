# SPDX-License-Identifier: Apache-2.0
"""Commands print what the documents show.

Every block `sh` of a tutorial (docs/tutorial-NAME.md) and of docs/faq.md runs, one after the other in one
shell. The folder is empty, as that of somebody who has installed a package. What a block `text` quotes is in the output of the
block `sh` before it, in this order; `...` stands for anything. Line breaks and times may differ.
"""

import gzip
import os
import re
import subprocess
import unittest

import support

ROOT = support.HERE.parents[1]
DOCS = ROOT / "docs"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
TIME = re.compile(r"\b[\d.]+ (ns|us|ms|s|min|h)\b")
MARK = "=== end of block ==="


# The traces that the commands of docs/faq.md read; they were saved on GPUs (tests/data/gpu).
SAVED = ROOT / "tests" / "data" / "gpu"
FAQ_TRACES = {"training": "torch_transformer_native", "fragmented": "case_fragmented_faulty",
              "full": "torch_oom", "growing": "case_inference_cache_faulty", "jax": "jax_train",
              "leaking": "case_cache_never_cleared_faulty", "ranks/": "torch_ddp"}


def quotable(text):
    """Text without line breaks and times, which are the machine's own."""
    return " ".join(TIME.sub("TIME", text).split())


def blocks_of(document):
    return BLOCK.findall(document.read_text())


def run_blocks(blocks, folder, **variables):
    """The output of each block of commands, and its exit code. Standard output and error are one."""
    script = "".join(f"{commands}\nended=$?; echo; echo '{MARK}' $ended\n" for commands in blocks)
    variables = {"PATH": f"{support.TOOL.parent}:{os.environ['PATH']}", "PYTHONPATH": None,
                 "PYTHONDONTWRITEBYTECODE": "1", **variables}
    environment = support.base_environment(**variables)
    result = subprocess.run(["bash", "-c", script], cwd=folder, env=environment, text=True,
                            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                            timeout=support.TIMEOUT_S)
    parts = re.split(rf"\n{MARK} (\d+)\n", result.stdout)
    return list(zip(parts[0::2], map(int, parts[1::2])))


class Shown:
    def assert_quoted(self, quote, output):
        """Every part of the quote between `...` is in the output, one behind the other."""
        place, output = 0, quotable(output)
        for part in filter(None, map(quotable, quote.split("..."))):
            found = output.find(part, place)
            self.assertGreaterEqual(found, 0, f"not printed:\n{part}\nin:\n{output[place:]}")
            place = found + len(part)

    def unpack(self, saved, target):
        """The traces of a saved run into the folder NAME/, or that of its one process as NAME.gmt."""
        for packed in (SAVED / saved / "traces").glob("*.gz"):
            suffix = packed.stem[packed.stem.index(".gmt"):]
            path = self.folder / (target + (packed.stem if target.endswith("/") else suffix))
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(gzip.decompress(packed.read_bytes()))

    def check_document(self, name, least_blocks, **variables):
        blocks = blocks_of(DOCS / name)
        self.assertLessEqual({language for language, _ in blocks}, {"sh", "text"})
        outputs = run_blocks([text for language, text in blocks if language == "sh"], self.folder, **variables)
        self.assertGreaterEqual(len(outputs), least_blocks)
        commands = iter(outputs)
        printed = ""
        for language, text in blocks:
            with self.subTest(block=text):
                if language == "sh":
                    printed, code = next(commands)
                    self.assertEqual(code, 0, printed)
                else:
                    self.assert_quoted(text, printed)


class OutOfMemory(Shown, support.EndToEnd):
    def test_the_tutorial_runs_as_it_stands(self):
        self.unpack("case_fragmented_faulty", "try/pieces/")
        self.check_document("tutorial-out-of-memory.md", 8, PYTHONPATH=ROOT / "preload" / "api")
        # Its output about PyTorch was recorded of this program.
        program = (ROOT / "tests/gpu/programs/cases/fragmented.py").read_text()
        self.assertEqual((self.folder / "try/fragmented.py").read_text(), re.sub("  # fault: .*", "", program))


class LeakCheck(Shown, support.EndToEnd):
    def test_the_tutorial_runs_as_it_stands(self):
        self.check_document("tutorial-leak-check.md", 6)


class Questions(Shown, support.EndToEnd):
    def test_every_command_gives_the_answer(self):
        for name, saved in FAQ_TRACES.items():
            self.unpack(saved, name)
        self.check_document("faq.md", 12)


class Readme(Shown, support.EndToEnd):
    def test_the_summary_of_the_first_screen_is_that_of_the_saved_run(self):
        self.unpack("case_fragmented_faulty", "fragmented")
        result = self.run_command([support.TOOL, "summary", "fragmented.gmt"], support.base_environment())
        quotes = [text for language, text in blocks_of(ROOT / "README.md") if language == "text"]
        self.assertEqual(len(quotes), 1)
        # Also line by line: it is what a terminal shows.
        self.assertTrue(result.stdout.decode().startswith(quotes[0]), result.stdout.decode())


if __name__ == "__main__":
    unittest.main()
