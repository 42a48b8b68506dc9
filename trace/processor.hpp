// SPDX-License-Identifier: Apache-2.0
// Abilities that not every processor has. Each is asked for at its first use:
// __builtin_cpu_supports() asks when the library is loaded, in every process, and on virtual
// machines that takes microseconds.
#pragma once

namespace gpumemtrace::trace::processor {

// An instruction for CRC-32C, as x86-64 has with SSE 4.2. Any thread.
[[nodiscard]] bool has_crc32c() noexcept;

// BMI2's instruction that joins bits. Not where it is microcode, as on AMD's before Zen 3. Any
// thread.
[[nodiscard]] bool has_fast_pext() noexcept;

}  // namespace gpumemtrace::trace::processor
