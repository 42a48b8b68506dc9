# SPDX-License-Identifier: Apache-2.0
"""The machine's offer to the programs: GPUs, frameworks, compilers and their versions."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

PROBE_TIMEOUT_S = 60
PACKAGES = ("torch", "triton", "jax", "jaxlib", "cupy-cuda13x", "cupy-cuda12x", "numpy", "nvidia-nccl-cu13", "transformers",
            "lightning", "timm", "torch-geometric", "accelerate", "peft", "flax", "optax", "cuda-bindings")
LIBRARIES = ("libcublas", "libcufft")
# Libraries that come as Python packages, with headers: folder below site-packages/nvidia and file.
PACKAGED_LIBRARIES = {"libcudnn": ("cudnn", "libcudnn.so.9"), "libnccl": ("nccl", "libnccl.so.2")}
TOOLS = ("compute-sanitizer", "ncu", "cuda-gdb")
CUDA_FOLDERS = ("/usr/local/cuda", "/opt/cuda")

COUNT_DEVICES = """
import ctypes
try:
    driver = ctypes.CDLL("libcuda.so.1")
except OSError:
    raise SystemExit("libcuda.so.1 is not installed")
count = ctypes.c_int(0)
result = driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(count))
if result:
    raise SystemExit(f"the driver answers {result}")
print(count.value)
"""

FIND_PACKAGES = """
import importlib.metadata, json, sys
found = {}
for name in sys.argv[1:]:
    try:
        found[name] = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        pass
print(json.dumps(found))
"""

FIND_NVIDIA_PACKAGES = """
import nvidia
print("\\n".join(nvidia.__path__))
"""


def ask(command):
    """(output, error) of a short command; error is None where it succeeded."""
    try:
        result = subprocess.run(command, capture_output=True, text=True, timeout=PROBE_TIMEOUT_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        return "", str(error)
    if result.returncode != 0:
        return result.stdout, (result.stderr.strip() or f"left with {result.returncode}").splitlines()[-1]
    return result.stdout.strip(), None


def cuda_folders():
    return [folder for folder in (os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), *CUDA_FOLDERS) if folder]


def find_tool(name):
    """Path of a program of the CUDA toolkit; None where there is none."""
    return shutil.which(name) or next(
        (f"{folder}/bin/{name}" for folder in cuda_folders() if os.path.exists(f"{folder}/bin/{name}")), None)


class Machine:
    """Looks once at everything; the members say what is there.

    gpus: number of devices; no_gpu: why there is none. have: modules and tools by the names
    that programs need. versions: for the record of what was verified.
    """

    def __init__(self, python):
        self.versions = {"python": ask([python, "--version"])[0]}
        count, self.no_gpu = ask([python, "-c", COUNT_DEVICES])
        self.gpus = int(count) if self.no_gpu is None else 0
        if self.gpus == 0 and self.no_gpu is None:
            self.no_gpu = "the driver shows no device"
        self.have = set()
        self._look_for_gpus()
        self._look_for_packages(python)
        self._look_for_cuda()
        self._look_for_packaged_libraries(python)

    def _look_for_gpus(self):
        query = "--query-gpu=name,uuid,memory.total,driver_version"
        text, error = ask(["nvidia-smi", query, "--format=csv,noheader"])
        self.versions["gpus"] = text.splitlines() if error is None else error

    def _look_for_packages(self, python):
        text, error = ask([python, "-c", FIND_PACKAGES, *PACKAGES])
        packages = json.loads(text) if error is None else {}
        self.versions["packages"] = packages
        self.have |= {re.sub("-cuda[0-9]+x$", "", name) for name in packages}

    def _look_for_cuda(self):
        self.nvcc = nvcc = find_tool("nvcc")
        self.cuda = Path(nvcc).resolve().parents[1] if nvcc else None
        self.have |= {name for name in TOOLS if find_tool(name)}
        self.sanitizer = find_tool("compute-sanitizer")
        if nvcc:
            self.have.add("nvcc")
            self.have |= {name for name in LIBRARIES if (self.cuda / "lib64" / f"{name}.so").exists()}
            self.versions["nvcc"] = ask([nvcc, "--version"])[0].splitlines()[-1:]
        for name in TOOLS:
            if name in self.have:
                self.versions[name] = ask([find_tool(name), "--version"])[0].splitlines()[-1:]

    def _look_for_packaged_libraries(self, python):
        self.folders = {"cuda": self.cuda}
        for packages in ask([python, "-c", FIND_NVIDIA_PACKAGES])[0].splitlines():
            for library, (folder, file) in PACKAGED_LIBRARIES.items():
                if (Path(packages) / folder / "lib" / file).exists():
                    self.folders[folder] = Path(packages) / folder
                    self.have.add(library)

    def missing_for(self, program):
        """Why a program cannot run here; None if it can."""
        if self.no_gpu is not None:
            return f"no CUDA device: {self.no_gpu}"
        if self.gpus < program.gpus:
            return f"needs {program.gpus} GPUs, this machine has {self.gpus}"
        absent = [name for name in program.needs if name not in self.have]
        return f"{', '.join(absent)} is not installed" if absent else None

    def compile(self, binary, source_folder, target_folder):
        """Builds one binary; the error text, or None on success."""
        source = source_folder / binary.source
        options = binary.options if source.suffix == ".cu" else ("-cudart", "none", "-lcuda")
        options = [option.format(**self.folders) for option in options]
        return ask([self.nvcc, "-std=c++17", "-O1", str(source), *options,
                    "-Xlinker", f"-rpath={self.cuda}/lib64", "-o", str(target_folder / binary.name)])[1]
