// SPDX-License-Identifier: Apache-2.0
// The code that all sections of the report share: ids, names, and holders of memory.
#pragma once

#include <algorithm>
#include <compare>
#include <cstdint>
#include <functional>
#include <iterator>
#include <map>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "analyzer/base/parallel.hpp"
#include "analyzer/base/row_order.hpp"
#include "analyzer/job/job.hpp"
#include "analyzer/report/process_losses.hpp"
#include "analyzer/report/stack_names.hpp"
#include "analyzer/rows/memory_rows.hpp"

namespace gpumemtrace::analyzer {

// The owner of memory and the site that asked for it, in the words of the report. Allocations that
// look the same to the reader are one row. The row's stack is that of the first allocation: stacks
// are not compared.
struct Identity {
  std::string owner;  // empty if the owner is not known
  bool has_site = false;
  bool is_python = false;  // true if the site is a line of Python
  std::string function;    // the user's function, empty = not known
  std::string file;
  std::uint32_t line = 0;
  std::string module;        // the library or executable, of native sites only
  std::uint64_t offset = 0;  // offset of the call in the module, if its line is not known
  std::string api;           // the CUDA function that the code called
  std::string node;          // the autograd node, if a backward pass allocated
  std::string stack;         // id of a row of stacks[], empty if no stack was recorded
  std::string layers;        // the model's layers in that stack; not compared
  std::string phase;         // the program's phase, of blocks only; empty = not known
  CategoryGuess guess;       // the use of the memory, of blocks only

  [[nodiscard]] auto words() const {
    return std::tie(owner, has_site, is_python, function, file, line, module, offset, api, node,
                    phase, guess);
  }
  friend bool operator==(const Identity& a, const Identity& b) { return a.words() == b.words(); }
  friend auto operator<=>(const Identity& a, const Identity& b) { return a.words() <=> b.words(); }
};

// Orders holders so that one line of code in different layers of a model makes different rows.
struct ByWordsAndLayers {
  [[nodiscard]] bool operator()(const Identity& a, const Identity& b) const {
    return a != b ? a < b : a.layers < b.layers;
  }
};
using TallyByIdentity = std::map<Identity, Tally, ByWordsAndLayers>;

template <class Row>
void append(std::vector<Row>&& rows, std::vector<Row>& list) {
  list.insert(list.end(), std::move_iterator(rows.begin()), std::move_iterator(rows.end()));
}

struct ReportProcess {
  const Process* process = nullptr;
  std::string id;
  rows::TraceEnd end = rows::TraceEnd::kUnknown;
  Losses losses;
  Inexact inexact;

  [[nodiscard]] const ProcessModel& model() const { return process->model(); }
  // The time of an event in the report; no value if the event did not happen (model_time is 0).
  [[nodiscard]] rows::OptionalNumber time_ns(std::uint64_t model_time) const {
    return model_time == 0 ? rows::OptionalNumber() : process->time_ns(model_time);
  }
  // The time in the report of an event that has happened: model_time is not 0.
  [[nodiscard]] std::uint64_t known_time_ns(std::uint64_t model_time) const {
    return process->time_ns(model_time);
  }
  [[nodiscard]] std::uint64_t duration_ns(std::uint64_t ticks) const {
    return process->clock().duration_ns(ticks);
  }
};

// The names of one process's call sites, kept since naming is slow and several sections ask.
struct NamedSites {
  std::uint64_t version = 0;  // the version of the dictionary that the names come from
  std::map<CallSite, Identity> sites;
};

// Answers the questions that several sections ask. A context is built once all records are in, and
// constant from then on, so the order of questions does not matter. The symbolizer and the owners
// are borrowed. Several threads may ask at once, but only one at a time about each process.
class ReportContext {
 public:
  // `known`: by process, the names of sites from an earlier context of the same job; may be empty.
  ReportContext(const Job& job, Symbolizer& symbolizer, const CodeOwners& owners,
                std::vector<NamedSites> known = {});
  // Moves the names of sites out for the next context of the job, when this one is no longer
  // needed.
  [[nodiscard]] std::vector<NamedSites> take_names() { return std::move(named_sites_); }

  struct PhysicalDevice {
    std::string id;
    std::vector<std::pair<const ReportProcess*, const DeviceState*>> seen_as;
  };

  [[nodiscard]] const std::vector<ReportProcess>& processes() const { return processes_; }
  [[nodiscard]] const std::vector<PhysicalDevice>& devices() const { return devices_; }
  // The rows of all processes, in the order of processes: add(process, list) appends a process's
  // rows to its own list. Several threads call `add`, each for one process.
  template <class Row, class Add>
  [[nodiscard]] std::vector<Row> gather(Add&& add) const {
    std::vector<std::vector<Row>> of_process(processes_.size());
    in_parallel(processes_.size(), [&](std::size_t i) { add(processes_[i], of_process[i]); });
    std::vector<Row> list;
    for (std::vector<Row>& rows : of_process) append(std::move(rows), list);
    return list;
  }
  // The device's id in the report; no value for host memory and if the device is not known.
  [[nodiscard]] rows::OptionalText device_id(const ReportProcess& process,
                                             std::int32_t ordinal) const;
  // Fills in process and device of a row.
  template <class Row>
  [[nodiscard]] Row row_on(const ReportProcess& process, std::int32_t ordinal) const {
    Row row;
    row.process = process.id;
    row.device = device_id(process, ordinal);
    return row;
  }

