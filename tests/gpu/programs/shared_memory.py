# SPDX-License-Identifier: Apache-2.0
"""One process opens memory of another by CUDA's IPC handles, on one GPU.

The plan has one allocation for each fate: closed before it is freed, freed while it is open, and
left open when its process ends. CUDA leaves undefined what becomes of the second; nobody touches
it, and the truth file has the card's free bytes before and after, as NVML's user would see them.
"""

import ctypes
import os
import subprocess
import sys
import time

from driver import Driver
from truth import Truth

MIB = 1 << 20
CLOSED_BYTES, FREED_BYTES, LEFT_BYTES = 64 * MIB, 96 * MIB, 32 * MIB
KEPT_S = 1.5
ARITHMETIC = "the program's own arithmetic"


class Handle(ctypes.Structure):
    _fields_ = [("reserved", ctypes.c_byte * 64)]


def export(driver, address):
    """Asked for three times: each call hands out the same handle."""
    handles = set()
    for _ in range(3):
        handle = Handle()
        driver.call("cuIpcGetMemHandle", ctypes.byref(handle), ctypes.c_uint64(address))
        handles.add(bytes(handle))
    if len(handles) != 1:
        sys.exit("one allocation has several handles")
    return handles.pop().hex()


def open_handle(driver, text):
    address = ctypes.c_uint64()
    handle = Handle.from_buffer_copy(bytes.fromhex(text))
    driver.call("cuIpcOpenMemHandle_v2", ctypes.byref(address), handle, ctypes.c_uint(1))
    return address.value


def close_handle(driver, address):
    driver.call("cuIpcCloseMemHandle", ctypes.c_uint64(address))


def say(word):
    print(word, flush=True)


def hear():
    return sys.stdin.readline().strip()


def exporter():
    driver = Driver()
    closed, freed, left = map(driver.allocate, (CLOSED_BYTES, FREED_BYTES, LEFT_BYTES))
    say(" ".join(export(driver, address) for address in (closed, freed, left)))
    hear()  # all are open, and the first is closed again
    driver.free(closed)
    before = driver.memory_info()[0]
    driver.free(freed)
    truth = Truth("shared_memory", suffix=".exporter")
    truth.usage("driver", "device", ARITHMETIC, {
        "allocations": 3, "frees": 2, "live_bytes_at_end": LEFT_BYTES})
    truth.check("it opened nothing", "shared_memory", 0, ARITHMETIC, combine="count")
    truth.content["free_bytes_by_freeing_what_is_open"] = driver.memory_info()[0] - before
    truth.write()
    say("freed")
    hear()
    os._exit(0)


def importer(handles):
    driver = Driver()
    closed, freed, left = (open_handle(driver, text) for text in handles)
    if open_handle(driver, handles[0]) != closed:
        sys.exit("a second call opens the memory elsewhere")
    close_handle(driver, closed)
    close_handle(driver, closed)
    say("open")
    hear()  # the exporter has freed the second, and has ended
    time.sleep(KEPT_S)
    before = driver.memory_info()[0]
    close_handle(driver, freed)
    truth = Truth("shared_memory", suffix=".importer")
    truth.content["free_bytes_by_closing_what_is_freed"] = driver.memory_info()[0] - before
    close_handle(driver, left)
    paired = {"where": {"exporter_reason": None}}
    for field, value in (("count", 3), ("bytes", CLOSED_BYTES + FREED_BYTES + LEFT_BYTES),
                         ("freed_while_open_bytes", FREED_BYTES),
                         ("ended_while_open_bytes", LEFT_BYTES), ("live_bytes_at_end", 0)):
        truth.check(f"shared memory {field}", "shared_memory", value, ARITHMETIC, field=field, **paired)
    truth.check("it was kept", "shared_memory", int(KEPT_S * 1e9), ARITHMETIC, field="kept_after_ns",
                combine="max", relation="at_least", where={"freed_while_open_bytes": FREED_BYTES})
    truth.check("imports are no allocations", "usage", 0, ARITHMETIC, field="allocations",
                where={"level": "driver"}, device=0)
    truth.write()
    os._exit(0)


def start(*arguments):
    command = [sys.executable, os.path.abspath(__file__), *arguments]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def tell(process):
    process.stdin.write("go on\n")
    process.stdin.flush()


def main():
    first = start("exporter")
    second = start("importer", *first.stdout.readline().split())
    print("the importer has", second.stdout.readline().strip())
    tell(first)
    print("the exporter has", first.stdout.readline().strip())
    tell(first)
    first.wait()
    tell(second)
    second.wait()
    print("exit codes", first.returncode, second.returncode)
    sys.exit(first.returncode or second.returncode)


if __name__ == "__main__":
    if len(sys.argv) == 1:
        main()
    elif sys.argv[1] == "exporter":
        exporter()
    else:
        importer(sys.argv[2:])
