// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <optional>
#include <protozero/pbf_writer.hpp>
#include <tuple>
#include <vector>

#include "tools/base/text.hpp"
#include "tools/export/exports.hpp"
#include "tools/export/stack_costs.hpp"
#include "tools/report_view/report_input.hpp"
#include "tools/report_view/report_row.hpp"

namespace gpumemtrace::tools {
namespace {

using analyzer::Level;
using analyzer::rows::Report;
using protozero::pbf_writer;

constexpr int kPacket = 1;  // field number in the message Trace
namespace packet {
constexpr int kClockSnapshot = 6;
constexpr int kTimestamp = 8;
constexpr int kSequence = 10;
constexpr int kTrackEvent = 11;
constexpr int kInternedData = 12;
constexpr int kSequenceFlags = 13;
constexpr int kProfilePacket = 37;
constexpr int kTrackDescriptor = 60;
}  // namespace packet
namespace track {
constexpr int kUuid = 1;
constexpr int kName = 2;
constexpr int kProcess = 3;
constexpr int kParent = 5;
constexpr int kCounter = 8;
}  // namespace track
namespace event {
constexpr int kType = 9;
constexpr int kTrack = 11;
constexpr int kName = 23;
constexpr int kCounterValue = 30;
}  // namespace event
namespace interned_data {
constexpr int kFunctionNames = 5;
constexpr int kFrames = 6;
constexpr int kCallstacks = 7;
constexpr int kId = 1;        // id of a function name, a frame or a callstack
constexpr int kText = 2;      // the text of a function name
constexpr int kFunction = 2;  // id of a frame's function name
constexpr int kFrameIds = 2;  // ids of a callstack's frames
}  // namespace interned_data
namespace profile_packet {
constexpr int kProcessDumps = 5;
}  // namespace profile_packet
namespace process_dump {
constexpr int kPid = 1;
constexpr int kSamples = 2;
constexpr int kTimestamp = 9;
constexpr int kHeapName = 11;
}  // namespace process_dump
namespace heap_sample {
constexpr int kCallstack = 1;
constexpr int kAllocatedBytes = 2;
}  // namespace heap_sample
enum class EventType : std::uint32_t { kBegin = 1, kEnd = 2, kInstant = 3, kCounter = 4 };

class TraceWriter {
 public:
  TraceWriter(const Report& report, std::uint64_t job_start_unix_ns)
      : report_(report), origin_ns_(job_start_unix_ns) {}

  [[nodiscard]] std::string write(const analyzer::rows::Process* only) {
    add_clocks();
    for (const analyzer::rows::Process& process : report_.processes) {
      if (only == nullptr || only == &process) add_process(process);
      tracks_ += kMostTracks;  // track ids differ between all files of a job
    }
    return std::move(data_);
  }

 private:
  [[nodiscard]] std::uint64_t time(std::uint64_t job_ns) const { return origin_ns_ + job_ns; }

  // Writes one reading of all clocks, so that Perfetto can relate them: heap dumps use another
  // clock than events.
  void add_clocks() {
    constexpr auto kClocks = std::to_array<std::uint32_t>({1, 3, 4, 6});
    pbf_writer row(out_, kPacket);
    row.add_uint64(packet::kTimestamp, time(0));
    row.add_uint32(packet::kSequence, kSequenceId);
    pbf_writer snapshot(row, packet::kClockSnapshot);
    for (const std::uint32_t clock : kClocks) {
      pbf_writer reading(snapshot, 1);
      reading.add_uint32(1, clock);
      reading.add_uint64(2, time(0));
    }
  }

  void add_process(const analyzer::rows::Process& process) {
    const std::string missing = missing_in_short(report_, process.id);
    const std::string title =
        process_title(process) + (missing.empty() ? "" : " (incomplete: " + missing + ")");
    const std::uint64_t group = new_track(std::nullopt, "", [&](pbf_writer& descriptor) {
      pbf_writer row(descriptor, track::kProcess);
      row.add_int32(1, static_cast<std::int32_t>(process.pid.value_or(0)));
      row.add_string(6, title);
    });
    for (const analyzer::rows::Timeline& timeline : report_.timeline) {
      if (timeline.process == process.id) add_timeline(timeline, group);
    }
    add_slices(process.id, group);
    add_instants(process.id, group);
    add_heap_dumps(process);
  }

