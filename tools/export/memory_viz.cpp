// SPDX-License-Identifier: Apache-2.0
// The format that torch/utils/viz/MemoryViz.js and torch/cuda/_memory_viz.py of PyTorch read.
#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "tools/export/exports.hpp"
#include "tools/export/pickle_writer.hpp"
#include "tools/report_view/report_input.hpp"
#include "tools/report_view/report_row.hpp"
#include "tools/report_view/stack_text.hpp"

namespace gpumemtrace::tools {
namespace {

using analyzer::Kind;
using analyzer::Level;
using analyzer::rows::Allocation;
using analyzer::rows::OptionalNumber;
using analyzer::rows::OptionalStack;
using analyzer::rows::OptionalText;
using analyzer::rows::Report;

// A segment of device memory or a block in one, with the end of its life.
struct Span {
  const Allocation* row = nullptr;
  OptionalNumber end_ns;     // none: still allocated at the end
  std::uint64_t stream = 0;  // PyTorch's stream number, 0: default; a segment has its first block's

  [[nodiscard]] bool is_live() const { return !end_ns; }
};

// True for device memory that can be shown as a segment.
bool is_segment(const Allocation& row) {
  switch (row.kind) {
    case Kind::kDevice:
    case Kind::kPitched:
    case Kind::kStreamOrdered:
    case Kind::kGraph:
    case Kind::kMapping:
      return true;
    default:
      return false;
  }
}

// The segments and blocks of one device. Every block lies in a segment for all of its time.
struct DeviceMemory {
  std::vector<Span> segments;
  std::vector<Span> blocks;
};

std::uint64_t asked_bytes(const Allocation& row) { return row.requested_bytes.value_or(row.bytes); }

std::uint64_t stream_of(const Allocation& row) {
  return static_cast<std::uint64_t>(row.stream.value_or(0));
}

// Each allocation of device memory as a segment, and as the one block that fills the segment.
DeviceMemory driver_memory(const std::vector<const Allocation*>& rows) {
  DeviceMemory memory;
  for (const Allocation* row : rows) {
    if (is_segment(*row)) memory.segments.push_back({row, row->end_ns, 0});
  }
  memory.blocks = memory.segments;
  return memory;
}

// A trace can claim memory beyond the last address.
std::uint64_t end_address(const Allocation& row) {
  constexpr std::uint64_t kLast = ~std::uint64_t{0};
  return row.bytes > kLast - row.address ? kLast : row.address + row.bytes;
}

// The segments that are allocated at a time, by address.
class LiveSegments {
 public:
  // Adds a segment. Calls must come in the order of start_ns.
  void add(const Allocation& segment) {
    // Recorded segments that overlap the new one must have been freed without a record.
    live_.erase(live_.lower_bound(segment.address), live_.lower_bound(end_address(segment)));
    live_[segment.address] = &segment;
  }

  // The adjacent pieces of memory that contain the block; empty if they do not cover all of it.
  [[nodiscard]] std::vector<const Allocation*> around(const Allocation& block) {
    std::vector<const Allocation*> pieces;
    std::uint64_t covered = block.address;
    while (covered < end_address(block)) {
      const Allocation* piece = find(covered, block.start_ns);
      if (piece == nullptr) return {};
      pieces.push_back(piece);
      covered = end_address(*piece);
    }
    return pieces;
  }

 private:
  [[nodiscard]] const Allocation* find(std::uint64_t address, std::uint64_t now) const {
    const auto after = live_.upper_bound(address);
    if (after == live_.begin()) return nullptr;
    const Allocation* piece = std::prev(after)->second;
    const bool is_gone = piece->end_ns && *piece->end_ns < now;
    return is_gone || address >= end_address(*piece) ? nullptr : piece;
  }

  std::map<std::uint64_t, const Allocation*> live_;
};

// Ranges of addresses that memory was mapped to, at any time.
class MappedRanges {
 public:
  explicit MappedRanges(const std::vector<const Allocation*>& rows) {
    std::map<std::uint64_t, std::uint64_t> ends;
    for (const Allocation* row : rows) {
      if (row->kind != Kind::kMapping) continue;
      std::uint64_t& end = ends[row->address];
      end = std::max(end, end_address(*row));
    }
    for (const auto& [begin, end] : ends) {
      if (ranges_.empty() || ranges_.back().end < begin) ranges_.push_back({begin, end, false});
      ranges_.back().end = std::max(ranges_.back().end, end);
    }
  }

