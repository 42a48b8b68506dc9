// SPDX-License-Identifier: Apache-2.0
#include "analyzer/snapshot/open_trace.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string>
#include <system_error>
#include <vector>

#include "analyzer/base/input_error.hpp"
#include "analyzer/replay/allocator_settings.hpp"
#include "analyzer/snapshot/device_records.hpp"
#include "analyzer/snapshot/host_records.hpp"
#include "analyzer/snapshot/read_snapshot.hpp"
#include "analyzer/snapshot/stack_records.hpp"
#include "analyzer/snapshot/undo.hpp"
#include "trace/file_writer.hpp"
#include "trace/source_files.hpp"

namespace gpumemtrace::analyzer::snapshot {
namespace {

constexpr std::size_t kMostTextBytes = 1024;  // the most bytes of text in one record
constexpr std::string_view kSettings = "PYTORCH_CUDA_ALLOC_CONF";
// Numbers of the trace's writers. Those below kFirstDeviceWriter write records that belong to no
// device.
constexpr std::uint32_t kAnnotationWriter = 1;
constexpr std::uint32_t kHostWriter = 2;
constexpr std::uint32_t kFirstDeviceWriter = 3;

TickScale scale_of(const Snapshot& snapshot) {
  std::uint64_t first = ~std::uint64_t{0};
  const auto look_at = [&](std::uint64_t time_us) {
    if (time_us != 0) first = std::min(first, time_us);
  };
  for (const Event& event : snapshot.events) look_at(event.time_us);
  for (const Annotation& annotation : snapshot.annotations) look_at(annotation.time_us);
  return {first == ~std::uint64_t{0} ? 0 : first};
}

// The time of day at the first tick; 0 if the file's microseconds are too large for a date.
std::uint64_t realtime_ns(const TickScale& scale) {
  constexpr std::uint64_t kMostUs = std::uint64_t{1} << 53;
  return scale.first_us < kMostUs ? scale.first_us * 1000 : 0;
}

std::string recorded_settings(const Snapshot& snapshot) {
  for (const Setting& setting : snapshot.settings) {
    const std::string_view text = snapshot.text(setting.value);
    if (snapshot.text(setting.name) == kSettings && !text.empty()) return std::string(text);
  }
  const auto segments = snapshot.segments_of(snapshot.device_segments);
  const bool is_expandable = std::ranges::any_of(segments, &Segment::is_expandable);
  return is_expandable ? "expandable_segments:True" : "";
}

replay::AllocatorSettings parsed_settings(const std::string& text) {
  try {
    return replay::parse_settings(text, {});
  } catch (const replay::SettingError&) {
    return {};  // the replay of the trace parses the text again, and reports the error
  }
}

// The keys and actions of the file that are in no record of the trace, counted by name.
std::map<std::string, std::uint64_t> skipped_content(const Snapshot& snapshot) {
  std::map<std::string, std::uint64_t> skipped = snapshot.unknown_keys;
  for (const auto& [action, count] : snapshot.unknown_actions) skipped["action." + action] += count;
  for (std::size_t i = 1; i < snapshot.host_traces.size(); ++i) {
    const std::size_t events = snapshot.events_of(snapshot.host_traces[i]).size();
    if (events != 0) skipped["host_traces.further_events"] += events;
  }
  return skipped;
}

// Writes the annotations as ranges, and ProfilerStep#N as steps.
class AnnotationRecords {
 public:
  AnnotationRecords(const Snapshot& snapshot, const TickScale& scale, trace::StreamWriter& out)
      : snapshot_(snapshot), scale_(scale), out_(out) {}

  void write() {
    for (const Annotation& annotation : snapshot_.annotations) {
      now_ = std::max(now_ + 1, scale_.tick_of(annotation.time_us));
      const std::string_view stage = snapshot_.text(annotation.stage);
      if (stage == "START") begin(annotation.name);
      if (stage == "END") end(annotation.name);
    }
    out_.finish();
  }

 private:
  void begin(TextId name) {
    constexpr std::string_view kStep = "ProfilerStep#";
    const std::string_view text = snapshot_.text(name);
    if (text.starts_with(kStep)) {
      return add(trace::AnnotationOperation::kStep,
                 std::strtoull(std::string(text.substr(kStep.size())).c_str(), nullptr, 10), {});
    }
    open_.emplace_back(name, ++ranges_);
    add(trace::AnnotationOperation::kStart, ranges_, name);
  }

  // Ends the last begun range of this name.
  void end(TextId name) {
    const auto range = std::find_if(open_.rbegin(), open_.rend(),
                                    [&](const auto& open) { return open.first == name; });
    if (range == open_.rend()) return;
    add(trace::AnnotationOperation::kEnd, range->second, {});
    open_.erase(std::next(range).base());
  }

