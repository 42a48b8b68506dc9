// SPDX-License-Identifier: Apache-2.0
// What all sections of the report share: ids, names, and who holds what.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "analyzer/base/json.hpp"
#include "analyzer/base/losses.hpp"
#include "analyzer/job/job.hpp"
#include "analyzer/report/stack_names.hpp"

namespace gpumemtrace::analyzer {

// How a trace ended.
enum class TraceEnd { kExit, kExec, kSignal, kKilled, kRunning, kUnknown };

// Whose memory it is and where it was asked for, in the words of the report. Allocations that look
// the same to the reader are one row: the stack is that of the first, which is not compared.
struct Identity {
  std::string owner;  // empty = not known
  bool has_site = false;
  bool is_python = false;  // the site
  std::string function;    // of the user's code, empty = not known
  std::string file;
  std::uint32_t line = 0;
  std::string module;        // native only
  std::uint64_t offset = 0;  // in the module, where the line is not known
  std::string api;           // the function of CUDA that the code called
  std::string node;          // of autograd, where this is the work of a backward pass
  std::string stack;         // id of a row of stacks[], empty = none recorded
  std::string phase;         // of the program, blocks only; empty = not known
  Verdict verdict;           // what they are for, blocks only

  [[nodiscard]] auto words() const {
    return std::tie(owner, has_site, is_python, function, file, line, module, offset, api, node,
                    phase, verdict);
  }
  friend bool operator==(const Identity& a, const Identity& b) { return a.words() == b.words(); }
  friend auto operator<=>(const Identity& a, const Identity& b) { return a.words() <=> b.words(); }
};

using TallyByIdentity = std::map<Identity, Tally>;

// Where the report may not be exact, because of what is missing from a trace.
struct Inexact {
  bool memory = false;     // driver, pool, managed, host
  bool framework = false;  // blocks
  bool copies = false;
};

struct ReportProcess {
  const Process* process = nullptr;
  std::string id;
  TraceEnd end = TraceEnd::kUnknown;
  Losses losses;
  Inexact inexact;

  [[nodiscard]] const ProcessModel& model() const { return process->model(); }
  [[nodiscard]] Json time_ns(std::uint64_t model_time) const {
    return model_time == 0 ? Json(nullptr) : Json(process->time_ns(model_time));
  }
};

// Answers the questions that several sections ask. Built once all records are in. The symbolizer,
// the owners and the redaction are borrowed.
class ReportContext {
 public:
  ReportContext(const Job& job, Symbolizer& symbolizer, const CodeOwners& owners,
                Redaction& redaction);

  struct PhysicalDevice {
    std::string id;
    std::vector<std::pair<const ReportProcess*, const DeviceState*>> seen_as;
  };

  [[nodiscard]] const std::vector<ReportProcess>& processes() const { return processes_; }
  [[nodiscard]] const std::vector<PhysicalDevice>& devices() const { return devices_; }
  // null for host memory and where the device is not known.
  [[nodiscard]] Json device_id(const ReportProcess& process, std::int32_t ordinal) const;

  // Who the holder is to the reader of the report.
  [[nodiscard]] Identity identity_of(const ReportProcess& process, const HolderKey& holder) const;
  [[nodiscard]] Identity identity_of_site(const ReportProcess& process, const CallSite& site) const;
  // The framework's caching allocator, called from the stack.
  [[nodiscard]] Identity identity_of_framework(const ReportProcess& process,
                                               std::uint32_t stack) const;
  [[nodiscard]] const StackNames& names_of(const ReportProcess& process) const {
    return stack_names_[static_cast<std::size_t>(&process - processes_.data())];
  }
  [[nodiscard]] const Symbolizer& symbolizer() const { return symbolizer_; }
  // Every name that the records hold and a section shows goes through it.
  [[nodiscard]] Redaction& redaction() const { return redaction_; }
  [[nodiscard]] TallyByIdentity tally(const ReportProcess& process, const Holders& holders) const;
  [[nodiscard]] TallyByIdentity tally(const ReportProcess& process,
                                      const std::vector<LiveAllocation>& entries) const {
    return tally(process, sum_by_holder(entries));
  }

 private:
  void name_devices();
  [[nodiscard]] Identity name_site(const ReportProcess& process, const CallSite& site) const;
  void add_stack(const ReportProcess& process, std::uint32_t stack, Identity& identity) const;

  Symbolizer& symbolizer_;
  const CodeOwners& owners_;
  Redaction& redaction_;
  std::vector<StackNames> stack_names_;
  // Naming is slow, and sections ask about the same sites.
  mutable std::map<std::pair<const ReportProcess*, CallSite>, Identity> known_sites_;
  std::vector<ReportProcess> processes_;
  std::vector<PhysicalDevice> devices_;
  std::map<std::pair<std::string, std::int32_t>, std::string> device_ids_;
};

// The process has loaded PyTorch.
[[nodiscard]] bool uses_pytorch(const ReportProcess& process);
// null where nothing is known about the site.
[[nodiscard]] Json site_json(const Identity& identity);
[[nodiscard]] Json owner_json(const Identity& identity);
[[nodiscard]] Json stack_json(const Identity& identity);
// {"site": ..., "stack": ...} of a second place that a row tells of; null where it is not known.
[[nodiscard]] Json place_json(const ReportContext& context, const ReportProcess& process,
                              const CallSite& site);
// WORD_count, WORD_at and WORD_elsewhere: what calls gave back of what the row's place had asked
// for. nullptr: not known.
void add_releases(Json& row, const std::string& word, const ReportContext& context,
                  const ReportProcess& process, const Releases* releases);
[[nodiscard]] Json text_or_null(const std::string& text);
// The row's place among rows of equal bytes.
[[nodiscard]] std::string fingerprint_of(const Identity& identity);
// The largest holders, and the remainder as `other`, so that the rows sum to `total_bytes`.
[[nodiscard]] Json holders_json(const TallyByIdentity& holders, std::uint64_t total_bytes);
void mark_inexact(Json& row, bool inexact);
[[nodiscard]] bool is_inexact(const ReportProcess& process, Level level);
// Sorted by the number under `key`, largest first, null as 0; rows that are equal keep their order.
[[nodiscard]] Json sorted_rows(std::vector<Json> rows, const char* key);
[[nodiscard]] std::string_view name_of(TraceEnd end);

}  // namespace gpumemtrace::analyzer