  // The identity of a holder of memory, in words for the reader of the report.
  [[nodiscard]] Identity identity_of(const ReportProcess& process, const HolderKey& holder) const;
  [[nodiscard]] Identity identity_of_site(const ReportProcess& process, const CallSite& site) const;
  // The identity of the framework's caching allocator, called from the stack.
  [[nodiscard]] Identity identity_of_framework(const ReportProcess& process,
                                               trace::StackId stack) const;
  [[nodiscard]] const StackNames& names_of(const ReportProcess& process) const {
    return stack_names_[index_of(process)];
  }
  [[nodiscard]] TallyByIdentity tally(const ReportProcess& process, const Holders& holders) const;
  [[nodiscard]] TallyByIdentity tally(const ReportProcess& process,
                                      const std::vector<LiveAllocation>& entries) const {
    return tally(process, sum_by_holder(entries));
  }

 private:
  void name_devices();
  void name_groups_and_copies(const ReportProcess& process);
  void name_once(const ReportProcess& process, const CallSite& site);
  [[nodiscard]] Identity name_site(const ReportProcess& process, const CallSite& site) const;
  void add_stack(const ReportProcess& process, trace::StackId stack, Identity& identity) const;

  [[nodiscard]] std::size_t index_of(const ReportProcess& process) const {
    return static_cast<std::size_t>(&process - processes_.data());
  }

  const CodeOwners& owners_;
  std::vector<StackNames> stack_names_;
  // The names of each process's sites, by the process's index.
  std::vector<NamedSites> named_sites_;
  std::vector<ReportProcess> processes_;
  std::vector<PhysicalDevice> devices_;
  std::map<std::pair<std::string, std::int32_t>, std::string> device_ids_;
};

// True if the process has loaded the framework whose blocks are recorded.
[[nodiscard]] bool loads_framework_with_blocks(const ReportProcess& process);
[[nodiscard]] rows::Origin origin_of(const Identity& identity);
// Gives the identity the frame's line of code, or its offset in the module if no line is known.
void set_site(Identity& identity, const StackFrame& frame);
// The row of a site; no value if nothing is known about the site.
[[nodiscard]] std::optional<rows::Site> site_row(const Identity& identity);
// The line of a second site in a row, such as the line that freed memory.
[[nodiscard]] rows::OptionalLocation location_of(const ReportContext& context,
                                                 const ReportProcess& process,
                                                 const CallSite& site);
// True if not all of the memory was freed at the line of its first free, as far as is known.
[[nodiscard]] bool is_freed_elsewhere(const ReportContext& context, const ReportProcess& process,
                                      const Releases& releases);
// The frees by calls, not by a teardown, of the memory that the row's site had asked for. nullptr:
// not known.
[[nodiscard]] rows::Releases releases_row(const ReportContext& context,
                                          const ReportProcess& process, const Releases* releases);
// The largest holders, and the remainder as `other`, so that the rows sum to `total_bytes`.
[[nodiscard]] std::vector<rows::Holder> holder_rows(const TallyByIdentity& holders,
                                                    std::uint64_t total_bytes);
[[nodiscard]] bool is_inexact(const ReportProcess& process, Level level);
// True for memory that the process itself took: neither a mapping of memory counted elsewhere, nor
// another process's memory.
[[nodiscard]] constexpr bool is_own_memory(Level level) {
  return level != Level::kMapping && level != Level::kImported;
}

// Sorts rows by a number, largest first; a missing number counts as 0. Equal rows keep their order.
template <class Row, class Number>
void sort_rows(std::vector<Row>& list, Number Row::*number) {
  order_rows(list, [number](const Row& row) -> std::uint64_t {
    if constexpr (std::is_same_v<Number, std::uint64_t>) {
      return ~(row.*number);
    } else {
      return ~(row.*number).value_or(0);
    }
  });
}

// The elements of a map by a number of their values, largest first; equal elements keep their
// order. When several elements become one row, the first is the largest, so its stack stands for
// the row.
template <class Map, class Number>
[[nodiscard]] std::vector<const typename Map::value_type*> largest_first(const Map& map,
                                                                         Number number) {
  std::vector<const typename Map::value_type*> sorted;
  for (const auto& element : map) sorted.push_back(&element);
  std::ranges::stable_sort(sorted, std::greater(), [&](const auto* element) {
    return std::invoke(number, element->second);
  });
  return sorted;
}

}  // namespace gpumemtrace::analyzer
