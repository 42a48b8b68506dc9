# SPDX-License-Identifier: Apache-2.0
"""The stack of a block says whether autograd was on when the block was allocated."""

import unittest

import support

PROGRAM = """
import ctypes, sys, threading
torch = ctypes.CDLL(sys.argv[1], mode=ctypes.RTLD_GLOBAL)
tell = ctypes.PyDLL(None)._ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE
turn = torch._ZN3c108GradMode11set_enabledEb

def allocate(number, sign=1):
    tell(ctypes.c_void_p(number << 20), ctypes.c_int64(sign * number << 9), ctypes.c_size_t(0),
         ctypes.c_size_t(0), ctypes.c_uint16(1))

def allocate_all(numbers):
    for number in numbers:
        allocate(number)

for enabled, numbers in ((True, (1, 2)), (False, (3, 4)), (True, (5,))):
    turn(ctypes.c_bool(enabled))
    allocate_all(numbers)
turn(ctypes.c_bool(False))
thread = threading.Thread(target=allocate_all, args=((6,),))  # it has a mode of its own
thread.start()
thread.join()
"""


def words_of(line):
    return dict(word.split("=", 1) for word in line.split() if "=" in word)


class GradMode(support.EndToEnd):
    def test_one_line_with_and_without_autograd_is_two_stacks(self):
        self.record(support.PYTHON, "-c", PROGRAM, support.VICTIMS / "grad_mode" / "libc10.so")
        trace = self.only_trace()
        under_autograd = {words["id"]: "autograd" in words.get("flags", "").split("|")
                          for words in map(words_of, support.dump(trace, "stack"))}
        blocks = [words_of(line) for line in support.dump(trace, "block")]
        told = {int(block["bytes"]) >> 9: under_autograd[block["stack"]] for block in blocks}
        self.assertEqual(told, {1: True, 2: True, 3: False, 4: False, 5: True, 6: True})
        stack_of = {int(block["bytes"]) >> 9: block["stack"] for block in blocks}
        self.assertEqual(stack_of[1], stack_of[5])
        self.assertEqual(stack_of[3], stack_of[4])


if __name__ == "__main__":
    unittest.main()
