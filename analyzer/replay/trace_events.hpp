// SPDX-License-Identifier: Apache-2.0
// Turns the records of a process into the requests to each of its devices' caching allocators.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "analyzer/base/flat_map.hpp"
#include "analyzer/replay/events.hpp"
#include "analyzer/replay/recorded_allocator.hpp"
#include "trace/ledger/contexts.hpp"
#include "trace/ledger/pools.hpp"
#include "trace/ledger/targets.hpp"
#include "trace/ledger/virtual_memory.hpp"
#include "trace/reader.hpp"
#include "trace/records.hpp"

namespace gpumemtrace::analyzer::replay {

// Facts about one device that the trace has beside the allocator's own calls.
struct DeviceFacts {
  std::uint64_t total_bytes = 0;    // 0 = the device's size is not known
  std::uint64_t other_at_peak = 0;  // bytes in use beside segments, when segments had their peak
  bool knows_other = false;         // a sample has the device's bytes in use
  std::uint64_t segments_peak = 0;  // the most bytes of segments
};

// The reason why a trace does not have all of the allocator's requests; empty if it has all.
struct Gaps {
  std::string reason;
  bool is_end_only = false;  // nothing is missing before recording ended
};

// A request that PyTorch could not meet.
struct Refusal {
  std::uint64_t time = 0;  // model time, in ticks of the trace
  std::uint64_t bytes = 0;
};

// A device of a process, with what the trace tells of its allocator: PyTorch's, or, in a process
// without PyTorch, the program's own requests to the driver.
struct DeviceEvents {
  std::int32_t device = -1;
  bool is_without_torch = false;
  Backend backend = Backend::kNative;
  TorchRules rules;
  AllocatorSettings settings;  // settings at the first block: recorded, or inferred from that block
  std::string options;         // the settings as text
  std::uint64_t changes = 0;   // number of later changes of settings
  // PyTorch's own limit on the device, by the program's settings, if it is known.
  struct Allowed {
    std::uint64_t least_bytes = 0;
    std::uint64_t most_bytes = 0;
    double fraction = 1;  // the last fraction that was set
  };
  std::optional<Allowed> allowed;
  // The reason why the recorded settings cannot be replayed; empty if they can.
  std::string settings_error;
  DeviceFacts facts;
  std::unique_ptr<EventBuffer> out;
  std::unique_ptr<RecordedAllocator> recorded;  // nullptr unless the backend is native
  std::uint64_t requests = 0;
  std::uint64_t frees = 0;  // without PyTorch: the frees of the program itself
  std::uint64_t refused = 0;
  std::vector<Refusal> refusals;  // the first kMostRefusals refused requests
  std::uint32_t streams = 0;      // number of streams, counted if `recorded` is nullptr
};

// Turns records into events.
// - apply() takes the records in the order of analyzer/order/merge.hpp; finish() follows the last.
// - Memory grows with the live allocations.
class TraceEvents {
 public:
  // Returns the sinks for a device's requests; it is called when the device's first block comes.
  using Sinks = std::function<std::vector<EventSink*>(const DeviceEvents&)>;

  // By device, the bytes in use that no recorded call shows, as known before its first sample.
  using Unseen = std::map<std::int32_t, std::uint64_t>;

  // The constructor reads the process's PyTorch version, settings and devices from the whole trace.
  TraceEvents(const trace::TraceFile& file, Sinks sinks, const Unseen& unseen = {})
      : sinks_(std::move(sinks)) {
    for (const auto& [device, bytes] : unseen) usage_[device].unseen_bytes = bytes;
    read_texts(file);
  }

  void apply(const trace::RecordHeader& record, std::uint32_t writer, std::uint64_t ticks);
  void finish();

  [[nodiscard]] const std::map<std::int32_t, DeviceEvents>& devices() const { return devices_; }
  [[nodiscard]] TorchRules rules() const { return rules_of_version(torch_version_); }
  [[nodiscard]] const Gaps& gaps() const { return gaps_; }
  // The bytes in use that no recorded call shows, by the first samples of devices that refused
  // requests before their first sample. The trace is then read again with these numbers.
  [[nodiscard]] const Unseen& unseen_before_sample() const { return unseen_before_sample_; }
  // Adds a gap if the reader lost records of the trace.
  void add_losses(const trace::ReadLosses& losses);

