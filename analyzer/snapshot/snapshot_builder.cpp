// SPDX-License-Identifier: Apache-2.0
#include "analyzer/snapshot/snapshot_builder.hpp"

#include <array>
#include <bit>
#include <cassert>
#include <charconv>
#include <optional>
#include <utility>

#include "analyzer/stacks/pytorch_frames.hpp"

namespace gpumemtrace::analyzer::snapshot {

// The keys that are understood, as torch/csrc/cuda/Module.cpp, torch/csrc/cuda/memory_snapshot.cpp
// and torch/cuda/memory.py of PyTorch 2.0 to 2.12 write them.
// clang-format off
#define GPUMEMTRACE_SNAPSHOT_KEYS(X)                                                                 \
  X(segments) X(device_traces) X(allocator_settings) X(external_annotations) X(host_segments)        \
  X(host_traces) X(trace_alloc_overflowed) X(trace_alloc_max_entries)                                \
  X(action) X(addr) X(device_free) X(size) X(stream) X(time_us) X(frames) X(compile_context)         \
  X(user_metadata) X(pool_id)                                                                        \
  X(device) X(address) X(total_size) X(allocated_size) X(active_size) X(requested_size)              \
  X(segment_type) X(segment_pool_id) X(is_expandable) X(blocks) X(state)                             \
  X(filename) X(name) X(line) X(fx_node_name) X(fx_original_trace) X(stage)
// clang-format on

// The keys of a snapshot's dictionaries. SnapshotBuilder() numbers their texts first, so that the
// number of a key's text is its value here; the texts of actions follow.
enum class Key : std::uint8_t {
  none,
#define GPUMEMTRACE_KEY(name) name,
  GPUMEMTRACE_SNAPSHOT_KEYS(GPUMEMTRACE_KEY)
#undef GPUMEMTRACE_KEY
};

namespace {

constexpr std::array kKeyNames = {
#define GPUMEMTRACE_KEY(name) std::string_view(#name),
    GPUMEMTRACE_SNAPSHOT_KEYS(GPUMEMTRACE_KEY)
#undef GPUMEMTRACE_KEY
};
constexpr std::uint32_t kKeys = kKeyNames.size() + 1;
static_assert(kKeys <= 64, "sets of keys have 64 bits");

constexpr auto kActions = names(Action());

constexpr std::uint64_t set_of(Key key) { return std::uint64_t{1} << static_cast<unsigned>(key); }
template <class... Keys>
constexpr std::uint64_t set_of(Key key, Keys... keys) {
  return set_of(key) | set_of(keys...);
}

Value number_of(Kind kind, std::size_t number) { return {number, 0, kind}; }
constexpr Value kOther{0, 0, Kind::other};

constexpr std::string_view name_of(Key key) { return kKeyNames[static_cast<std::size_t>(key) - 1]; }

std::uint32_t count32(std::size_t count) { return static_cast<std::uint32_t>(count); }

// The text for a number, True, False or None; no value for other kinds of values.
std::optional<std::string> text_of(const Value& value) {
  switch (value.kind) {
    case Kind::none:
      return "None";
    case Kind::boolean:
      return value.number != 0 ? "True" : "False";
    case Kind::whole:
      return std::to_string(value.number);
    case Kind::negative:
      return std::to_string(static_cast<std::int64_t>(value.number));
    case Kind::real: {
      std::array<char, 32> text{};  // zeros, so that the text is terminated
      std::to_chars(text.begin(), text.end() - 1, std::bit_cast<double>(value.number));
      return text.data();
    }
    default:
      return std::nullopt;
  }
}

}  // namespace

struct Row {
  explicit Row(std::span<const Value> keys_and_values) : items(keys_and_values) {
    for (std::size_t i = 0; i < items.size(); i += 2) {
      if (items[i].kind != Kind::text || items[i].number >= kKeys) {
        has_unknown = true;
        continue;
      }
      values[items[i].number] = &items[i + 1];
      present |= set_of(static_cast<Key>(items[i].number));
    }
  }
  // True if the file has a value for the key that is not None.
  [[nodiscard]] bool has(Key key) const {
    return (present & set_of(key)) != 0 && at(key).kind != Kind::none;
  }
  [[nodiscard]] bool has_text(Key key) const { return has(key) && at(key).kind == Kind::text; }
  [[nodiscard]] const Value& at(Key key) const { return *values[static_cast<unsigned>(key)]; }

