// SPDX-License-Identifier: Apache-2.0
// NCCL's driver memory, by communicator. NVTX ranges of NCCL tell when a thread makes or uses one.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
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
  // Bytes when all of NCCL held most on the device. Valid if `mark` is the device's present one.
  std::uint64_t bytes_at_mark = 0;
  std::uint64_t mark = 0;
};

// Holder of memory: a communicator while it was made or used, or a thread outside of that.
struct NcclOwner {
  std::uint64_t time = 0;  // model time: a communicator's begin, a thread's first allocation
  CallSite site;           // of its first allocation
  std::map<std::int32_t, NcclUse> uses;  // by device
};

struct NcclCommunicator : NcclOwner {
  std::uint64_t hash = 0;    // NCCL's name of it, the same for all its ranks; 0 = not told
  std::uint32_t ranks = 0;   // 0 = not told
  std::int32_t rank = -1;    // -1 = not told, or several
  std::int32_t device = -1;  // -1 = not told, or several
  bool is_made = false;      // the range that makes it has ended
};

struct NcclThread : NcclOwner {
  // The communicators for which the thread allocated, as far as ranges of other threads tell.
  std::optional<std::size_t> communicator;
  bool serves_several = false;
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
  // Memory that was allocated at `born` is freed.
  void release(std::uint64_t born);

  // In the order in which they began.
  [[nodiscard]] const std::vector<NcclCommunicator>& communicators() const {
    return communicators_;
  }
  // Threads that allocated while they neither made nor used one, by the system's number.
  [[nodiscard]] const std::map<std::uint64_t, NcclThread>& threads() const { return threads_; }
  // The index of the communicator that the thread's memory on the device is for.
  [[nodiscard]] std::optional<std::size_t> communicator_of(const NcclThread& thread,
                                                           std::int32_t device) const;
  // False if one is used that was made before the recording.
  [[nodiscard]] bool knows_all() const { return knows_all_; }
  [[nodiscard]] std::uint64_t bytes_at_peak(std::int32_t device, const NcclUse& use) const;

 private:
  // The communicator that a range is about: one that it makes, or one that NCCL names.
  struct Subject {
    enum class Kind : std::uint8_t { kUnknown, kMade, kHash };
    Kind kind = Kind::kUnknown;
    std::uint64_t number = 0;  // index of the one that is made, or the hash

    friend bool operator==(const Subject&, const Subject&) = default;
  };
  struct Range {
    Subject subject;
    bool makes = false;    // the subject
    bool is_init = false;  // and tells of it, not of its parent
  };
  // Calls between ncclGroupStart and ncclGroupEnd are carried out by the latter.
  struct Group {
    std::uint32_t depth = 0;
    bool is_empty = true;
    Subject subject;  // unknown also if the calls are about several
  };
  struct Writer {
    std::uint64_t thread_id = 0;
    std::uint32_t domain = 0;   // of NVTX, that NCCL's ranges are in
    std::vector<Range> ranges;  // of NCCL that are open
    Group group;
    bool calls_nccl = false;
  };
  struct Device {
    std::uint64_t bytes = 0;
    std::uint64_t most_bytes = 0;
    std::uint64_t mark = 0;
  };
  struct Live {
    std::uint64_t bytes = 0;
    std::int32_t device = 0;
    std::optional<std::size_t> communicator;  // nothing: it is the thread's
    std::uint64_t thread_id = 0;
  };

  [[nodiscard]] Range begin_range(const trace::Annotation& annotation, std::string_view name,
                                  Writer& of, std::uint64_t now);
  void end_range(const trace::Annotation& annotation, Writer& of);
  void describe(NcclCommunicator& communicator, const trace::Annotation& annotation);
  [[nodiscard]] std::optional<std::size_t> find(const Subject& subject, std::int32_t device) const;
  // The communicator that the thread itself makes or uses now.
  [[nodiscard]] std::optional<std::size_t> present(const Writer& of, std::int32_t device) const;
  // The one that all other threads in calls of NCCL make or use now.
  [[nodiscard]] std::optional<std::size_t> present_elsewhere(std::int32_t device) const;
  void note_service(NcclThread& thread, std::int32_t device);

  [[nodiscard]] NcclOwner& owner_of(const Live& live);
  static void keep_high_water(NcclUse& use, const Device& device);

  std::vector<NcclCommunicator> communicators_;
  std::unordered_multimap<std::uint64_t, std::size_t> by_hash_;
  bool knows_all_ = true;
  std::map<std::uint64_t, NcclThread> threads_;
  std::map<std::uint32_t, Writer> writers_;
  std::map<std::int32_t, Device> devices_;
  std::unordered_map<std::uint64_t, Live> live_;  // by the time of the allocation
};

}  // namespace gpumemtrace::analyzer
