// SPDX-License-Identifier: Apache-2.0
// Memory that processes share by CUDA's IPC handles: what this one handed out, and what it opened.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "analyzer/model/accounts/live_allocation.hpp"
#include "trace/ledger/call_site.hpp"

namespace gpumemtrace::analyzer {

// An allocation of this process whose handle it handed out. Times are model times.
struct ExportedMemory {
  std::uint64_t handle = 0;  // a hash of it, as records have
  std::uint32_t group = 0;
  std::uint64_t time = 0;                      // of the first call that handed it out
  std::uint64_t end_time = 0;                  // 0: it is live
  std::optional<ledger::CallSite> freed_at{};  // nothing: it is live, or its context ended it
};

// Memory of another process that this one opened.
struct OpenedMemory {
  std::uint64_t handle = 0;  // a hash of it; 0 = not known
  bool is_of_pool = false;   // a pointer of an imported pool, which has no handle
  std::uint32_t group = 0;
  std::uint64_t bytes = 0;
  std::uint64_t time = 0;
  std::uint64_t end_time = 0;  // 0: it is open
};

class SharedMemory {
 public:
  // The handle of live memory was handed out, perhaps not for the first time.
  void hand_out(std::uint64_t handle, const LiveAllocation& memory, std::uint64_t now);
  [[nodiscard]] bool has_live_exports() const { return !exported_by_born_.empty(); }
  // Memory that was allocated at `born` ended.
  void end_exported(std::uint64_t born, const std::optional<ledger::CallSite>& freed_at,
                    std::uint64_t now);

  void open(std::uint64_t handle, bool is_of_pool, const LiveAllocation& memory);
  // The driver hands out the same address, and waits for as many calls that close it.
  void open_again(std::uint64_t address);
  // True if that was the last call that the driver waits for, or if nothing is open there.
  [[nodiscard]] bool close(std::uint64_t address, std::uint64_t now);

  [[nodiscard]] const std::vector<ExportedMemory>& exported() const { return exported_; }
  [[nodiscard]] const std::vector<OpenedMemory>& opened() const { return opened_; }

 private:
  struct Open {
    std::size_t index = 0;  // in opened_
    std::uint64_t calls = 1;
  };

  std::vector<ExportedMemory> exported_;                                  // in the order of calls
  std::unordered_map<std::uint64_t, std::size_t> exported_by_handle_;     // the newest
  std::unordered_multimap<std::uint64_t, std::size_t> exported_by_born_;  // live ones
  std::vector<OpenedMemory> opened_;
  std::unordered_map<std::uint64_t, Open> open_;  // by address
};

}  // namespace gpumemtrace::analyzer
