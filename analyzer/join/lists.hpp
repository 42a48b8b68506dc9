// SPDX-License-Identifier: Apache-2.0
// Visits the lists of rows that name a process, in a report or in observations.
#pragma once

#include <charconv>
#include <concepts>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "analyzer/base/row_order.hpp"
#include "analyzer/rows/walk.hpp"

namespace gpumemtrace::analyzer {

template <class Row>
concept OfProcess =
    std::same_as<Row, rows::Process> || std::same_as<decltype(Row::process), rows::ProcessId>;

// Calls see(list) for each list whose rows name a process, in the order of the tables.
template <class See>
class ProcessLists {
 public:
  explicit ProcessLists(See& see) : see_(see) {}

  void operator()(const char*, auto& value) { visit(value); }
  void added(const char*, auto& value) { visit(value); }
  void only_if_known(const char*, auto& value) { visit(value); }
  void exact(bool) {}

 private:
  template <class Row>
  void visit(std::vector<Row>& list) {
    if constexpr (OfProcess<Row>) see_(list);
  }
  template <class Row>
  void visit(std::optional<std::vector<Row>>& list) {
    if constexpr (OfProcess<Row>) see_(list);
  }
  template <class Row>
  void visit(Row& row) {
    if constexpr (requires { Row::fields(row, *this); }) Row::fields(row, *this);
  }

  See& see_;
};

template <class Sections, class See>
void for_each_process_list(Sections& sections, See&& see) {
  ProcessLists<std::remove_reference_t<See>> lists(see);
  Sections::fields(sections, lists);
}

template <class Row>
void append_list(std::vector<Row>&& more, std::vector<Row>& list) {
  list.insert(list.end(), std::move_iterator(more.begin()), std::move_iterator(more.end()));
}
template <class Row>
void append_list(std::optional<std::vector<Row>>&& more, std::optional<std::vector<Row>>& list) {
  if (!more) return;
  if (!list) list.emplace();
  append_list(std::move(*more), *list);
}

// Moves all rows of `more` that name a process to the ends of the same lists of `sections`.
template <class Sections>
void append_lists(Sections&& more, Sections& sections) {
  std::vector<void*> lists;
  for_each_process_list(sections, [&](auto& list) { lists.push_back(&list); });
  auto next = lists.begin();
  // Both objects have the same type, so their lists come in the same order.
  for_each_process_list(more, [&]<class List>(List& list) {
    append_list(std::move(list), *static_cast<List*>(*next++));
  });
}

[[nodiscard]] inline std::uint64_t number_of(const rows::ProcessId& id) {
  std::uint64_t number = 0;
  if (!id.empty()) std::from_chars(id.data() + 1, id.data() + id.size(), number);
  return number;
}

// Erases rows of processes that are left out (their id is empty), and puts the others in the order
// of processes.
template <class Row>
void order_list(std::vector<Row>& list) {
  std::erase_if(list, [](const Row& row) { return process_of(row)->empty(); });
  order_rows(list, [](const Row& row) { return number_of(*process_of(row)); });
}
template <class Row>
void order_list(std::optional<std::vector<Row>>& list) {
  if (list) order_list(*list);
}

}  // namespace gpumemtrace::analyzer
