// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>

// The device memory that each process of the simulated driver holds, which the other processes and
// the simulated NVML read. GPUMEMTRACE_SIM_CARD names a file that holds it: all processes that name
// the same file share their cards. Without it each process has the cards for itself.

namespace gpumemtrace::cuda_abi::simulated {

struct Card {
  static constexpr int kMostProcesses = 64;
  static constexpr int kMostDevices = 16;

  struct Use {
    std::atomic<std::uint64_t> bytes;
    std::atomic<std::uint32_t> contexts;
  };
  struct Process {
    std::atomic<std::int32_t> id;  // process id; 0 = the entry is free
    Use devices[kMostDevices];
  };
  Process processes[kMostProcesses];
};

// Maps the file at `path`. Without a path (null), or if the file cannot be opened, the result lies
// in this process's own memory; never null.
Card* open_card(const char* path);

// Returns the entry of this process; null if all are taken. Entries of processes that have ended
// are given out again.
Card::Process* enter_card(Card* card);

// The bytes that other processes hold of a device.
std::uint64_t bytes_of_others(const Card& card, int device);

}  // namespace gpumemtrace::cuda_abi::simulated
