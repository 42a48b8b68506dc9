// SPDX-License-Identifier: Apache-2.0
// One finding: the rule's evidence, its place, and the remedy.
#pragma once

#include <concepts>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>

#include "analyzer/rows/site.hpp"

namespace gpumemtrace::analyzer::rows {

// The memory of a device when it ran out, in the parts that PyTorch's own message names.
struct OomBreakdown {
  OptionalNumber tried_to_allocate;
  OptionalNumber total_capacity;
  OptionalNumber free;
  OptionalNumber process_in_use;
  OptionalNumber process_allocated_by_calls;
  OptionalNumber allocated_by_pytorch;
  OptionalNumber reserved_by_pytorch_but_unallocated;
  OptionalNumber non_pytorch;
  OptionalNumber other_processes;
  PublicText source;

  GPUMEMTRACE_FIELDS(tried_to_allocate, total_capacity, free, process_in_use,
                     process_allocated_by_calls, allocated_by_pytorch,
                     reserved_by_pytorch_but_unallocated, non_pytorch, other_processes, source)
};

// The evidence for a finding: values by name, in the order in which they were added. std::monostate
// is null.
class Evidence {
 public:
  using Value = std::variant<std::monostate, bool, std::uint64_t, double, std::string, CodeLocation,
                             OomBreakdown>;

  void add(std::string key, Value value) { values_.emplace_back(std::move(key), std::move(value)); }
  void add(std::string key, std::string text) {
    values_.emplace_back(std::move(key), std::move(text));
  }
  void add(std::string key, std::string_view word) { add(std::move(key), std::string(word)); }
  template <class T>
  requires std::unsigned_integral<T> &&(!std::same_as<T, bool>)void add(std::string key, T number) {
    add(std::move(key), Value(std::uint64_t{number}));
  }
  template <class Word>
  requires std::is_enum_v<Word>
  void add(std::string key, Word word) { add(std::move(key), name_of(word)); }
  template <class T>
  void add(std::string key, const std::optional<T>& value) {
    if (!value) return add(std::move(key), Value());
    add(std::move(key), *value);
  }

  // nullptr if there is no such value, or it is of another type.
  template <class T>
  [[nodiscard]] const T* find(std::string_view key) const {
    for (const auto& [name, value] : values_) {
      if (name == key) return std::get_if<T>(&value);
    }
    return nullptr;
  }
  [[nodiscard]] const std::vector<std::pair<std::string, Value>>& values() const { return values_; }

 private:
  std::vector<std::pair<std::string, Value>> values_;
};

// The basis of a finding's number of saved bytes or nanoseconds.
enum class SavesBasis : std::uint8_t { kExact, kReplayed, kArithmetic, kInferred };
constexpr auto names(SavesBasis) {
  return std::to_array<std::string_view>({"exact", "replayed", "arithmetic", "inferred"});
}

// The savings if the advice is followed.
struct Saves {
  OptionalNumber bytes;
  OptionalNumber time_ns;
  SavesBasis basis = SavesBasis::kInferred;

  GPUMEMTRACE_FIELDS(bytes, time_ns, basis)
};

struct Finding {
  Rule rule = Rule::kCount;
  Severity severity = Severity::kWarning;
  FindingConfidence confidence = FindingConfidence::kExact;
  PublicText title;
  PublicText detail;
  Evidence evidence;
  PublicText fix;  // null if none is known
  OptionalNumber bytes;
  OptionalNumber time_ns;
  Saves saves;  // the list of findings is in the order of savings
  OptionalProcess process;
  OptionalDevice device;
  std::optional<Level> level;
  Origin origin;
  PublicText fingerprint;  // of rule, owner, function and file's base name: the same in every run
  // The fingerprint of the finding of the same process (and, if this has a site, of the same
  // device, level and site) with the same fault and its remedy. The finding of a growth has this
  // key if the memory was never freed; the leak's evidence then has growth_bytes,
  // growth_bytes_per_step and forecast_ns. The finding rank_imbalance has it if one rank alone
  // grows.
  OptionalPublicText same_cause;

  static void fields(auto& self, auto& v) {
    GPUMEMTRACE_KEYS(v, rule, severity, confidence, title, detail, evidence);
    v.or_null("fix", self.fix);
    GPUMEMTRACE_KEYS(v, bytes, time_ns);
    v.added("saves", self.saves);
    GPUMEMTRACE_KEYS(v, process, device, level);
    Origin::fields(self.origin, v);
    v("fingerprint", self.fingerprint);
    v.only_if_known("same_cause", self.same_cause);
  }
};

}  // namespace gpumemtrace::analyzer::rows
