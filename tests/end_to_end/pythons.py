# SPDX-License-Identifier: Apache-2.0
"""The Python interpreters of this machine."""

import functools
import json
import os
import pathlib
import re
import subprocess

import support

NAME = re.compile(r"python3(\.\d+)?")

ASK = """
import json, sys, sysconfig
library = sysconfig.get_config_var("LDLIBRARY") or ""
print(json.dumps({
    "version": list(sys.version_info[:2]),
    "executable": sys.executable,
    "prefix": sys.base_prefix,
    "libraries": [f"{sysconfig.get_config_var(folder)}/{name}" for folder in ("LIBDIR", "LIBPL")
                  for name in (sysconfig.get_config_var("INSTSONAME"), library) if name],
    "has_gil": not sysconfig.get_config_var("Py_GIL_DISABLED"),
}))
"""


@functools.lru_cache(maxsize=None)
def interpreters():
    """Facts of every python3.X with a GIL on the PATH, in pyenv's folder, and of the test's own."""
    candidates = [support.PYTHON]
    for folder in os.environ.get("PATH", "").split(":"):
        candidates += sorted(pathlib.Path(folder or ".").glob("python3.[0-9]*"))
    candidates += sorted(pathlib.Path.home().glob(".pyenv/versions/*/bin/python3.[0-9]*"))
    found = {}
    for candidate in candidates:
        if not NAME.fullmatch(os.path.basename(candidate)) or not os.access(candidate, os.X_OK):
            continue
        answer = subprocess.run([str(candidate), "-c", ASK], env=support.base_environment(),
                                capture_output=True, text=True, timeout=support.TIMEOUT_S)
        facts = json.loads(answer.stdout) if answer.returncode == 0 else {"has_gil": False}
        if facts["has_gil"]:
            found.setdefault(os.path.realpath(facts["executable"]), facts)
    return list(found.values())


def shared_library(facts):
    """The interpreter as a library to open; None where it is only linked in statically."""
    return next((path for path in facts["libraries"]
                 if ".so" in path and os.path.exists(path)), None)
