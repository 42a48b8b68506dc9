// SPDX-License-Identifier: Apache-2.0
// NCCL's driver memory, by communicator. NCCL's NVTX ranges tell when a thread makes or uses a
// communicator.
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

// Bytes of one owner on one device.
struct NcclUse {
  std::uint64_t bytes = 0;
  std::uint64_t most_bytes = 0;
  std::uint64_t allocations = 0;
  // The owner's bytes when all of NCCL held most on the device, if `mark` equals Device::mark. If
  // not, they are still `bytes`.
  std::uint64_t bytes_at_mark = 0;
  std::uint64_t mark = 0;
};

// An owner of NCCL's memory: a communicator while threads make or use it, or a thread at other
// times.
struct NcclOwner {
  // model time: when a communicator was begun, or a thread allocated first
  std::uint64_t time = 0;
  CallSite site;                         // call site of the owner's first allocation
  std::map<std::int32_t, NcclUse> uses;  // uses by device
};

struct NcclCommunicator : NcclOwner {
  // NCCL's hash of the communicator, the same for all its ranks; 0 = not known
  std::uint64_t hash = 0;
  std::uint32_t ranks = 0;   // number of ranks; 0 = not known
  std::int32_t rank = -1;    // rank of this process; -1 = not known, or several
  std::int32_t device = -1;  // CUDA device; -1 = not known, or several
  bool is_made = false;      // the NVTX range of the call that makes the communicator has ended
};

struct NcclThread : NcclOwner {
  // The communicator for which the thread allocated, concluded from the NVTX ranges of other
  // threads.
  std::optional<std::size_t> communicator;
  bool communicator_is_ambiguous = false;
};

class NcclMemory {
 public:
  // Takes the begin or the end of an NVTX range. `name` is empty at an end.
  void annotate(const trace::Annotation& annotation, std::string_view name, std::uint32_t writer,
                std::uint64_t now);
  // Notes that the records of the trace's writer `writer` are from now on those of this thread.
  void set_thread(std::uint32_t writer, std::uint64_t thread_id);

  // False if the process has made no communicator so far: then no memory is NCCL's.
  [[nodiscard]] bool is_used() const { return !communicators_.empty(); }
  // Notes an allocation of NCCL on the device at the time `now`.
  void allocate(std::uint32_t writer, const CallSite& site, std::int32_t device,
                std::uint64_t bytes, std::uint64_t now);
  // Notes the free of memory that was allocated at `born`.
  void release(std::uint64_t born);

  // The communicators in the order in which they were begun.
  [[nodiscard]] const std::vector<NcclCommunicator>& communicators() const {
    return communicators_;
  }
  // Threads that allocated while they neither made nor used a communicator, by the kernel's thread
  // id.
  [[nodiscard]] const std::map<std::uint64_t, NcclThread>& threads() const { return threads_; }
  // The index of the communicator to which the thread's memory on the device belongs.
  [[nodiscard]] std::optional<std::size_t> communicator_of(const NcclThread& thread,
                                                           std::int32_t device) const;
  // False if the process used a communicator that was made before the recording.
  [[nodiscard]] bool knows_all() const { return knows_all_; }
  [[nodiscard]] std::uint64_t bytes_at_peak(std::int32_t device, const NcclUse& use) const;

 private:
  // The communicator that a range is about: one that the range makes, or one that NCCL names by its
  // hash.
  struct Subject {
    enum class Kind : std::uint8_t { kUnknown, kMade, kHash };
    Kind kind = Kind::kUnknown;
    std::uint64_t number = 0;  // kMade: index in communicators_; kHash: NCCL's hash

    friend bool operator==(const Subject&, const Subject&) = default;
  };
  struct Range {
    Subject subject;
    bool makes = false;  // the range's call makes the communicator `subject`
    // the range has the hash and ranks of the made communicator, not of its parent
    bool is_init = false;
  };
  // Calls between ncclGroupStart and ncclGroupEnd, which are carried out by ncclGroupEnd.
  struct Group {
    std::uint32_t depth = 0;
    bool is_empty = true;
    Subject subject;  // kUnknown also if the calls are about several communicators
  };
  struct Writer {
    std::uint64_t thread_id = 0;
    std::uint32_t domain = 0;   // NVTX domain of NCCL's ranges
    std::vector<Range> ranges;  // open ranges of NCCL
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
    std::optional<std::size_t> communicator;  // none if the memory belongs to the thread
    std::uint64_t thread_id = 0;
  };

  [[nodiscard]] Range begin_range(const trace::Annotation& annotation, std::string_view name,
                                  Writer& writer_state, std::uint64_t now);
  void end_range(const trace::Annotation& annotation, Writer& writer_state);
  void describe(NcclCommunicator& communicator, const trace::Annotation& annotation);
  [[nodiscard]] std::optional<std::size_t> find(const Subject& subject, std::int32_t device) const;
  // The communicator that the thread itself makes or uses at present.
  [[nodiscard]] std::optional<std::size_t> present(const Writer& writer_state,
                                                   std::int32_t device) const;
  // The communicator that all threads in calls of NCCL make or use at present; none if they differ,
  // or if one is not known.
  [[nodiscard]] std::optional<std::size_t> present_elsewhere(std::int32_t device) const;
  void guess_thread_communicator(NcclThread& thread, std::int32_t device);

  [[nodiscard]] NcclOwner& owner_of(const Live& live);
  static void store_bytes_at_peak(NcclUse& use, const Device& device);

  std::vector<NcclCommunicator> communicators_;
  std::unordered_multimap<std::uint64_t, std::size_t> by_hash_;
  bool knows_all_ = true;
  std::map<std::uint64_t, NcclThread> threads_;
  std::map<std::uint32_t, Writer> writers_;
  std::map<std::int32_t, Device> devices_;
  std::unordered_map<std::uint64_t, Live> live_;  // live memory, by the time of its allocation
};

}  // namespace gpumemtrace::analyzer
