// SPDX-License-Identifier: Apache-2.0
// Abilities that not every processor has. Each is asked for at its first use:
// __builtin_cpu_supports() asks when the library is loaded, in every process, and on virtual
// machines that takes microseconds.
#pragma once

namespace gpumemtrace::trace::processor {

// True if the processor has an instruction for CRC-32C, as x86-64 has with SSE 4.2. Any thread may
// call this.
[[nodiscard]] bool has_crc32c() noexcept;

// True if the processor has BMI2's instruction pext, which gathers bits, and not as slow microcode,
// as AMD's processors before Zen 3 have it. Any thread may call this.
[[nodiscard]] bool has_fast_pext() noexcept;

}  // namespace gpumemtrace::trace::processor
