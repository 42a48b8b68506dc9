# SPDX-License-Identifier: Apache-2.0
"""Puts gpumemtrace's names of tensors into a program that is not changed for it.

`gpumemtrace run --torch-names` puts this file's folder first on PYTHONPATH, so that Python imports it
when it starts. It waits for torch to be imported, leaves the module search path as it would be without
it, and then runs the sitecustomize that it stands before. A program that never imports torch notices
nothing.
"""

import os
import sys

_FOLDER = os.path.dirname(os.path.abspath(__file__))
_API_FILE = os.path.join(os.path.dirname(_FOLDER), "gpumemtrace.py")
_MODULE = "_gpumemtrace_torch_names"  # apart from the program's own copy of gpumemtrace.py


class _Watch:
    """Stands first in sys.meta_path, finds nothing itself, and sees which modules are looked for."""

    def __init__(self):
        self._names = None
        self._is_searching = False

    def find_spec(self, name, path=None, target=None):
        if name == "torch" and not self._is_searching:
            self._is_searching = True
            try:
                return self._find_torch(path, target)
            finally:
                self._is_searching = False
        if name == "torch._dynamo" and self._names is not None:
            self._names.before_compiling()
        return None

    def _find_torch(self, path, target):
        """torch's own spec, whose loader calls us once, when the module has run."""
        for finder in list(sys.meta_path):
            find = getattr(finder, "find_spec", None)
            spec = None if find is None or finder is self else find("torch", path, target)
            if spec is not None:
                if getattr(spec.loader, "exec_module", None) is not None:
                    self._start_after(spec.loader)
                return spec
        return None

    def _start_after(self, loader):
        run = loader.exec_module

        def run_and_start(module):
            del loader.exec_module
            run(module)
            try:
                self._names = _start()
            except Exception as error:
                os.write(2, ("gpumemtrace: tensors get no names: %s: %s\n"
                             % (type(error).__name__, error)).encode("utf-8", "replace"))

        loader.exec_module = run_and_start


def _start():
    import importlib.util
    spec = importlib.util.spec_from_file_location(_MODULE, _API_FILE)
    module = importlib.util.module_from_spec(spec)
    sys.modules[_MODULE] = module
    spec.loader.exec_module(module)
    return module.name_tensors_of_process()


if sys.version_info >= (3, 8):
    sys.meta_path.insert(0, _Watch())

# As site would have gone on without us; if there is none, it takes this ImportError for that.
sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or os.curdir) != _FOLDER]
del sys.modules["sitecustomize"]
import sitecustomize  # noqa: E402,F401