  // Notes that the framework has a block in this range. Then pieces of mapped memory in the range
  // count as the framework's even without blocks of their own.
  void add_block(std::uint64_t address) {
    if (Range* range = find(address)) range->has_blocks = true;
  }
  [[nodiscard]] bool has_blocks(std::uint64_t address) {
    const Range* range = find(address);
    return range != nullptr && range->has_blocks;
  }

 private:
  struct Range {
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
    bool has_blocks = false;
  };
  [[nodiscard]] Range* find(std::uint64_t address) {
    const auto after = std::upper_bound(
        ranges_.begin(), ranges_.end(), address,
        [](std::uint64_t wanted, const Range& range) { return wanted < range.begin; });
    if (after == ranges_.begin() || std::prev(after)->end <= address) return nullptr;
    return &*std::prev(after);
  }
  std::vector<Range> ranges_;  // sorted by address
};

// The framework's blocks and their segments. `rows` are in the order of start_ns. A block outside
// of all recorded memory becomes its own segment.
DeviceMemory framework_memory(const std::vector<const Allocation*>& rows) {
  DeviceMemory memory;
  LiveSegments live;
  MappedRanges mapped(rows);
  std::map<const Allocation*, std::uint64_t> stream_of_segment;
  for (const Allocation* row : rows) {
    if (is_segment(*row)) live.add(*row);
    if (row->level != Level::kFramework) continue;
    Span block{row, row->end_ns, stream_of(*row)};
    const std::vector<const Allocation*> pieces = live.around(*row);
    for (const Allocation* piece : pieces) {
      stream_of_segment.try_emplace(piece, block.stream);
      // If the segment is freed before the block, the block ends with the segment.
      if (piece->end_ns && (block.is_live() || *block.end_ns > *piece->end_ns)) {
        block.end_ns = piece->end_ns;
      }
    }
    if (pieces.empty()) {
      memory.segments.push_back(block);
    } else {
      mapped.add_block(row->address);
    }
    memory.blocks.push_back(block);
  }
  for (const Allocation* row : rows) {
    const auto used = stream_of_segment.find(row);
    const bool is_used = used != stream_of_segment.end();
    if (row->kind == Kind::kMapping ? mapped.has_blocks(row->address) : is_used) {
      memory.segments.push_back({row, row->end_ns, is_used ? used->second : 0});
    }
  }
  return memory;
}

// The order of actions at one time: frees make room, and a block comes after its segment.
enum class EventAction : std::uint8_t { kFree, kSegmentFree, kSegmentAlloc, kAlloc };

struct Event {
  std::uint64_t time_ns = 0;
  bool is_at_once = false;  // true: the end of an allocation that ends at its own start time
  EventAction action = EventAction::kAlloc;
  const Span* span = nullptr;