  // The value of a key; 0 if there is none. If the value is of another kind, `bad_key` becomes the
  // key.
  template <class... Kinds>
  std::uint64_t get(Key key, Kinds... kinds) {
    if (!has(key)) return 0;
    const Value& value = at(key);
    if (((value.kind == kinds) || ...)) return value.number;
    bad_key = key;
    return 0;
  }
  std::uint64_t whole(Key key) { return get(key, Kind::whole); }
  std::uint64_t integer(Key key) { return get(key, Kind::whole, Kind::negative); }
  TextId text(Key key) { return {count32(get(key, Kind::text))}; }
  PoolId pool(Key key) { return {count32(get(key, Kind::pair))}; }
  StackId stack(Key key) { return {count32(get(key, Kind::stack, Kind::empty_list))}; }

  std::span<const Value> items;
  std::uint64_t present = 0;
  bool has_unknown = false;
  Key bad_key = Key::none;
  std::array<const Value*, kKeys> values;  // set only for the keys that `present` has
};

SnapshotBuilder::SnapshotBuilder(std::uint64_t pickle_bytes) : copies_left_(pickle_bytes + 65536) {
  for (const std::string_view key : kKeyNames) text(key);
  for (const std::string_view action : kActions) text(action);
  assert(snapshot_.texts.size() == kKeys + kActions.size());
}

Value SnapshotBuilder::text(std::string_view text) {
  return number_of(Kind::text, snapshot_.texts.intern(text));
}

Value SnapshotBuilder::tuple(std::span<const Value> items) {
  if (items.size() != 2 || items[0].kind != Kind::whole || items[1].kind != Kind::whole) {
    return kOther;
  }
  const Pool pool{items[0].number, items[1].number};
  return number_of(Kind::pair, snapshot_.pools.intern({&pool, 1}));
}

Value SnapshotBuilder::extend_dict(Value dict, std::span<const Value> keys_and_values) {
  if (keys_and_values.size() % 2 != 0) throw PickleError("a key has no value");
  if (dict.kind == Kind::other || keys_and_values.empty()) return dict;
  if (dict.kind == Kind::dict) return add_entries(dict, keys_and_values);
  if (dict.kind != Kind::empty_dict) throw PickleError("there is no dictionary that it can extend");
  Row row(keys_and_values);
  if (row.has_text(Key::action)) return add_event(row);
  if (row.has(Key::filename) && row.has(Key::line)) return add_frame(row);
  if (row.has_text(Key::state) && row.has(Key::size)) return add_block(row);
  if (row.has(Key::total_size) && row.has(Key::blocks)) return add_segment(row);
  if (row.has_text(Key::stage)) return add_annotation(row);
  dicts_.push_back({count32(entries_.size()), 0});
  return add_entries(number_of(Kind::dict, dicts_.size() - 1), keys_and_values);
}

// Adds entries to a dictionary that is no row. The entries of a dictionary lie side by side in
// entries_.
Value SnapshotBuilder::add_entries(Value dict, std::span<const Value> keys_and_values) {
  Range& range = dicts_[dict.number];
  if (range.first + range.count != entries_.size()) {  // other entries follow: move this to the end
    charge_copied_items(range.count);
    const std::uint32_t first = count32(entries_.size());
    for (std::uint32_t i = 0; i < range.count; ++i) {
      entries_.push_back(Entry(entries_[range.first + i]));
    }
    range.first = first;
  }
  for (std::size_t i = 0; i < keys_and_values.size(); i += 2) {
    if (keys_and_values[i].kind != Kind::text) continue;
    entries_.push_back({{count32(keys_and_values[i].number)}, keys_and_values[i + 1]});
    ++range.count;
  }
  return dict;
}

Value SnapshotBuilder::add_event(Row& row) {
  Event event;
  const std::uint64_t action = row.get(Key::action, Kind::text) - kKeys;
  if (action < kActions.size()) event.action = static_cast<Action>(action);
  const Key address = event.action == Action::oom ? Key::device_free : Key::addr;
  event.address = row.whole(address);
  event.bytes = row.whole(Key::size);
  event.stream = row.integer(Key::stream);
  event.time_us = row.whole(Key::time_us) & Event::kMostUs;
  event.stack = stack_with_words(row);
  event.pool = row.pool(Key::pool_id);
  if (event.action < Action::snapshot || event.action == Action::oom) {
    if (!row.has(address)) row.bad_key = address;
    if (!row.has(Key::size)) row.bad_key = Key::size;
  }
  if (row.bad_key != Key::none) return drop(row, "event");
  if (event.action == Action::unknown) {
    ++unknown_actions_[count32(row.at(Key::action).number)];
  }
  count_unknown_keys(
      row, "event",
      set_of(Key::action, Key::addr, Key::device_free, Key::size, Key::stream, Key::time_us,
             Key::frames, Key::user_metadata, Key::compile_context, Key::pool_id, Key::device));
  snapshot_.events.push_back(event);
  return number_of(Kind::event, snapshot_.events.size() - 1);
}

// The stack of an event. The event's compile context and user metadata become its outermost frames.
StackId SnapshotBuilder::stack_with_words(Row& row) {
  // Texts that tell nothing: PyTorch writes N/A outside of compiled code, and this program's export
  // writes "pytorch" for PyTorch's own memory.
  constexpr std::string_view kNoContext = "N/A";
  constexpr std::string_view kPytorchsOwn = "pytorch";
  const StackId stack = row.stack(Key::frames);
  std::vector<std::uint32_t> words;
  const auto add = [&](Key key, std::string_view nothing, std::string_view file) {
    const TextId text = row.text(key);
    if (text.value == 0 || snapshot_.text(text) == nothing) return;
    const Frame frame{text, {snapshot_.texts.intern(file)}, 0, {}, {}};
    words.push_back(snapshot_.frames.intern({&frame, 1}));
  };
  add(Key::compile_context, kNoContext, kCompileContextFile);
  add(Key::user_metadata, kPytorchsOwn, kUserMetadataFile);
  if (words.empty()) return stack;
  const auto [known, is_new] = stacks_with_words_.try_emplace({words, stack.value});
  if (is_new) {
    const std::span<const std::uint32_t> begin = snapshot_.stack(stack);
    charge_copied_items(begin.size());
    frames_.assign(begin.begin(), begin.end());
    frames_.insert(frames_.end(), words.begin(), words.end());
    known->second = {snapshot_.stacks.intern(frames_)};
  }
  return known->second;
}

Value SnapshotBuilder::add_frame(Row& row) {
  Frame frame;
  frame.function = row.text(Key::name);
  frame.file = row.text(Key::filename);
  const std::uint64_t line = row.integer(Key::line);
  frame.line = line == count32(line) ? count32(line) : 0;
  frame.fx_node = row.text(Key::fx_node_name);
  frame.fx_trace = row.text(Key::fx_original_trace);
  if (row.bad_key != Key::none) return drop(row, "frame");
  count_unknown_keys(
      row, "frame",
      set_of(Key::name, Key::filename, Key::line, Key::fx_node_name, Key::fx_original_trace));
  return number_of(Kind::frame, snapshot_.frames.intern({&frame, 1}));
}

Value SnapshotBuilder::add_block(Row& row) {
  Block block;
  block.address = row.whole(Key::address);
  block.bytes = row.whole(Key::size);
  if (row.has(Key::requested_size)) block.requested_bytes = row.whole(Key::requested_size);
  block.stack = row.stack(Key::frames);
  const std::string_view state = snapshot_.text(row.text(Key::state));
  if (state == "active_allocated") {
    block.state = BlockState::allocated;
  } else if (state == "active_pending_free" || state == "active_awaiting_free") {
    block.state = BlockState::pending_free;
  } else if (state != "inactive") {
    row.bad_key = Key::state;
  }
  if (row.bad_key != Key::none) return drop(row, "block");
  count_unknown_keys(row, "block",
                     set_of(Key::address, Key::size, Key::requested_size, Key::frames, Key::state));
  snapshot_.blocks.push_back(block);
  return number_of(Kind::block, snapshot_.blocks.size() - 1);
}

Value SnapshotBuilder::add_segment(Row& row) {
  Segment segment;
  segment.device = static_cast<std::int32_t>(row.integer(Key::device));
  segment.address = row.whole(Key::address);
  segment.bytes = row.whole(Key::total_size);
  segment.stream = row.integer(Key::stream);
  segment.is_large = snapshot_.text(row.text(Key::segment_type)) == "large";
  segment.is_expandable = row.get(Key::is_expandable, Kind::boolean, Kind::whole) != 0;
  segment.pool = row.pool(Key::segment_pool_id);
  segment.stack = row.stack(Key::frames);
  const std::optional<Range> blocks = rows_of(row.at(Key::blocks), Kind::block);
  if (!row.has(Key::address)) row.bad_key = Key::address;
  if (!blocks) row.bad_key = Key::blocks;
  if (row.bad_key != Key::none) return drop(row, "segment");
  segment.first_block = blocks->first;
  segment.blocks = blocks->count;
  std::uint64_t address = segment.address;
  for (std::uint32_t i = 0; i < segment.blocks; ++i) {
    Block& block = snapshot_.blocks[segment.first_block + i];
    // PyTorch 2.0 does not write a block's address.
    if (block.address == 0) block.address = address;
    address = block.address + block.bytes;
  }
  count_unknown_keys(row, "segment",
                     set_of(Key::device, Key::address, Key::total_size, Key::allocated_size,
                            Key::active_size, Key::requested_size, Key::stream, Key::segment_type,
                            Key::is_expandable, Key::segment_pool_id, Key::frames, Key::blocks));
  snapshot_.segments.push_back(segment);
  return number_of(Kind::segment, snapshot_.segments.size() - 1);
}

Value SnapshotBuilder::add_annotation(Row& row) {
  Annotation annotation;
  annotation.stage = row.text(Key::stage);
  annotation.name = row.text(Key::name);
  annotation.device = static_cast<std::int32_t>(row.integer(Key::device));
  annotation.time_us = row.whole(Key::time_us);
  if (row.bad_key != Key::none) return drop(row, "annotation");
  count_unknown_keys(row, "annotation", set_of(Key::stage, Key::name, Key::device, Key::time_us));
  snapshot_.annotations.push_back(annotation);
  return number_of(Kind::annotation, snapshot_.annotations.size() - 1);
}

// Replaces a row by kOther because its key row.bad_key is missing or does not fit. Error messages
// name the first such row.
Value SnapshotBuilder::drop(const Row& row, const std::string& row_name) {
  if (problem_.empty()) {
    problem_ = ": the " + std::string(name_of(row.bad_key)) + " of one " + row_name +
               " is missing or does not fit";
  }
  return kOther;
}

// Counts a row's keys that are not known. The items of a row are a key, its value, the next key,
// and so on. A text with a number below kKeys is the name of that Key.
void SnapshotBuilder::count_unknown_keys(const Row& row, const char* row_name,
                                         std::uint64_t known) {
  if (!row.has_unknown && (row.present & ~known) == 0) return;
  for (std::size_t i = 0; i < row.items.size(); i += 2) {
    const Value& key = row.items[i];
    const bool is_known = key.number < kKeys && (known & set_of(static_cast<Key>(key.number))) != 0;
    if (key.kind == Kind::text && !is_known) ++unknown_keys_[{row_name, count32(key.number)}];
  }
}

Value SnapshotBuilder::extend_list(Value list, std::span<const Value> items) {
  if (list.kind == Kind::other || items.empty()) return list;
  // A snapshot that was converted to JSON has lists in place of tuples.
  if (list.kind == Kind::empty_list && items[0].kind == Kind::whole) return tuple(items);
  if (list.kind == Kind::pair) return kOther;
  if (list.kind == Kind::empty_list) list = start_list(items[0]);
  if (list.kind == Kind::stack) return extend_stack(list, items);
  if (list.kind == Kind::other) return list;
  if (list.kind != Kind::list) throw PickleError("there is no list that it can extend");
  for (const Value& item : items) {
    if (!append_consecutive_item(lists_[list.number], item)) return kOther;
  }
  return list;
}

// Limits how many items are copied in total when containers grow, so that reading a file that
// extends them in many small pieces takes linear time.
void SnapshotBuilder::charge_copied_items(std::size_t copies) {
  if (copies > copies_left_) throw PickleError("a value grows in too many pieces");
  copies_left_ -= copies;
}

Value SnapshotBuilder::start_list(const Value& first) {
  switch (first.kind) {
    case Kind::frame:
      return number_of(Kind::stack, 0);
    case Kind::empty_list:
    case Kind::list:
      lists_.push_back({Kind::list, {count32(sublists_.size()), 0}});
      break;
    case Kind::event:
    case Kind::block:
    case Kind::segment:
    case Kind::annotation:
      lists_.push_back({first.kind, {count32(first.number), 0}});
      break;
    default:
      return kOther;
  }
  return number_of(Kind::list, lists_.size() - 1);
}

Value SnapshotBuilder::extend_stack(Value list, std::span<const Value> items) {
  const std::span<const std::uint32_t> begin = snapshot_.stacks[count32(list.number)];
  charge_copied_items(begin.size());
  frames_.assign(begin.begin(), begin.end());
  for (const Value& item : items) {
    if (item.kind != Kind::frame) return kOther;
    frames_.push_back(count32(item.number));
  }
  return number_of(Kind::stack, snapshot_.stacks.intern(frames_));
}

// Appends a row or list to a list. False if it is of another kind than the items before, or if its
// number is not the next one: a list is stored as a range of numbers.
bool SnapshotBuilder::append_consecutive_item(List& list, const Value& item) {
  const std::uint32_t next = list.rows.first + list.rows.count++;
  if (list.items != Kind::list) return item.kind == list.items && item.number == next;
  if (next != sublists_.size()) return false;  // other lists' items lie between
  if (item.kind != Kind::list && item.kind != Kind::empty_list) return false;
  sublists_.push_back(item.kind == Kind::list ? lists_[item.number] : List{Kind::event, {}});
  return true;
}

std::optional<Range> SnapshotBuilder::rows_of(const Value& list, Kind items) const {
  if (list.kind == Kind::empty_list) return Range{};
  if (list.kind != Kind::list || lists_[list.number].items != items) return std::nullopt;
  return lists_[list.number].rows;
}

Range SnapshotBuilder::top_rows(const Row& row, Key key, Kind items) const {
  if (!row.has(key)) return {};
  const std::optional<Range> rows = rows_of(row.at(key), items);
  if (!rows) misfit_at_top(key);
  return *rows;
}

std::vector<Range> SnapshotBuilder::top_traces(const Row& row, Key key) const {
  if (!row.has(key)) return {};
  // There is one list of events for each device. Pinned memory belongs to no device: its events may
  // be a single list.
  if (row.at(key).kind == Kind::list && lists_[row.at(key).number].items == Kind::event) {
    return {lists_[row.at(key).number].rows};
  }
  std::vector<Range> traces;
  const Range rows = top_rows(row, key, Kind::list);
  for (const List& list : std::span(sublists_).subspan(rows.first, rows.count)) {
    if (list.items != Kind::event) misfit_at_top(key);
    traces.push_back(list.rows);
  }
  return traces;
}

void SnapshotBuilder::misfit_at_top(Key key) const {
  throw PickleError(std::string(name_of(key)) + " is not what PyTorch writes" + problem_);
}

Snapshot SnapshotBuilder::finish(const Value& pickled) {
  // torch.cuda.memory_snapshot() returns only the list of segments.
  const std::array<Value, 2> segments_alone = {
      number_of(Kind::text, static_cast<std::size_t>(Key::segments)), pickled};
  std::vector<Value> items(segments_alone.begin(), segments_alone.end());
  if (pickled.kind == Kind::dict) {
    items.clear();
    for (const Entry& entry : entries_of(pickled)) {
      items.push_back(number_of(Kind::text, entry.key.value));
      items.push_back(entry.value);
    }
  }
  const Row top(items);
  if (!top.has(Key::segments)) throw PickleError("there are no segments in it");
  snapshot_.device_segments = top_rows(top, Key::segments, Kind::segment);
  snapshot_.device_traces = top_traces(top, Key::device_traces);
  snapshot_.host_segments = top_rows(top, Key::host_segments, Kind::segment);
  snapshot_.host_traces = top_traces(top, Key::host_traces);
  snapshot_.has_host_memory = top.has(Key::host_segments) || top.has(Key::host_traces);
  const Range annotations = top_rows(top, Key::external_annotations, Kind::annotation);
  auto& all = snapshot_.annotations;
  all.erase(all.begin() + annotations.first + annotations.count, all.end());
  all.erase(all.begin(), all.begin() + annotations.first);
  if (top.has(Key::allocator_settings)) {
    const Value& settings = top.at(Key::allocator_settings);
    if (settings.kind != Kind::dict && settings.kind != Kind::empty_dict) {
      misfit_at_top(Key::allocator_settings);
    }
    read_settings(settings, "");
  }
  count_unknown_keys(top, "snapshot",
                     set_of(Key::segments, Key::device_traces, Key::host_segments, Key::host_traces,
                            Key::external_annotations, Key::allocator_settings));
  name_unknown();
  return std::move(snapshot_);
}

std::span<const SnapshotBuilder::Entry> SnapshotBuilder::entries_of(const Value& dict) const {
  if (dict.kind != Kind::dict) return {};
  return std::span(entries_).subspan(dicts_[dict.number].first, dicts_[dict.number].count);
}

void SnapshotBuilder::read_settings(const Value& dict, const std::string& prefix) {
  for (const auto& [key, value] : entries_of(dict)) {
    const std::string name = prefix + std::string(snapshot_.text(key));
    if (value.kind == Kind::dict && prefix.empty()) {
      read_settings(value, name + ".");
      continue;
    }
    TextId as_text{count32(value.number)};
    if (value.kind != Kind::text) {
      const std::optional<std::string> made = text_of(value);
      if (!made) {
        ++unknown_keys_[{"allocator_settings", key.value}];
        continue;
      }
      as_text.value = snapshot_.texts.intern(*made);
    }
    snapshot_.settings.push_back({{snapshot_.texts.intern(name)}, as_text});
    if (name == name_of(Key::trace_alloc_overflowed) && value.kind == Kind::boolean) {
      snapshot_.ring_overflowed = value.number != 0;
    }
    if (name == name_of(Key::trace_alloc_max_entries) && value.kind == Kind::whole) {
      snapshot_.ring_entries = value.number;
    }
  }
}

void SnapshotBuilder::name_unknown() {
  const auto add = [](std::map<std::string, std::uint64_t>& counts, std::string name,
                      std::uint64_t count) {
    const bool has_room = counts.size() < Snapshot::kUnknownNames || counts.contains(name);
    counts[has_room ? std::move(name) : "..."] += count;
  };
  for (const auto& [key, count] : unknown_keys_) {
    const auto& [row, text] = key;
    add(snapshot_.unknown_keys, std::string(row) + "." + std::string(snapshot_.text({text})),
        count);
  }
  for (const auto& [text, count] : unknown_actions_) {
    add(snapshot_.unknown_actions, std::string(snapshot_.text({text})), count);
  }
}

}  // namespace gpumemtrace::analyzer::snapshot
