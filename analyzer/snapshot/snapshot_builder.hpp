// SPDX-License-Identifier: Apache-2.0
// Turns the dictionaries and lists of a pickle into a Snapshot's rows, each as soon as it is
// complete.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "analyzer/snapshot/pickle.hpp"
#include "analyzer/snapshot/snapshot.hpp"

namespace gpumemtrace::analyzer::snapshot {

// The values of one dictionary by known keys; see snapshot_builder.cpp.
struct Row;
enum class Key : std::uint8_t;

// Builds the rows of a snapshot.
// - A dictionary's keys say which kind of row it is, wherever it stands: PyTorch shares frames and
//   lists of frames between rows, and a row that an unknown key holds can be shared with known
//   ones.
// - Rows of a kind are numbered in the order of their completion, so a list of rows is a range.
// - A value that does not fit is dropped and becomes Kind::other, which is an error only if
//   finish() or a row needs that value. The error names the first such value.
class SnapshotBuilder : public PickleBuilder {
 public:
  // `pickle_bytes`, the size of the pickle, bounds the cost of values that grow in many small
  // pieces.
  explicit SnapshotBuilder(std::uint64_t pickle_bytes);

  Value text(std::string_view text) override;
  Value tuple(std::span<const Value> items) override;
  Value extend_dict(Value dict, std::span<const Value> keys_and_values) override;
  Value extend_list(Value list, std::span<const Value> items) override;

  // Makes the snapshot from the pickle's value. Throws PickleError if the value is no snapshot.
  [[nodiscard]] Snapshot finish(const Value& pickled);

 private:
  // A list of rows: its items are numbered from rows.first on. For a list of lists, rows is a range
  // of sublists_.
  struct List {
    Kind items = Kind::unset;
    Range rows;
  };
  struct Entry {
    TextId key;
    Value value;
  };

  Value add_event(Row& row);
  [[nodiscard]] StackId stack_with_words(Row& row);
  Value add_frame(Row& row);
  Value add_block(Row& row);
  Value add_segment(Row& row);
  Value add_annotation(Row& row);
  Value drop(const Row& row, const std::string& row_name);
  void count_unknown_keys(const Row& row, const char* row_name, std::uint64_t known);

  Value add_entries(Value dict, std::span<const Value> keys_and_values);
  [[nodiscard]] std::span<const Entry> entries_of(const Value& dict) const;

  void charge_copied_items(std::size_t copies);

  Value start_list(const Value& first);
  Value extend_stack(Value list, std::span<const Value> items);
  [[nodiscard]] bool append_consecutive_item(List& list, const Value& item);
  [[nodiscard]] std::optional<Range> rows_of(const Value& list, Kind items) const;

  [[nodiscard]] Range top_rows(const Row& row, Key key, Kind items) const;
  [[nodiscard]] std::vector<Range> top_traces(const Row& row, Key key) const;
  [[noreturn]] void misfit_at_top(Key key) const;
  void read_settings(const Value& dict, const std::string& prefix);
  void name_unknown();

  Snapshot snapshot_;
  std::uint64_t copies_left_;  // items that may still be copied when containers grow
  std::vector<List> lists_;
  std::vector<List> sublists_;
  std::vector<Range> dicts_;  // dictionaries that are no rows: parts of entries_
  std::vector<Entry> entries_;
  std::vector<std::uint32_t> frames_;  // the frames of the list that grows now
  // The results of stack_with_words(), by the added frames and the number of the original stack.
  std::map<std::pair<std::vector<std::uint32_t>, std::uint32_t>, StackId> stacks_with_words_;
  // Counts of each unknown key, by the kind of dictionary and the id of the key's text.
  std::map<std::pair<std::string_view, std::uint32_t>, std::uint64_t> unknown_keys_;
  // Counts of each unknown action, by the id of its text.
  std::map<std::uint32_t, std::uint64_t> unknown_actions_;
  std::string problem_;  // names the first row that was dropped
};

}  // namespace gpumemtrace::analyzer::snapshot