  [[nodiscard]] auto order() const {
    return std::tuple(time_ns, is_at_once, action, span->row->address);
  }
};

std::vector<Event> events_of(const DeviceMemory& memory, std::uint64_t from_ns) {
  std::vector<Event> events;
  const auto add = [&](const Span& span, EventAction begin, EventAction end) {
    const std::uint64_t start = span.row->start_ns;
    if (start >= from_ns) events.push_back({start, false, begin, &span});
    if (span.end_ns && *span.end_ns >= from_ns) {
      events.push_back({*span.end_ns, *span.end_ns == start, end, &span});
    }
  };
  for (const Span& segment : memory.segments) {
    add(segment, EventAction::kSegmentAlloc, EventAction::kSegmentFree);
  }
  for (const Span& block : memory.blocks) add(block, EventAction::kAlloc, EventAction::kFree);
  std::ranges::sort(events, {}, &Event::order);
  return events;
}

// Adjacent memory that is live at the end, and the blocks in it by address.
struct FinalSegment {
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;
  const Allocation* first = nullptr;
  std::uint64_t stream = 0;
  std::vector<const Allocation*> blocks;
};

std::vector<Span> live_by_address(const std::vector<Span>& spans) {
  std::vector<Span> live;
  std::ranges::copy_if(spans, std::back_inserter(live), &Span::is_live);
  std::ranges::sort(live, {}, [](const Span& span) { return span.row->address; });
  return live;
}

// The segments that are live at the end of the recording, with their live blocks.
std::vector<FinalSegment> final_segments(const DeviceMemory& memory) {
  std::vector<FinalSegment> segments;
  for (const Span& span : live_by_address(memory.segments)) {
    const Allocation* const piece = span.row;
    // PyTorch's memory page joins adjacent pieces of mapped memory; its input must match that.
    const bool goes_on = !segments.empty() && piece->kind == Kind::kMapping &&
                         segments.back().first->kind == Kind::kMapping &&
                         segments.back().address + segments.back().bytes == piece->address;
    if (goes_on) {
      segments.back().bytes += piece->bytes;
    } else {
      segments.push_back({piece->address, piece->bytes, piece, span.stream, {}});
    }
  }
  auto segment = segments.begin();
  for (const Span& span : live_by_address(memory.blocks)) {
    const Allocation* const block = span.row;
    while (segment != segments.end() && segment->address + segment->bytes <= block->address) {
      ++segment;
    }
    if (segment != segments.end()) segment->blocks.push_back(block);
  }
  return segments;
}

// Writes the snapshot of one process.
class SnapshotWriter {
 public:
  SnapshotWriter(const Report& report, const std::string& process, Level level,
                 std::uint64_t job_start_unix_ns)
      : report_(report),
        level_(level),
        start_unix_ns_(job_start_unix_ns),
        missing_(missing_in_short(report, process)) {
    for (const analyzer::rows::Stack& stack : report.stacks) stacks_[stack.id] = &stack;
    for (const analyzer::rows::AllocationHistory& history : *report.allocations) {
      if (history.process == process) history_ = &history;
    }
    for (const Allocation& row : history_->allocations) {
      if (row.bytes != 0) rows_[row.device.value_or(std::string())].push_back(&row);
    }
    for (const analyzer::rows::Device& device : report.devices) {
      for (const analyzer::rows::SeenAs& seen : device.seen_as) {
        if (seen.process == process) add_device(device, seen.ordinal);
      }
    }
    for (const analyzer::rows::Process& row : report.processes) {
      if (row.id == process && row.torch) settings_ = row.torch->settings.value_or("");
    }
    for (const analyzer::rows::Oom& failure : report.oom) {
      if (failure.process == process && failure.level == Level::kFramework) {
        failures_.push_back(&failure);
      }
    }
  }

  [[nodiscard]] std::string write() {
    out_.dict([&] {
      write_frequent_texts();
      out_.text("segments");
      write_segments();
      out_.text("device_traces");
      out_.list(devices_.size(), [&](std::size_t i) { write_trace(devices_[i]); });
      out_.text("allocator_settings");
      out_.dict([&] {
        if (!settings_.empty()) write_text("PYTORCH_CUDA_ALLOC_CONF", valid_utf8(settings_));
        out_.text("expandable_segments");
        out_.boolean(has_mappings_);
        // PyTorch's memory page shows all settings, so users see from this one, which PyTorch does
        // not have, that events are missing.
        if (!missing_.empty()) write_text("gpumemtrace_incomplete", missing_);
      });
    });
    return out_.finish();
  }

 private:
  struct Device {
    OptionalText id;
    DeviceMemory memory;
  };

  // The snapshot has a list with an entry for each device number up to the highest, which must stay
  // short. PyTorch supports no higher numbers either.
  static constexpr std::int64_t kMostDevices = 128;

  void add_device(const analyzer::rows::Device& device, std::int64_t number) {
    static const std::vector<const Allocation*> kNone;
    const auto found = rows_.find(device.id);
    const std::vector<const Allocation*>& rows = found == rows_.end() ? kNone : found->second;
    if (number < 0 || number >= kMostDevices) {
      if (!rows.empty()) leave_out(device.id, number);
      return;
    }
    const auto ordinal = static_cast<std::size_t>(number);
    if (devices_.size() <= ordinal) devices_.resize(ordinal + 1);
    devices_[ordinal].id = device.id;
    devices_[ordinal].memory =
        level_ == Level::kFramework ? framework_memory(rows) : driver_memory(rows);
    for (const Span& segment : devices_[ordinal].memory.segments) {
      has_mappings_ = has_mappings_ || segment.row->kind == Kind::kMapping;
    }
  }

  void leave_out(const std::string& device, std::int64_t number) {
    if (!missing_.empty()) missing_ += "; ";
    missing_ += "what " + device + " had: memory_viz has no device " + std::to_string(number);
  }

