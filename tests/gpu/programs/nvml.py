# SPDX-License-Identifier: Apache-2.0
"""The few NVML queries that serve as truth, through ctypes; no package is needed."""

import ctypes


class _MemoryInfo(ctypes.Structure):
    _fields_ = [("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong)]


class Device:
    """One GPU, opened by its UUID ("GPU-...") or by its index. Raises OSError where NVML fails."""

    def __init__(self, uuid=None, index=0):
        self.library = ctypes.CDLL("libnvidia-ml.so.1")
        self._check("nvmlInit_v2")
        self.handle = ctypes.c_void_p()
        if uuid is not None:
            uuid = uuid if uuid.startswith("GPU-") else "GPU-" + uuid
            self._check("nvmlDeviceGetHandleByUUID", uuid.encode(), ctypes.byref(self.handle))
        else:
            self._check("nvmlDeviceGetHandleByIndex_v2", ctypes.c_uint(index), ctypes.byref(self.handle))

    def used_bytes(self):
        info = _MemoryInfo()
        self._check("nvmlDeviceGetMemoryInfo", self.handle, ctypes.byref(info))
        return info.used

    def _check(self, function, *arguments):
        result = getattr(self.library, function)(*arguments)
        if result != 0:
            raise OSError(f"{function} returned {result}")


def open_device(uuid=None):
    """The device, or None where NVML is missing or refuses."""
    try:
        return Device(uuid=uuid)
    except (OSError, AttributeError):
        return None


def used_bytes(uuid):
    """Used bytes of a GPU as nvidia-smi shows them, or None where NVML cannot tell."""
    device = open_device(uuid)
    return None if device is None else device.used_bytes()