  void add(trace::AnnotationOperation operation, std::uint64_t value, TextId name) {
    if (name.value != 0 && named_.insert(name.value).second) {
      trace::Name text;
      text.record.time = now_;
      text.id = name.value;
      out_.add(text, snapshot_.text(name).substr(0, kMostTextBytes));
    }
    trace::Annotation record;
    record.record.time = now_;
    record.operation = operation;
    record.source = trace::AnnotationSource::kApi;
    record.value = value;
    record.name = name.value;
    out_.add(record);
  }

  const Snapshot& snapshot_;
  TickScale scale_;
  trace::StreamWriter& out_;
  std::uint64_t now_ = TickScale::kFirstTick;
  std::uint64_t ranges_ = 0;
  std::vector<std::pair<TextId, std::uint64_t>> open_;
  std::set<std::uint32_t> named_;
};

// Writes the trace of one snapshot file.
class TraceOfSnapshot {
 public:
  TraceOfSnapshot(const Snapshot& snapshot, trace::OwnDescriptor file)
      : snapshot_(snapshot),
        scale_(scale_of(snapshot)),
        options_(recorded_settings(snapshot)),
        settings_(parsed_settings(options_)),
        file_(std::move(file), header(), trace::Codec::kNone),
        about_(file_, 0) {}

  [[nodiscard]] trace::OwnDescriptor write() {
    add_clock(TickScale::kFirstTick);
    add_text(trace::TextKey::kTorchAllocator, "native");
    add_text(trace::TextKey::kTorchAllocatorOptions, options_);
    std::set<std::int32_t> devices;
    for (const Segment& segment : snapshot_.segments_of(snapshot_.device_segments)) {
      devices.insert(segment.device);
    }
    constexpr std::int32_t kMostDevices = 128;  // PyTorch has 8 bits for a device number
    if (!devices.empty() && (*devices.begin() < 0 || *devices.rbegin() >= kMostDevices)) {
      throw InputError("names a device that PyTorch cannot have");
    }
    for (std::size_t i = 0; i < snapshot_.device_traces.size() && i < kMostDevices; ++i) {
      if (snapshot_.device_traces[i].count != 0) devices.insert(static_cast<std::int32_t>(i));
    }
    for (const std::int32_t device : devices) write_device(device);
    write_host_memory();
    trace::StreamWriter annotations(file_, kAnnotationWriter);
    AnnotationRecords(snapshot_, scale_, annotations).write();
    add_source();
    add_note_on_sizes();
    add_note_on_skipped();
    add_clock(last_tick_);
    about_.finish();
    return file_.take_file();
  }

 private:
  [[nodiscard]] trace::FileHeader header() const {
    trace::FileHeader header;
    header.start_realtime_ns = realtime_ns(scale_);
    header.ticks_per_second = 1'000'000'000;
    return header;
  }

  void add_clock(std::uint64_t ticks) {
    trace::Clock record;
    record.record.time = ticks;
    record.monotonic_ns = ticks;
    record.realtime_ns = realtime_ns(scale_) + ticks - TickScale::kFirstTick;
    about_.add(record);
  }

  void add_text(trace::TextKey key, std::string_view text) {
    trace::Text record;
    record.record.time = TickScale::kFirstTick;
    record.key = key;
    do {
      about_.add(record, text.substr(0, kMostTextBytes));
      ++record.part;
      text = text.substr(std::min(text.size(), kMostTextBytes));
    } while (!text.empty());
  }

  void write_device(std::int32_t ordinal) {
    trace::Device device;
    device.record.time = TickScale::kFirstTick;
    device.ordinal = ordinal;
    about_.add(device);
    trace::Context context;
    context.record.time = TickScale::kFirstTick;
    context.id = trace::ContextId{static_cast<std::uint32_t>(ordinal) + 1};
    context.device = ordinal;
    context.primary = 1;
    about_.add(context);

    std::vector<const Segment*> segments;
    for (const Segment& segment : snapshot_.segments_of(snapshot_.device_segments)) {
      if (segment.device == ordinal) segments.push_back(&segment);
    }
    const auto index = static_cast<std::size_t>(ordinal);
    const auto events = index < snapshot_.device_traces.size()
                            ? snapshot_.events_of(snapshot_.device_traces[index])
                            : std::span<const Event>();
    const UndoneHistory history = undo_history(memory_at_end(snapshot_, segments), events);
    DeviceRecords records({snapshot_, settings_, scale_, stacks_}, ordinal,
                          {file_, kFirstDeviceWriter + static_cast<std::uint32_t>(ordinal)});
    records.write(history, events);
    last_tick_ = std::max(last_tick_, records.last_tick());
    source_.devices += events.empty() ? 0 : 1;
    source_.earlier_blocks += records.earlier().blocks;
    source_.earlier_bytes += records.earlier().bytes;
    source_.earlier_reserved_bytes += records.earlier().reserved_bytes;
    uncertain_blocks_ += records.earlier().uncertain_blocks;
    uncertain_bytes_ += records.earlier().uncertain_bytes;
    count_events(history, events, "device " + std::to_string(ordinal));
  }