  template <class Describe>
  std::uint64_t new_track(std::optional<std::uint64_t> parent, const std::string& name,
                          Describe&& describe) {
    const std::uint64_t uuid = ++tracks_;
    pbf_writer row(out_, kPacket);
    row.add_uint32(packet::kSequence, kSequenceId);
    pbf_writer descriptor(row, packet::kTrackDescriptor);
    descriptor.add_uint64(track::kUuid, uuid);
    if (parent) descriptor.add_uint64(track::kParent, *parent);
    if (!name.empty()) descriptor.add_string(track::kName, valid_utf8(name));
    describe(descriptor);
    return uuid;
  }
  std::uint64_t new_counter(std::uint64_t parent, const std::string& name) {
    return new_track(parent, name, [](pbf_writer& descriptor) {
      constexpr std::int32_t kBytes = 3;
      pbf_writer counter(descriptor, track::kCounter);
      counter.add_enum(3, kBytes);
    });
  }

  template <class Fill>
  void add_event(std::uint64_t job_ns, EventType type, std::uint64_t on, Fill&& fill) {
    pbf_writer row(out_, kPacket);
    row.add_uint64(packet::kTimestamp, time(job_ns));
    row.add_uint32(packet::kSequence, kSequenceId);
    pbf_writer body(row, packet::kTrackEvent);
    body.add_enum(event::kType, static_cast<std::int32_t>(type));
    body.add_uint64(event::kTrack, on);
    fill(body);
  }
  void add_value(std::uint64_t job_ns, std::uint64_t on, std::uint64_t bytes) {
    add_event(job_ns, EventType::kCounter, on, [&](pbf_writer& body) {
      body.add_int64(event::kCounterValue, static_cast<std::int64_t>(bytes));
    });
  }
  void add_named(std::uint64_t job_ns, EventType type, std::uint64_t on, const std::string& name) {
    add_event(job_ns, type, on,
              [&](pbf_writer& body) { body.add_string(event::kName, valid_utf8(name)); });
  }

  // Writes two points for each bucket: its highest value, so that the peak is among them, and its
  // last.
  void add_timeline(const analyzer::rows::Timeline& timeline, std::uint64_t group) {
    const std::string of =
        format_text("{} {}", timeline.device.value_or("host"), name_of(timeline.level));
    const std::uint64_t total = new_counter(group, of + ": allocated");
    std::map<std::string, std::uint64_t> parts;
    std::optional<std::uint64_t> reserved;
    for (const analyzer::rows::TimelineBucket& bucket : timeline.buckets) {
      add_value(bucket.max_time_ns, total, bucket.max_bytes);
      if (bucket.end_ns > bucket.max_time_ns) add_value(bucket.end_ns, total, bucket.last_bytes);
      for (const auto& [name, bytes] : bucket.parts) {
        auto found = parts.find(name);
        if (found == parts.end()) {
          if (bytes == 0) continue;
          found = parts.emplace(name, new_counter(group, of + ": " + name)).first;
        }
        add_value(bucket.max_time_ns, found->second, bytes);
      }
      if (!bucket.reserved_bytes) continue;
      if (!reserved) reserved = new_counter(group, of + ": reserved");
      add_value(bucket.max_time_ns, *reserved, *bucket.reserved_bytes);
    }
  }

