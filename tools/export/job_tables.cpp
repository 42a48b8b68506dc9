// SPDX-License-Identifier: Apache-2.0
#include "tools/export/job_tables.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <optional>

#include "tools/base/text.hpp"
#include "tools/report_view/report_input.hpp"
#include "tools/report_view/report_row.hpp"
#include "tools/report_view/stack_text.hpp"

namespace gpumemtrace::tools {
namespace {

using analyzer::rows::OptionalNumber;
using analyzer::rows::OptionalText;
using analyzer::rows::Report;

constexpr auto kInteger = ColumnType::kInteger;
constexpr auto kText = ColumnType::kText;

constexpr std::array kMeta = {Column{"key", kText}, Column{"value", kText}};
constexpr std::array kProcess = {Column{"id", kText},
                                 Column{"pid"},
                                 Column{"rank"},
                                 Column{"host", kText},
                                 Column{"command", kText},
                                 Column{"start_unix_ns"},
                                 Column{"complete_from_ns"}};
constexpr std::array kDevice = {Column{"id", kText}, Column{"name", kText}, Column{"total_bytes"}};
constexpr std::array kDeviceOfProcess = {Column{"process", kText}, Column{"device", kText},
                                         Column{"ordinal"}};
constexpr std::array kFrame = {Column{"stack"},       Column{"depth"}, Column{"function", kText},
                               Column{"file", kText}, Column{"line"},  Column{"module", kText}};
constexpr std::array kAllocation = {Column{"id"},
                                    Column{"process", kText},
                                    Column{"device", kText},
                                    Column{"level", kText},
                                    Column{"kind", kText},
                                    Column{"address"},
                                    Column{"bytes"},
                                    Column{"start_ns"},
                                    Column{"end_ns"},
                                    Column{"category", kText},
                                    Column{"module", kText},
                                    Column{"owner", kText},
                                    Column{"stack"}};
constexpr std::array kPeak = {Column{"process", kText}, Column{"device", kText},
                              Column{"level", kText},   Column{"bytes"},
                              Column{"time_ns"},        Column{"step"}};
constexpr std::array kCardPeak = {Column{"device", kText}, Column{"of", kText},  Column{"bytes"},
                                  Column{"low_bytes"},     Column{"high_bytes"}, Column{"exact"},
                                  Column{"time_ns"}};
constexpr std::array kCardPeakPart = {Column{"device", kText},  Column{"of", kText},
                                      Column{"process", kText}, Column{"what", kText},
                                      Column{"owner", kText},   Column{"bytes"}};
constexpr std::array kRankGroup = {Column{"id"}, Column{"kind", kText}, Column{"basis", kText},
                                   Column{"process", kText}};
constexpr std::array kStep = {Column{"process", kText}, Column{"number"},
                              Column{"start_ns"},       Column{"end_ns"},
                              Column{"peak_bytes"},     Column{"live_bytes_at_end"},
                              Column{"allocations"}};
constexpr std::array kRange = {
    Column{"process", kText}, Column{"name", kText},       Column{"start_ns"},   Column{"end_ns"},
    Column{"peak_bytes"},     Column{"live_bytes_at_end"}, Column{"allocations"}};
constexpr std::array kFinding = {Column{"rule", kText},    Column{"severity", kText},
                                 Column{"process", kText}, Column{"device", kText},
                                 Column{"title", kText},   Column{"detail", kText},
                                 Column{"fix", kText},     Column{"bytes"},
                                 Column{"time_ns"},        Column{"stack"}};

Value value_of(std::uint64_t value) { return value; }
Value value_of(const std::string& value) { return valid_utf8(value); }
// A text of the report as a value of a table; an empty text is an unknown value.
Value value_of(std::string_view value) {
  return value.empty() ? Value() : Value(std::string(value));
}
template <class T>
Value value_of(const std::optional<T>& value) {
  return value ? value_of(*value) : Value();
}

class Writer {
 public:
  Writer(const Report& report, std::string_view selection, TableSink& sink)
      : report_(report), selection_(selection), sink_(sink) {
    for (const analyzer::rows::Stack& stack : report_.stacks) {
      stacks_.try_emplace(stack.id, stacks_.size() + 1);
    }
  }

  void meta() {
    row(std::string("format"), sink_.format());
    row(std::string("version"), std::string("1"));
    row(std::string("tool_version"), std::string(GPUMEMTRACE_VERSION));
    row(std::string("complete"), std::string(is_complete(report_) ? "yes" : "no"));
    row(std::string("missing"), std::string_view(joined(missing_events(report_), " ")));
    row(std::string("selection"), selection_);
  }

  void processes() {
    for (const analyzer::rows::Process& process : report_.processes) {
      row(process.id, process.pid, process.rank, process.host, joined(process.command, " "),
          process.start_unix_ns, complete_from(process.id));
    }
  }

  void devices() {
    for (const analyzer::rows::Device& device : report_.devices) {
      row(device.id, device.name, device.total_bytes);
    }
  }

  void devices_of_processes() {
    for (const analyzer::rows::Device& device : report_.devices) {
      for (const analyzer::rows::SeenAs& seen : device.seen_as) {
        row(seen.process, device.id, static_cast<std::uint64_t>(seen.ordinal));
      }
    }
  }

