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

// The trace's facts about one device beside the allocator's own calls.
struct DeviceFacts {
  std::uint64_t total_bytes = 0;    // 0 = not known
  std::uint64_t other_at_peak = 0;  // used on the device beside segments, when these were most
  bool knows_other = false;         // a sample has the device's bytes in use
  std::uint64_t segments_peak = 0;  // bytes
};

// The reason why a trace does not have all of the allocator's requests; empty if it has.
struct Gaps {
  std::string reason;
  bool is_end_only = false;  // nothing is missing before recording ended
};

// A request that PyTorch could not meet.
struct Refusal {
  std::uint64_t time = 0;  // of the model, in ticks
  std::uint64_t bytes = 0;
};

// One device of a process on which PyTorch's allocator was seen, or, in a process without PyTorch,
// memory that the program asked the driver for.
struct DeviceEvents {
  std::int32_t device = -1;
  bool is_without_torch = false;
  Backend backend = Backend::kNative;
  TorchRules rules;
  AllocatorSettings settings;  // at the first block: recorded, or found by it
  std::string options;         // the settings as text
  std::uint64_t changes = 0;   // of settings, later
  // PyTorch's own limit on the device, by the program's settings, if it is known.
  struct Allowed {
    std::uint64_t least_bytes = 0;
    std::uint64_t most_bytes = 0;
    double fraction = 1;  // the last
  };
  std::optional<Allowed> allowed;
  std::string settings_error;  // the recorded text cannot be replayed
  DeviceFacts facts;
  std::unique_ptr<EventBuffer> out;
  std::unique_ptr<RecordedAllocator> recorded;  // native backends
  std::uint64_t requests = 0;
  std::uint64_t frees = 0;  // without PyTorch: the program's own
  std::uint64_t refused = 0;
  std::vector<Refusal> refusals;  // the first kMostRefusals
  std::uint32_t streams = 0;      // without blocks of PyTorch's
};

// - apply() takes the records in the order of analyzer/order/merge.hpp; finish() follows the last.
// - Memory grows with what is live.
class TraceEvents {
 public:
  // The sinks for a device's requests; called when its first block comes.
  using Sinks = std::function<std::vector<EventSink*>(const DeviceEvents&)>;

  // Bytes in use on a device, beside those of calls, before the first sample of it.
  using Unseen = std::map<std::int32_t, std::uint64_t>;

  // The process's version, settings and devices are read from the whole trace ahead.
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
  // The first samples of devices on which requests were refused before: for reading the trace
  // again.
  [[nodiscard]] const Unseen& told_late() const { return told_late_; }
  // The reader's losses in the trace.
  void add_losses(const trace::ReadLosses& losses);

 private:
  // Driver memory, by its address or handle, or a mapping.
  struct Piece {
    std::uint64_t address = 0;
    std::uint64_t bytes = 0;
    std::uint32_t writer = 0;
    std::int32_t device = ledger::kUnknownDevice;
    std::optional<RecordedAllocator::EarlierSegment> earlier;  // a segment when recording began
  };
  // The recorded allocator finds out which of them are segments.
  struct NoSegment {
    [[nodiscard]] static bool is_segment() { return false; }
  };
  struct MappingOwner;
  // Memory that the driver handed out directly, without an allocator of PyTorch's.
  struct OwnBlock {
    std::uint32_t slot = 0;
    std::int32_t device = -1;
    std::uint64_t driver_bytes = 0;  // 0 = of a pool
    ledger::Kind kind = ledger::Kind::kDevice;
    trace::ContextId context = trace::ContextId::kNone;
  };
  // Driver memory in use on a device, of any code.
  struct Usage {
    std::uint64_t total_bytes = 0;
    std::uint64_t driver_bytes = 0;
    std::uint64_t own_blocks_bytes = 0;  // of these
    std::uint64_t unseen_bytes = 0;
    bool has_sample = false;
    bool refused_before_sample = false;
    std::uint64_t limit = AllocatorSettings::kNoLimit;
    std::optional<double> fraction;  // that PyTorch may take
  };

  void read_texts(const trace::TraceFile& file);
  void apply(const trace::Context& context) { (void)contexts_.announce(context); }
  void apply(const trace::ContextCall& call);
  void apply(const trace::Device& device) {
    usage_[device.ordinal].total_bytes = device.total_bytes;
    update_limit(device.ordinal);
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
  void update_limit(std::int32_t device);
  [[nodiscard]] DeviceEvents& device_of_block(std::int32_t device, std::uint64_t address);
  void give_earlier_calls(std::int32_t device, RecordedAllocator& recorded);
  void give_earlier_spaces(std::int32_t ordinal);
  void choose_settings(DeviceEvents& device, std::uint64_t address);
  void add_gap(const std::string& reason, bool is_end_only = false);
  void driver_refused(std::int32_t device, std::uint64_t bytes);
  void update(std::int32_t device);
  // For the device that the record concerns.
  template <class Verb, class... Arguments>
  void tell(Verb verb, const Arguments&... arguments) {
    for (auto& [ordinal, device] : devices_) {
      if (device.recorded) std::invoke(verb, *device.recorded, arguments...);
    }
  }

  Sinks sinks_;
  std::map<std::int32_t, DeviceEvents> devices_;
  FlatMap<Piece, &Piece::address> allocations_;  // cuMemAlloc
  ledger::VirtualMemory<Piece, NoSegment> virtual_memory_;
  // Streams by address, of a device whose first block has not come yet.
  std::map<std::int32_t, std::map<std::uint64_t, std::int64_t>> earlier_spaces_;
  std::unordered_map<std::uint64_t, OwnBlock> own_blocks_;
  bool is_without_torch_ = false;
  std::map<std::int32_t, Slots> slots_;  // by device
  std::map<std::pair<std::int32_t, std::uint64_t>, ClassId> streams_;
  ledger::Pools pools_;
  ledger::Contexts contexts_;
  std::map<std::int32_t, Usage> usage_;
  std::string torch_version_;
  std::string backend_;
  std::optional<std::string> options_;  // that PyTorch took last
  AllocatorSettings settings_;          // of these
  std::string settings_error_;
  std::unique_ptr<PythonFrames> python_frames_ = std::make_unique<PythonFrames>();
  Gaps gaps_;
  Unseen told_late_;
  std::uint64_t now_ = 0;
  std::uint32_t writer_ = 0;  // of the present record
};

// All of the trace, read once.
[[nodiscard]] TraceEvents read_events(const trace::TraceFile& file, const TraceEvents::Sinks& sinks,
                                      const TraceEvents::Unseen& unseen = {});

}  // namespace gpumemtrace::analyzer::replay