 private:
  // A piece of driver memory, by its address or handle, or a mapping of it.
  struct Piece {
    std::uint64_t address = 0;
    std::uint64_t bytes = 0;
    std::uint32_t writer = 0;
    std::int32_t device = ledger::kUnknownDevice;
    // Set if it was a segment when recording began.
    std::optional<RecordedAllocator::EarlierSegment> earlier;
  };
  // No piece counts as a segment here: the recorded allocator finds out which ones are.
  struct NoSegment {
    [[nodiscard]] static bool is_segment() { return false; }
  };
  struct MappingOwner;
  // Memory that the driver handed out directly, without an allocator of PyTorch's.
  struct OwnBlock {
    std::uint32_t slot = 0;
    std::int32_t device = -1;
    std::uint64_t driver_bytes = 0;  // 0 = memory of a pool
    ledger::Kind kind = ledger::Kind::kDevice;
    trace::ContextId context = trace::ContextId::kNone;
  };
  // Driver memory in use on a device, by any code.
  struct Usage {
    std::uint64_t total_bytes = 0;
    std::uint64_t driver_bytes = 0;
    std::uint64_t own_blocks_bytes = 0;  // the part of driver_bytes in own_blocks_
    std::uint64_t unseen_bytes = 0;
    bool has_sample = false;
    bool refused_before_sample = false;
    std::uint64_t limit = AllocatorSettings::kNoLimit;
    std::optional<double> fraction;  // the part of the device that PyTorch may take
  };

  void read_texts(const trace::TraceFile& file);
  void apply(const trace::Context& context) { (void)contexts_.announce(context); }
  void apply(const trace::ContextCall& call);
  void apply(const trace::Device& device) {
    usage_[device.ordinal].total_bytes = device.total_bytes;
    update_torch_limit(device.ordinal);
  }
  void apply(const trace::Stack& stack) { python_frames_->add(stack); }
  void apply(const trace::AllocatorSetting& setting);
  void apply(const trace::BlockWait& wait);
  void apply(const trace::Mark& mark);
  void apply(const trace::Gap& gap);
  void apply(const trace::Allocation& call);
  void apply(const trace::Free& call);
  void apply(const trace::Mapping& call);
  void apply(const trace::Pool& call);
  void apply(const trace::Graph& call);
  void apply(const trace::Block& block);
  void apply(const trace::FrameworkOom& oom);
  void apply(const trace::PoolSample& sample);
  void apply(const trace::MemorySample& sample);
  void add_own_block(const trace::Allocation& call, const ledger::Target& target);
  void end_own_block(const OwnBlock& block);
  void set_options(const std::string& text);
  void update_torch_limit(std::int32_t device);
  [[nodiscard]] DeviceEvents& device_of_block(std::int32_t device, std::uint64_t address);
  void give_earlier_calls(std::int32_t device, RecordedAllocator& recorded);
  void give_earlier_spaces(std::int32_t ordinal);
  void choose_settings(DeviceEvents& device, std::uint64_t address);
  void add_gap(const std::string& reason, bool is_end_only = false);
  void driver_refused(std::int32_t device, std::uint64_t bytes);
  void update_driver_limit(std::int32_t device);
  // Passes a record on to all devices' allocators; only the one that it concerns uses it.
  template <class Verb, class... Arguments>
  void pass_to_allocators(Verb verb, const Arguments&... arguments) {
    for (auto& [ordinal, device] : devices_) {
      if (device.recorded) std::invoke(verb, *device.recorded, arguments...);
    }
  }

  Sinks sinks_;
  std::map<std::int32_t, DeviceEvents> devices_;
  FlatMap<Piece, &Piece::address> allocations_;  // memory of cuMemAlloc
  ledger::VirtualMemory<Piece, NoSegment> virtual_memory_;
  // Address spaces of a device whose first block has not come yet: streams by address.
  std::map<std::int32_t, std::map<std::uint64_t, std::int64_t>> earlier_spaces_;
  std::unordered_map<std::uint64_t, OwnBlock> own_blocks_;
  bool is_without_torch_ = false;
  std::map<std::int32_t, Slots> slots_;  // the next free block number, by device
  std::map<std::pair<std::int32_t, std::uint64_t>, ClassId> streams_;
  ledger::Pools pools_;
  ledger::Contexts contexts_;
  std::map<std::int32_t, Usage> usage_;
  std::string torch_version_;
  std::string backend_;
  std::optional<std::string> options_;  // the settings that PyTorch took last
  AllocatorSettings settings_;          // options_, parsed
  std::string settings_error_;
  std::unique_ptr<PythonFrames> python_frames_ = std::make_unique<PythonFrames>();
  Gaps gaps_;
  Unseen unseen_before_sample_;
  std::uint64_t now_ = 0;
  std::uint32_t writer_ = 0;  // the writer of the present record
};

// Reads the whole trace once and passes its events to the sinks.
[[nodiscard]] TraceEvents read_events(const trace::TraceFile& file, const TraceEvents::Sinks& sinks,
                                      const TraceEvents::Unseen& unseen = {});

}  // namespace gpumemtrace::analyzer::replay