  void write_host_memory() {
    if (!snapshot_.has_host_memory) return;
    std::vector<const Segment*> segments;
    for (const Segment& segment : snapshot_.segments_of(snapshot_.host_segments)) {
      segments.push_back(&segment);
    }
    // PyTorch has one host allocator, and so one history of it; skipped_content() counts further
    // ones.
    const auto events = snapshot_.host_traces.empty()
                            ? std::span<const Event>()
                            : snapshot_.events_of(snapshot_.host_traces.front());
    const UndoneHistory history = undo_history(memory_at_end(snapshot_, segments), events);
    HostRecords records({snapshot_, settings_, scale_, stacks_}, {file_, kHostWriter});
    records.write(history, events);
    last_tick_ = std::max(last_tick_, records.last_tick());
    count_events(history, events, "pinned memory");
  }

  void count_events(const UndoneHistory& history, std::span<const Event> events,
                    const std::string& owner) {
    source_.events += events.size() - history.first_event;
    source_.events_left_out += history.first_event;
    if (misfit_.empty() && !history.misfit.empty()) misfit_ = owner + ", " + history.misfit;
  }

  void add_note_on_sizes() {
    if (uncertain_blocks_ == 0) return;
    add_text(trace::TextKey::kNote, "Blocks from before the history that were freed in it (" +
                                        std::to_string(uncertain_blocks_) +
                                        ") may be larger than shown, by at most " +
                                        std::to_string(uncertain_bytes_) + " bytes in all.");
  }

  void add_note_on_skipped() {
    std::map<std::string, std::uint64_t> skipped = skipped_content(snapshot_);
    if (const std::uint64_t frames = stacks_.frames_left_out()) skipped["frame.native"] += frames;
    std::string text;
    for (const auto& [name, count] : skipped) {
      text += (text.empty() ? "" : ", ") + std::to_string(count) + " " + name;
    }
    if (!text.empty())
      add_text(trace::TextKey::kNote, "The file has what is not shown: " + text + ".");
  }

  void add_source() {
    source_.record.time = TickScale::kFirstTick;
    source_.source = trace::SourceKind::kPytorchSnapshot;
    if (snapshot_.ring_overflowed.value_or(false)) source_.record.flags = trace::kFlagCut;
    about_.add(source_, misfit_);
  }

  const Snapshot& snapshot_;
  TickScale scale_;
  std::string options_;
  replay::AllocatorSettings settings_;
  StackRecords stacks_{snapshot_};
  trace::FileWriter file_;
  trace::StreamWriter about_;
  trace::Source source_;
  std::string misfit_;
  std::uint64_t uncertain_blocks_ = 0;
  std::uint64_t uncertain_bytes_ = 0;
  std::uint64_t last_tick_ = TickScale::kFirstTick;
};

// True if the file is a snapshot of PyTorch (a pickle), not a trace.
bool is_snapshot(const std::filesystem::path& path) {
  // A compressed *.pickle or *.pkl is not unpacked only to look at its first bytes.
  const std::filesystem::path name = trace::unpacked_name(path);
  const std::filesystem::path suffix = name.extension();
  if (suffix == ".gmt") return false;
  if (name != path && (suffix == ".pickle" || suffix == ".pkl")) return true;
  const trace::UnpackedFile file = trace::open_unpacked(path);
  std::array<unsigned char, 2> begin = {};
  constexpr unsigned char kProtocol = 0x80;  // the first opcode of every pickle since protocol 2
  return file.file.is_open() && file.file.read_at(0, begin.data(), begin.size()) &&
         begin[0] == kProtocol && begin[1] >= 2;
}

}  // namespace

trace::OwnDescriptor make_trace(const Snapshot& snapshot) {
  trace::OwnDescriptor file(memfd_create("snapshot", MFD_CLOEXEC));
  if (!file.is_open()) {
    throw std::system_error(errno, std::generic_category(), "cannot make a file in memory");
  }
  return TraceOfSnapshot(snapshot, std::move(file)).write();
}

std::unique_ptr<trace::TraceFile> open_trace(const std::filesystem::path& path) {
  if (!is_snapshot(path)) return std::make_unique<trace::TraceFile>(path);
  try {
    return std::make_unique<trace::TraceFile>(make_trace(read_snapshot(path)), path);
  } catch (const InputError& error) {
    throw trace::TraceError(error.what());
  } catch (const std::system_error& error) {
    throw trace::TraceError("Cannot read " + path.string() + ": " + error.what() + ".");
  }
}

}  // namespace gpumemtrace::analyzer::snapshot