  // Slices of one track may be nested but not overlap otherwise: a range goes to the first track on
  // which it is nested.
  struct Slices {
    std::uint64_t id = 0;
    std::vector<std::uint64_t> open_until;
  };
  void add_slice(std::vector<Slices>& tracks, std::uint64_t group, const std::string& track_name,
                 const analyzer::rows::Interval& row, const std::string& name) {
    if (!row.start_ns) return;
    const std::uint64_t end = row.end_ns.value_or(~std::uint64_t{0});
    const auto fits = [&](Slices& slices) {
      std::erase_if(slices.open_until, [&](std::uint64_t until) { return until <= *row.start_ns; });
      return slices.open_until.empty() || slices.open_until.back() >= end;
    };
    auto found = std::ranges::find_if(tracks, fits);
    if (found == tracks.end()) {
      tracks.push_back({new_track(group, track_name, [](pbf_writer&) {}), {}});
      found = std::prev(tracks.end());
    }
    found->open_until.push_back(end);
    slices_.push_back({*row.start_ns, end, found->id, name});
  }

  void add_slices(const std::string& process, std::uint64_t group) {
    std::vector<Slices> steps;
    for (const analyzer::rows::Step& step : report_.steps) {
      if (step.process != process) continue;
      add_slice(steps, group, "steps", step, format_text("step {}", step.index));
    }
    std::vector<const analyzer::rows::Range*> ranges;
    for (const analyzer::rows::Range& range : report_.ranges) {
      if (range.process == process && range.start_ns) ranges.push_back(&range);
    }
    std::stable_sort(ranges.begin(), ranges.end(), [](const auto* a, const auto* b) {
      // Sorts by start, the longer range first: it is the outer one.
      constexpr std::uint64_t kOpen = ~std::uint64_t{0};
      return std::tuple(*a->start_ns, kOpen - a->end_ns.value_or(kOpen)) <
             std::tuple(*b->start_ns, kOpen - b->end_ns.value_or(kOpen));
    });
    std::vector<Slices> named;
    for (const analyzer::rows::Range* range : ranges) {
      add_slice(named, group, "ranges", *range, range->name);
    }
    write_slices();
  }

  struct Slice {
    std::uint64_t start_ns = 0;
    std::uint64_t end_ns = 0;
    std::uint64_t on = 0;
    std::string name;
  };
  // Writes begins and ends of slices in the order of time, as Perfetto needs them for nesting.
  void write_slices() {
    struct Edge {
      std::uint64_t time_ns = 0;
      // Order at one time: ends come before begins, except the end of a slice without duration. Of
      // two ends the inner slice's is first, of two begins the outer one's.
      std::uint64_t rank = 0;
      const Slice* slice = nullptr;
      bool begins = false;
    };
    std::vector<Edge> edges;
    for (std::size_t i = 0; i < slices_.size(); ++i) {
      edges.push_back({slices_[i].start_ns, slices_.size() + i, &slices_[i], true});
      if (slices_[i].end_ns == ~std::uint64_t{0}) continue;
      const bool is_empty = slices_[i].end_ns == slices_[i].start_ns;
      const std::uint64_t rank = (is_empty ? 3 : 1) * slices_.size() - i;
      edges.push_back({slices_[i].end_ns, rank, &slices_[i], false});
    }
    std::sort(edges.begin(), edges.end(), [](const Edge& a, const Edge& b) {
      return std::tuple(a.time_ns, a.rank) < std::tuple(b.time_ns, b.rank);
    });
    for (const Edge& edge : edges) {
      if (edge.begins) {
        add_named(edge.time_ns, EventType::kBegin, edge.slice->on, edge.slice->name);
      } else {
        add_event(edge.time_ns, EventType::kEnd, edge.slice->on, [](pbf_writer&) {});
      }
    }
    slices_.clear();
  }

  void add_instants(const std::string& process, std::uint64_t group) {
    std::optional<std::uint64_t> marks;
    const auto add = [&](std::uint64_t job_ns, const std::string& name) {
      if (!marks) marks = new_track(group, "marks", [](pbf_writer&) {});
      add_named(job_ns, EventType::kInstant, *marks, name);
    };
    for (const analyzer::rows::Mark& mark : report_.marks) {
      if (mark.process == process) add(mark.time_ns, mark.name);
    }
    for (const analyzer::rows::Oom& failure : report_.oom) {
      if (failure.process != process || !failure.time_ns) continue;
      add(*failure.time_ns,
          format_text("out of memory: {} bytes asked for", failure.requested_bytes));
    }
  }

