# SPDX-License-Identifier: Apache-2.0
"""Each block's record has the size that PyTorch's functions asked for, where they did; and the
replay of sizes that are known is one number, where those of the blocks alone leave a range."""

import json
import subprocess
import unittest

import support

MIB = 1 << 20
PLAIN = 46 * 65536 * 4
STRIDED = (2047 * 3000 + 2499 + 1) * 2
# As the program makes them: bytes of the block, bytes asked for (0: nobody said).
BLOCKS = [(12 * MIB, PLAIN), (12 * MIB, PLAIN), (12 * MIB, STRIDED), (12 * MIB, 11 * MIB + 1),
          (12 * MIB, 0), (14 * MIB, 0), (14 * MIB, 13 * MIB), (14 * MIB, 0)]


class RequestedSizes(support.EndToEnd):
    def what_if(self):
        done = subprocess.run([support.TOOL, "whatif", self.only_trace(), "--json"],
                              capture_output=True, text=True, timeout=support.TIMEOUT_S, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        (device,) = json.loads(done.stdout)["what_if"]
        self.assertIs(device["recorded"]["proven"], True, device["recorded"]["first_mismatch"])
        return device

    def test_a_block_has_what_was_asked_for_it(self):
        self.record(support.VICTIMS / "makes_tensors")
        blocks = [dict(word.split("=", 1) for word in line.split() if "=" in word)
                  for line in support.dump(self.only_trace(), "block")]
        self.assertEqual([(int(block["bytes"]), int(block.get("requested", 0))) for block in blocks],
                         BLOCKS)

    def test_the_program_gets_the_same_without_the_recorder(self):
        done = self.run_command([support.VICTIMS / "makes_tensors"], support.driver_environment())
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_the_recorder_is_no_frame_of_the_program(self):
        self.record(support.VICTIMS / "makes_tensors", GPUMEMTRACE_NATIVE="full")
        frames = json.dumps(self.report())
        self.assertIn("libvictim_tensor_functions.so", frames)
        self.assertNotIn("libgpumemtrace", frames)

    def test_unusable_bytes_have_lines_where_call_stacks_were_recorded(self):
        self.record(support.VICTIMS / "makes_tensors", GPUMEMTRACE_NATIVE="full")
        device = self.what_if()
        self.assertIsNone(device["lines_reason"])
        for row in device["unusable_at_peak"]:
            self.assertEqual(sum(line["bytes"] for line in row["lines"]), row["bytes"])
            self.assertEqual(row["lines"][-1]["owner"], "other")

    def test_without_call_stacks_unusable_bytes_have_no_lines_but_the_reason(self):
        self.record(support.VICTIMS / "makes_tensors", GPUMEMTRACE_NATIVE="off")
        device = self.what_if()
        self.assertIn("no call stacks", device["lines_reason"])
        for row in device["unusable_at_peak"]:
            self.assertIsNone(row["lines"])

    def test_sizes_that_are_not_known_are_sampled(self):
        self.record(support.VICTIMS / "makes_tensors")
        device = self.what_if()
        self.assertEqual(device["recorded"]["requested_sizes"], "unknown")  # of three blocks
        self.assertIn("sampled", {row["basis"] for row in device["rows"]})

    def test_the_replay_of_known_sizes_is_one_number(self):
        self.record(support.VICTIMS / "makes_tensors", "known")
        device = self.what_if()
        self.assertEqual(device["recorded"]["requested_sizes"], "recorded")
        rows = [row for row in device["rows"] if row["basis"] != "bracket"]
        self.assertEqual({row["basis"] for row in rows}, {"replayed"})
        # Pages of 20 MiB of what was asked for, to 512 bytes.
        pages = -(-sum(-(-size // 512) * 512 for _, size in BLOCKS[:4]) // (20 * MIB))
        expandable = next(row for row in rows if row["options"] == "expandable_segments:True")
        self.assertEqual(expandable["reserved_peak_bytes"], pages * 20 * MIB)
        self.assertEqual(device["ideal"]["live_peak_bytes"], sum(size for _, size in BLOCKS[:4]))


if __name__ == "__main__":
    unittest.main()
