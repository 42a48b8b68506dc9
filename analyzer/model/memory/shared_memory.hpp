// SPDX-License-Identifier: Apache-2.0
// Memory that processes share by CUDA's IPC handles: the allocations that this process exported,
// and the memory of other processes that it opened.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "analyzer/model/accounts/live_allocation.hpp"
#include "trace/ledger/call_site.hpp"

namespace gpumemtrace::analyzer {

// An allocation of this process, of which the process exported the handle. Times are model times.
struct ExportedMemory {
  std::uint64_t handle = 0;  // a hash of the IPC handle, as in records
  std::uint32_t group = 0;
  std::uint64_t time = 0;                      // time of the first call that exported the handle
  std::uint64_t end_time = 0;                  // 0: the memory is live
  std::optional<ledger::CallSite> freed_at{};  // none: the memory is live or ended with its context
};

// Memory of another process that this process opened.
struct OpenedMemory {
  std::uint64_t handle = 0;  // a hash of the IPC handle; 0 = not known
  bool is_of_pool = false;   // a pointer of an imported pool, which has no IPC handle
  std::uint32_t group = 0;
  std::uint64_t bytes = 0;
  std::uint64_t time = 0;
  std::uint64_t end_time = 0;  // 0: the memory is open
};

class SharedMemory {
 public:
  // Notes that the handle of live memory was exported, perhaps not for the first time.
  void hand_out(std::uint64_t handle, const LiveAllocation& memory, std::uint64_t now);
  [[nodiscard]] bool has_live_exports() const { return !exported_by_born_.empty(); }
  // Notes the end of memory that was allocated at `born`.
  void end_exported(std::uint64_t born, const std::optional<ledger::CallSite>& freed_at,
                    std::uint64_t now);

  void open(std::uint64_t handle, bool is_of_pool, const LiveAllocation& memory);
  // Notes that open memory was opened again: the driver returned the same address, and closes the
  // memory only after as many closing calls as opening calls.
  void open_again(std::uint64_t address);
  // Notes a closing call. True if the memory at the address is closed now, or was not open.
  [[nodiscard]] bool close(std::uint64_t address, std::uint64_t now);

  [[nodiscard]] const std::vector<ExportedMemory>& exported() const { return exported_; }
  [[nodiscard]] const std::vector<OpenedMemory>& opened() const { return opened_; }

 private:
  struct Open {
    std::size_t index = 0;  // index in opened_
    std::uint64_t calls = 1;
  };

  // in the order of the exporting calls
  std::vector<ExportedMemory> exported_;
  // indexes of the newest exports, by handle
  std::unordered_map<std::uint64_t, std::size_t> exported_by_handle_;
  // indexes of live exports, by the time when the memory was allocated
  std::unordered_multimap<std::uint64_t, std::size_t> exported_by_born_;
  std::vector<OpenedMemory> opened_;
  std::unordered_map<std::uint64_t, Open> open_;  // open memory by address
};

}  // namespace gpumemtrace::analyzer
