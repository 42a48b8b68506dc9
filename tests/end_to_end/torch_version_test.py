# SPDX-License-Identifier: Apache-2.0
"""The version of PyTorch is in the report, without a line of Python of ours in the process."""

import shutil
import unittest

import support

BEFORE = "import ctypes, simcuda; ctypes.CDLL('{library}'); cuda = simcuda.Context(); cuda.alloc(1)"
AFTER = "import ctypes, simcuda; cuda = simcuda.Context(); cuda.alloc(1); ctypes.CDLL('{library}')"


class TorchVersion(support.EndToEnd):
    def torch_of(self, content, program=BEFORE):
        """processes[].torch of a program that loads a library where PyTorch's would be."""
        library = self.folder / "torch" / "lib" / "libtorch_cpu.so"
        library.parent.mkdir(parents=True)
        shutil.copy(support.VICTIMS / "libentry_point_library.so", library)
        if content is not None:
            (self.folder / "torch" / "version.py").write_text(content)
        trace = self.folder / "trace.gmt"
        self.record(support.PYTHON, "-c", program.format(library=library), GPUMEMTRACE_OUTPUT=trace)
        torch = support.analyze(trace)["processes"][0]["torch"]
        for path in (library.parent.parent, trace, trace.with_name("trace.gmt.ring")):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        return torch["version"]

    def test_it_is_read_from_the_file_beside_the_libraries(self):
        content = ("from typing import Optional\n\n__all__ = ['__version__', 'debug']\n"
                   "__version__ = '2.11.0+cu130'\ndebug = False\n")
        self.assertEqual(self.torch_of(content), "2.11.0+cu130")
        self.assertEqual(self.torch_of(content, AFTER), "2.11.0+cu130")
        self.assertEqual(self.torch_of('__version__: str = "1.13"'), "1.13")

    def test_what_is_not_there_is_not_known(self):
        for content in (None, "", "__version__", "__version__ = '2.1", "version = '2.1'",
                        "__version__ = '" + "1" * 1000 + "'"):
            with self.subTest(content=content):
                self.assertIsNone(self.torch_of(content))


if __name__ == "__main__":
    unittest.main()