  // Writes frequent texts into a list that no reader uses: a pickle refers to the texts that it saw
  // first with two bytes, to later ones with five.
  void write_frequent_texts() {
    constexpr auto kFrequent = std::to_array<std::string_view>(
        {"action", "addr", "size", "stream", "time_us", "frames", "category", "user_metadata",
         "alloc", "free_requested", "free_completed", "pytorch"});
    out_.text("frequent_texts");
    out_.list(kFrequent.size(), [&](std::size_t i) { out_.text(kFrequent[i]); });
  }

  void write_number(const char* key, std::uint64_t value) {
    out_.text(key);
    out_.number(value);
  }
  void write_text(const char* key, std::string_view value) {
    out_.text(key);
    out_.text(value);
  }

  void write_segments() {
    std::vector<std::pair<std::size_t, FinalSegment>> segments;
    for (std::size_t i = 0; i < devices_.size(); ++i) {
      for (FinalSegment& segment : final_segments(devices_[i].memory)) {
        segments.emplace_back(i, std::move(segment));
      }
    }
    out_.list(segments.size(),
              [&](std::size_t i) { write(segments[i].second, segments[i].first); });
  }

  void write(const FinalSegment& segment, std::size_t device) {
    // Largest segment of PyTorch's small pool, in bytes.
    constexpr std::uint64_t kSmallSegment = 2 << 20;
    std::uint64_t used = 0;
    std::uint64_t asked = 0;
    for (const Allocation* block : segment.blocks) {
      used += block->bytes;
      asked += asked_bytes(*block);
    }
    out_.dict([&] {
      write_number("device", device);
      write_number("address", segment.address);
      write_number("total_size", segment.bytes);
      write_number("allocated_size", used);
      write_number("active_size", used);
      write_number("requested_size", asked);
      write_number("stream", segment.stream);
      write_text("segment_type", segment.bytes <= kSmallSegment ? "small" : "large");
      out_.text("segment_pool_id");
      out_.pair_of_numbers(0, segment.first->pool.value_or(0));
      out_.text("is_expandable");
      out_.boolean(segment.first->kind == Kind::kMapping);
      out_.text("frames");
      write_frames(segment.first->stack);
      out_.text("blocks");
      write_blocks(segment);
    });
  }

  // Writes a segment's blocks. Gaps between them are written as free blocks, so that they fill the
  // segment.
  void write_blocks(const FinalSegment& segment) {
    struct Piece {
      std::uint64_t address = 0;
      std::uint64_t bytes = 0;
      const Allocation* block = nullptr;
    };
    std::vector<Piece> pieces;
    std::uint64_t filled = segment.address;
    for (const Allocation* block : segment.blocks) {
      if (block->address > filled) pieces.push_back({filled, block->address - filled, nullptr});
      pieces.push_back({block->address, block->bytes, block});
      filled = block->address + block->bytes;
    }
    const std::uint64_t end = segment.address + segment.bytes;
    if (filled < end) pieces.push_back({filled, end - filled, nullptr});
    out_.list(pieces.size(), [&](std::size_t i) {
      const Piece& piece = pieces[i];
      out_.dict([&] {
        write_number("address", piece.address);
        write_number("size", piece.bytes);
        write_number("requested_size", piece.block == nullptr ? 0 : asked_bytes(*piece.block));
        write_text("state", piece.block == nullptr ? "inactive" : "active_allocated");
        out_.text("frames");
        write_frames(piece.block == nullptr ? OptionalStack() : piece.block->stack);
      });
    });
  }

  // Writes the events of one device and its failed requests (OOM), in the order of time.
  void write_trace(const Device& device) {
    const std::uint64_t from_ns = history_->complete_from_ns.value_or(0);
    const std::vector<Event> events = events_of(device.memory, from_ns);
    std::vector<const analyzer::rows::Oom*> failures;
    for (const analyzer::rows::Oom* failure : failures_) {
      const bool can_be_written = failure->device == device.id && failure->device_free_bytes;
      if (can_be_written && failure->time_ns >= from_ns) failures.push_back(failure);
    }
    // A free has two entries, free_requested and free_completed. The last entry is that of
    // write_end().
    std::size_t count = events.size() + failures.size() + 1;
    for (const Event& event : events) count += event.action == EventAction::kFree ? 1 : 0;
    auto event = events.begin();
    auto failure = failures.begin();
    bool is_requested = false;
    out_.list(count, [&](std::size_t) {
      const bool fails_next = failure != failures.end() &&
                              (event == events.end() || (*failure)->time_ns < event->time_ns);
      if (fails_next && !is_requested) return write(**failure++);
      if (event == events.end()) return write_end(events);
      const Event& present = *event;
      if (present.action == EventAction::kFree) {
        is_requested = !is_requested;
        if (is_requested) return write(present, "free_requested");
      }
      ++event;
      write(present, present.action == EventAction::kFree ? "free_completed"
                                                          : name_of_action(present.action));
    });
  }