  // Writes the frames of each stack, the innermost with the depth 0.
  void frames() {
    for (const analyzer::rows::Stack& stack : report_.stacks) {
      std::uint64_t depth = 0;
      for (const analyzer::rows::Frame* frame : readable_frames(report_, stack)) {
        row(number_of(stack.id), depth++, frame->function, frame->file, frame->line, frame->module);
      }
    }
  }

  void allocations() {
    std::uint64_t id = 0;
    for (const analyzer::rows::AllocationHistory& history : *report_.allocations) {
      for (const analyzer::rows::Allocation& block : history.allocations) {
        row(++id, history.process, block.device, name_of(block.level), name_of(block.kind),
            block.address, block.bytes, block.start_ns, block.end_ns, name_of(block.category),
            block.layers, block.owner, number_of(block.stack));
      }
    }
  }

  void peaks() {
    for (const analyzer::rows::Peak& peak : report_.peak) {
      row(peak.process, peak.device, name_of(peak.level), peak.bytes, peak.time_ns, peak.step);
    }
  }

  void card_peaks() {
    for (const analyzer::rows::CardPeak& peak : report_.card_peaks) {
      row(peak.device, name_of(peak.of), peak.bytes, peak.low_bytes, peak.high_bytes,
          std::uint64_t{peak.is_exact}, peak.time_ns);
    }
  }

  void card_peak_parts() {
    for (const analyzer::rows::CardPeak& peak : report_.card_peaks) {
      for (const analyzer::rows::CardPart& part : peak.parts) {
        row(peak.device, name_of(peak.of), part.process, name_of(part.what), part.owner,
            part.bytes);
      }
    }
  }

  // Writes a row for each process of each group of ranks.
  void rank_groups() {
    std::uint64_t id = 0;
    for (const analyzer::rows::RankGroup& group : report_.rank_groups) {
      ++id;
      for (const analyzer::rows::Process& process : report_.processes) {
        if (!process.rank || !std::ranges::binary_search(group.ranks, *process.rank)) continue;
        row(id, group.kind ? name_of(*group.kind) : std::string_view(), name_of(group.basis),
            process.id);
      }
    }
  }

  void steps() {
    for (const analyzer::rows::Step& step : report_.steps) {
      row(step.process, step.index, step.start_ns, step.end_ns, step.peak_bytes,
          step.live_bytes_at_end, step.allocations);
    }
  }

  void ranges() {
    for (const analyzer::rows::Range& range : report_.ranges) {
      row(range.process, range.name, range.start_ns, range.end_ns, range.peak_bytes,
          range.live_bytes_at_end, range.allocations);
    }
  }

  void findings() {
    for (const analyzer::rows::Finding& finding : report_.findings) {
      row(name_of(finding.rule), name_of(finding.severity), finding.process, finding.device,
          finding.title, finding.detail, std::string_view(finding.fix), finding.bytes,
          finding.time_ns, number_of(finding.origin.stack));
    }
  }

 private:
  template <class... Values>
  void row(const Values&... values) {
    row_.clear();
    (row_.push_back(value_of(values)), ...);
    sink_.add(row_);
  }

  [[nodiscard]] OptionalNumber complete_from(const std::string& process) const {
    for (const analyzer::rows::AllocationHistory& history : *report_.allocations) {
      if (history.process == process) return history.complete_from_ns;
    }
    return std::nullopt;
  }
  [[nodiscard]] OptionalNumber number_of(const OptionalText& stack) const {
    const auto found = stacks_.find(stack.value_or(""));
    return found == stacks_.end() ? OptionalNumber() : OptionalNumber(found->second);
  }

  const Report& report_;
  std::string_view selection_;
  TableSink& sink_;
  std::vector<Value> row_;
  std::map<std::string, std::uint64_t> stacks_;
};

constexpr std::array kTables = {
    Table{"meta", kMeta, "key"},
    Table{"process", kProcess, "id"},
    Table{"device", kDevice, "id"},
    Table{"device_of_process", kDeviceOfProcess, ""},
    Table{"frame", kFrame, "stack, depth"},
    Table{"allocation", kAllocation, "id"},
    Table{"peak", kPeak, ""},
    Table{"card_peaks", kCardPeak, ""},
    Table{"card_peak_parts", kCardPeakPart, ""},
    Table{"rank_groups", kRankGroup, ""},
    Table{"step", kStep, ""},
    Table{"range", kRange, ""},
    Table{"finding", kFinding, ""},
};
// The functions that write the rows of the tables, in the order of the list of tables.
constexpr std::array kRowsOfTables = {
    &Writer::meta,
    &Writer::processes,
    &Writer::devices,
    &Writer::devices_of_processes,
    &Writer::frames,
    &Writer::allocations,
    &Writer::peaks,
    &Writer::card_peaks,
    &Writer::card_peak_parts,
    &Writer::rank_groups,
    &Writer::steps,
    &Writer::ranges,
    &Writer::findings,
};
static_assert(kTables.size() == kRowsOfTables.size());

}  // namespace

std::span<const Table> job_tables() { return kTables; }

void write_tables(const Report& report, std::string_view selection, TableSink& sink) {
  Writer writer(report, selection, sink);
  for (std::size_t i = 0; i < kTables.size(); ++i) {
    sink.begin(kTables.at(i));
    (writer.*kRowsOfTables.at(i))();
    sink.end();
  }
}

}  // namespace gpumemtrace::tools
