// SPDX-License-Identifier: Apache-2.0
// What NCCL allocates from the driver, by communicator. NVTX ranges of NCCL tell when a thread
// makes one.
#pragma once

#include <cstdint>
#include <map>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "trace/ledger/call_site.hpp"
#include "trace/records.hpp"

namespace gpumemtrace::analyzer {

using ledger::CallSite;

// Bytes on one device.
struct NcclUse {
  std::uint64_t bytes = 0;
  std::uint64_t most_bytes = 0;
  std::uint64_t allocations = 0;
  // Valid where `mark` is the present one of the device: when all of NCCL held most there.
  std::uint64_t bytes_at_mark = 0;
  std::uint64_t mark = 0;
};

// Who allocated: a communicator while it was made, or a thread outside of that.
struct NcclOwner {
  bool is_communicator = false;
  std::uint64_t thread_id = 0;
  std::uint64_t time = 0;  // model time: a communicator's begin, a thread's first allocation
  CallSite site;           // of its first allocation
  std::map<std::int32_t, NcclUse> uses;  // by device
};

class NcclMemory {
 public:
  // A range or its end, of NVTX. `name` is empty at an end.
  void annotate(const trace::Annotation& annotation, std::string_view name, std::uint32_t writer,
                std::uint64_t now);
  // From here on the writer's records are this thread's.
  void set_thread(std::uint32_t writer, std::uint64_t thread_id);

  // False if the process made no communicator so far: nothing is NCCL's then.
  [[nodiscard]] bool is_used() const { return !communicators_.empty(); }
  // NCCL allocates on the device, now.
  void allocate(std::uint32_t writer, const CallSite& site, std::int32_t device,
                std::uint64_t bytes, std::uint64_t now);
  // What was allocated at `born` is gone.
  void release(std::uint64_t born);

  // In the order in which they began.
  [[nodiscard]] const std::vector<NcclOwner>& communicators() const { return communicators_; }
  // Threads that allocated while they made none.
  [[nodiscard]] const std::map<std::uint64_t, NcclOwner>& threads() const { return threads_; }
  [[nodiscard]] std::uint64_t bytes_at_peak(std::int32_t device, const NcclUse& use) const;

 private:
  struct Writer {
    std::uint64_t thread_id = 0;
    std::uint32_t domain = 0;      // of NVTX, that NCCL's ranges are in
    std::uint32_t depth = 0;       // of NCCL's ranges that are open
    std::uint32_t init_depth = 0;  // of the one that makes a communicator; 0 = none
    std::size_t communicator = 0;  // that it makes
  };
  struct Device {
    std::uint64_t bytes = 0;
    std::uint64_t most_bytes = 0;
    std::uint64_t mark = 0;
  };
  struct Live {
    std::uint64_t bytes = 0;
    std::int32_t device = 0;
    std::size_t communicator = 0;  // number + 1; 0 = of the thread
    std::uint64_t thread_id = 0;
  };

  [[nodiscard]] NcclOwner& owner_of(const Live& live);
  static void keep_mark(NcclUse& use, const Device& device);

  std::vector<NcclOwner> communicators_;
  std::map<std::uint64_t, NcclOwner> threads_;
  std::map<std::uint32_t, Writer> writers_;
  std::map<std::int32_t, Device> devices_;
  std::unordered_map<std::uint64_t, Live> live_;  // by the time of the allocation
};

}  // namespace gpumemtrace::analyzer
