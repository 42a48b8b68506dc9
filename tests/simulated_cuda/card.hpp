// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>

// The memory that the simulated driver's processes hold of the cards, for each other and for the
// simulated NVML. With GPUMEMTRACE_SIM_CARD it lies in that file, and all processes that name the
// file share their cards; else each process has the cards for itself.

namespace gpumemtrace::cuda_abi::simulated {

struct Card {
  static constexpr int kMostProcesses = 64;
  static constexpr int kMostDevices = 16;

  struct Use {
    std::atomic<std::uint64_t> bytes;
    std::atomic<std::uint32_t> contexts;
  };
  struct Process {
    std::atomic<std::int32_t> id;  // 0 = nobody's entry
    Use devices[kMostDevices];
  };
  Process processes[kMostProcesses];
};

// The file's, or this process's own; never null. `path` may be null.
Card* open_card(const char* path);

// The entry of this process; null if all are taken. Entries of processes that are gone are given
// out again.
Card::Process* enter_card(Card* card);

// The bytes of other processes on a device.
std::uint64_t bytes_of_others(const Card& card, int device);

}  // namespace gpumemtrace::cuda_abi::simulated