  // Writes a heap dump of what was live at the peak of each memory level (such as the driver's or
  // the framework's) that the process used on one device only.
  void add_heap_dumps(const analyzer::rows::Process& process) {
    for (const analyzer::rows::Peak& peak : report_.peak) {
      if (peak.process != process.id || !peak.time_ns) continue;
      // Costs are summed over all devices, so that they match a peak only if there is one device.
      const bool is_one_device = std::ranges::count_if(report_.peak, [&](auto& p) {
                                   return p.process == peak.process && p.level == peak.level;
                                 }) == 1;
      if (!is_one_device) continue;
      StackExport what;
      what.level = name_of(peak.level);
      add_heap_dump(process, peak, bytes_by_stack(report_, what, process.id));
    }
  }

  void add_heap_dump(const analyzer::rows::Process& process, const analyzer::rows::Peak& peak,
                     const BytesByStack& stacks) {
    // Each dump has its own packet sequence, because interned ids count within one sequence.
    const std::uint32_t sequence = ++sequences_;
    std::map<std::string, std::uint64_t> functions;
    std::vector<std::vector<std::uint64_t>> callstacks;
    for (const auto& [stack, bytes] : stacks) {
      std::vector<std::uint64_t>& frames = callstacks.emplace_back();
      for (const NamedFrame& frame : stack) {
        frames.push_back(functions.try_emplace(frame.name, functions.size() + 1).first->second);
      }
    }
    pbf_writer row(out_, kPacket);
    row.add_uint64(packet::kTimestamp, time(*peak.time_ns));
    row.add_uint32(packet::kSequence, sequence);
    constexpr std::uint32_t kIsCleared = 1;
    row.add_uint32(packet::kSequenceFlags, kIsCleared);
    {
      pbf_writer interned(row, packet::kInternedData);
      for (const auto& [name, id] : functions) {
        pbf_writer text(interned, interned_data::kFunctionNames);
        text.add_uint64(interned_data::kId, id);
        text.add_bytes(interned_data::kText, valid_utf8(name));
      }
      for (const auto& [name, id] : functions) {
        pbf_writer frame(interned, interned_data::kFrames);
        frame.add_uint64(interned_data::kId, id);
        frame.add_uint64(interned_data::kFunction, id);
      }
      for (std::size_t i = 0; i < callstacks.size(); ++i) {
        pbf_writer callstack(interned, interned_data::kCallstacks);
        callstack.add_uint64(interned_data::kId, i + 1);
        for (const std::uint64_t frame : callstacks[i]) {
          callstack.add_uint64(interned_data::kFrameIds, frame);
        }
      }
    }
    pbf_writer profile(row, packet::kProfilePacket);
    pbf_writer dump(profile, profile_packet::kProcessDumps);
    dump.add_uint64(process_dump::kPid, process.pid.value_or(0));
    std::uint64_t id = 0;
    for (const auto& [stack, bytes] : stacks) {
      pbf_writer sample(dump, process_dump::kSamples);
      sample.add_uint64(heap_sample::kCallstack, ++id);
      sample.add_uint64(heap_sample::kAllocatedBytes, bytes);
    }
    dump.add_uint64(process_dump::kTimestamp, time(*peak.time_ns));
    dump.add_string(
        process_dump::kHeapName,
        format_text("{} {} at its peak", peak.device.value_or("host"), name_of(peak.level)));
  }

  static constexpr std::uint32_t kSequenceId = 1;
  // Track ids reserved for a process.
  static constexpr std::uint64_t kMostTracks = std::uint64_t{1} << 32;

  const Report& report_;
  std::uint64_t origin_ns_;
  std::string data_;
  pbf_writer out_{data_};
  std::uint64_t tracks_ = 0;
  std::uint32_t sequences_ = kSequenceId;
  std::vector<Slice> slices_;
};

}  // namespace

std::string perfetto_trace(const Report& report, std::uint64_t job_start_unix_ns,
                           const analyzer::rows::Process* only) {
  return TraceWriter(report, job_start_unix_ns).write(only);
}

}  // namespace gpumemtrace::tools
