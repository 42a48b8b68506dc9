// SPDX-License-Identifier: Apache-2.0
#include "trace/processor.hpp"

#if defined(__x86_64__)
#include <cpuid.h>

#include <atomic>
#endif

namespace gpumemtrace::trace::processor {

#if defined(__x86_64__)

namespace {

struct Registers {
  unsigned eax = 0;
  unsigned ebx = 0;
  unsigned ecx = 0;
  unsigned edx = 0;
};

// The registers of a CPUID leaf; all zero if the processor has no such leaf.
Registers leaf(unsigned number) noexcept {
  Registers is;
  if (__get_cpuid_count(number, 0, &is.eax, &is.ebx, &is.ecx, &is.edx) == 0) return {};
  return is;
}

bool ask_for_crc32c() noexcept { return (leaf(1).ecx & bit_SSE4_2) != 0; }

bool ask_for_fast_pext() noexcept {
  const unsigned signature = leaf(1).eax;
  const unsigned family = (signature >> 8 & 0xf) + (signature >> 20 & 0xff);
  const bool is_before_zen_3 = leaf(0).ebx == signature_AMD_ebx && family <= 0x17;
  return (leaf(7).ebx & bit_BMI2) != 0 && !is_before_zen_3;
}

class Answer {
 public:
  bool get(bool (*ask)() noexcept) noexcept {
    // Relaxed: every thread finds the same answer, and no other memory is ordered by it.
    int known = known_.load(std::memory_order_relaxed);
    if (known == kNotAsked) {
      known = ask() ? kYes : kNo;
      known_.store(known, std::memory_order_relaxed);
    }
    return known == kYes;
  }

 private:
  enum : int { kNotAsked, kNo, kYes };
  std::atomic<int> known_ = kNotAsked;
};

constinit Answer crc32c;
constinit Answer fast_pext;

}  // namespace

bool has_crc32c() noexcept { return crc32c.get(ask_for_crc32c); }
bool has_fast_pext() noexcept { return fast_pext.get(ask_for_fast_pext); }

#else

bool has_crc32c() noexcept { return false; }
bool has_fast_pext() noexcept { return false; }

#endif

}  // namespace gpumemtrace::trace::processor