  static std::string_view name_of_action(EventAction action) {
    return kNames[static_cast<std::size_t>(action)];
  }

  void write(const Event& event, std::string_view action) {
    const Allocation& row = *event.span->row;
    const std::uint64_t from_ns = history_->complete_from_ns.value_or(0);
    const bool begins =
        event.action == EventAction::kAlloc || event.action == EventAction::kSegmentAlloc;
    out_.dict([&] {
      write_text("action", row.kind == Kind::kMapping ? mapped(action) : action);
      write_number("addr", row.address);
      write_number("size", asked_bytes(row));
      write_number("stream", event.span->stream);
      write_number("time_us", (start_unix_ns_ + event.time_ns) / 1000);
      out_.text("frames");
      write_frames(begins || row.start_ns < from_ns ? row.stack : row.free_stack);
      const std::string_view category = name_of(row.category);
      write_text("category", category.empty() ? "unknown" : category);
      if (row.owner) {
        out_.text("user_metadata");
        out_.text(valid_utf8(*row.owner));
      }
    });
  }
  static std::string_view mapped(std::string_view action) {
    if (action == "segment_alloc") return "segment_map";
    return action == "segment_free" ? "segment_unmap" : action;
  }

  void write(const analyzer::rows::Oom& failure) {
    out_.dict([&] {
      write_text("action", "oom");
      write_number("device_free", *failure.device_free_bytes);
      write_number("size", failure.requested_bytes);
      write_number("stream", 0);
      write_number("time_us", (start_unix_ns_ + failure.time_ns.value_or(0)) / 1000);
      out_.text("frames");
      write_frames(failure.origin.stack);
    });
  }

  // Writes the last entry. PyTorch's memory page needs one event of the category "unknown" if any
  // event has a category.
  void write_end(const std::vector<Event>& events) {
    const std::uint64_t end_ns = events.empty() ? 0 : events.back().time_ns;
    out_.dict([&] {
      write_text("action", "snapshot");
      write_number("addr", 0);
      write_number("size", 0);
      write_number("stream", 0);
      write_number("time_us", (start_unix_ns_ + end_ns) / 1000);
      out_.text("frames");
      write_frames(std::nullopt);
      write_text("category", "unknown");
    });
  }

  // Writes a list of the stack's frames, or a reference to it if it was written before.
  void write_frames(const OptionalText& stack) {
    const auto [known, is_new] = frames_.try_emplace(stack.value_or(""));
    if (!is_new) return out_.again(known->second);
    const auto found = stacks_.find(known->first);
    std::vector<const analyzer::rows::Frame*> frames;
    if (found != stacks_.end()) frames = readable_frames(report_, *found->second);
    out_.list(frames.size(), [&](std::size_t i) {
      const analyzer::rows::Frame& frame = *frames[i];
      out_.dict([&] {
        write_text("filename", valid_utf8(frame.file.value_or(frame.module.value_or("??"))));
        write_number("line", frame.line.value_or(0));
        write_text("name",
                   valid_utf8(frame.function ? std::string(*frame.function) : name_frame(frame)));
      });
    });
    known->second = out_.share();
  }

  static constexpr std::string_view kNames[] = {"free", "segment_free", "segment_alloc", "alloc"};

  const Report& report_;
  Level level_;
  std::uint64_t start_unix_ns_;  // when the job started
  std::string missing_;          // why events of the process are missing; empty: none are
  const analyzer::rows::AllocationHistory* history_ = nullptr;
  std::map<std::string, std::vector<const Allocation*>> rows_;  // allocations by device id
  std::vector<Device> devices_;                                 // devices by their number
  // The settings of PyTorch's allocator.
  std::string settings_;
  bool has_mappings_ = false;
  std::vector<const analyzer::rows::Oom*> failures_;
  std::map<std::string, const analyzer::rows::Stack*> stacks_;
  std::map<std::string, PickleWriter::Shared> frames_;
  PickleWriter out_;
};

}  // namespace

std::string memory_viz_snapshot(const Report& report, const std::string& process, Level level,
                                std::uint64_t job_start_unix_ns) {
  return SnapshotWriter(report, process, level, job_start_unix_ns).write();
}

}  // namespace gpumemtrace::tools
