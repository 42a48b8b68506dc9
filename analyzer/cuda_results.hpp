// The few CUresult values that the analysis tells apart.
#pragma once

#include <cstdint>

namespace gpumemtrace::analyzer {

inline constexpr std::uint16_t kCudaSuccess = 0;
inline constexpr std::uint16_t kCudaOutOfMemory = 2;

// A call that reports one of these did its own work or came too late for it to matter: the error
// is that of an earlier launch, which CUDA repeats on every later call, or says that the driver
// or the context is gone already. A free that fails so leaves nothing alive.
constexpr bool is_error_of_another_call(std::uint16_t result) {
  switch (result) {
    case 4:    // DEINITIALIZED
    case 214:  // ECC_UNCORRECTABLE
    case 700:  // ILLEGAL_ADDRESS
    case 702:  // LAUNCH_TIMEOUT
    case 709:  // CONTEXT_IS_DESTROYED
    case 710:  // ASSERT
    case 714:  // HARDWARE_STACK_ERROR
    case 715:  // ILLEGAL_INSTRUCTION
    case 716:  // MISALIGNED_ADDRESS
    case 717:  // INVALID_ADDRESS_SPACE
    case 718:  // INVALID_PC
    case 719:  // LAUNCH_FAILED
      return true;
    default:
      return false;
  }
}

}  // namespace gpumemtrace::analyzer
