// SPDX-License-Identifier: Apache-2.0
// Compares the recorded allocations with CUPTI's own record of allocations (MEMORY2): finds those
// that only one of them has.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "analyzer/base/words.hpp"
#include "analyzer/model/accounts/accounts.hpp"
#include "analyzer/model/activity/activity_clocks.hpp"
#include "trace/records.hpp"

namespace gpumemtrace::analyzer {

enum class Disagreement : std::uint8_t {
  kMissingInCupti,  // we recorded a call that CUPTI did not report
  kMissingInTrace,  // CUPTI reported memory that no recorded call explains
  kBytesDiffer,
  kKindDiffers,
};
constexpr auto names(Disagreement) {
  return std::to_array<std::string_view>(
      {"missing_in_cupti", "missing_in_trace", "bytes_differ", "kind_differs"});
}

struct DisagreementKey {
  Disagreement what = Disagreement::kMissingInTrace;
  bool is_release = false;
  CallSite site;                 // ours, without its stack; empty if CUPTI alone has it
  std::uint16_t during = 0;      // then the function that was being called, 0 = none
  std::uint32_t cupti_kind = 0;  // CUpti_ActivityMemoryKind
  std::optional<Kind> kind;      // ours
  bool is_at_0 = false;          // CUPTI names no address: a graph's pool grew
  friend auto operator<=>(const DisagreementKey&, const DisagreementKey&) = default;
};

struct DisagreementSums {
  std::uint64_t count = 0;
  std::uint64_t bytes = 0;        // by our records
  std::uint64_t cupti_bytes = 0;  // by CUPTI's
};

// - Both sides come in the order of the merge; CUPTI's up to seconds later.
// - A call later than CUPTI's last record is not judged: the records of the end may be lost.
class MemoryCheck {
 public:
  static constexpr std::size_t kMaxPending = std::size_t{1} << 19;

  // A successful call of ours. `kind`: nullopt if the freed memory is not known.
  void add_call(const trace::CallHeader& call, std::uint64_t address, std::uint64_t bytes,
                std::optional<Kind> kind, bool is_release);
  // Any other call: it may cause allocations that CUPTI reports meanwhile.
  void add_other_call(const trace::CallHeader& call);
  void apply(const trace::ActivityMemory& record, const std::optional<TickSpan>& time);
  void finish();

  [[nodiscard]] std::uint64_t records() const { return records_; }
  [[nodiscard]] std::uint64_t agreed() const { return agreed_; }
  [[nodiscard]] std::uint64_t not_judged() const { return not_judged_; }
  [[nodiscard]] const std::map<DisagreementKey, DisagreementSums>& disagreements() const {
    return disagreements_;
  }

 private:
  struct Call {
    std::uint64_t id = 0;
    TickSpan time;
    std::uint64_t bytes = 0;
    CallSite site;
    std::optional<Kind> kind;
    bool is_estimated = false;
  };
  struct Other {
    TickSpan time;
    std::uint16_t api = 0;
  };
  struct Order {
    std::uint64_t key = 0;
    std::uint64_t id = 0;
  };

  void compare(const Call& call, const trace::ActivityMemory& record, bool is_release);
  void count(const DisagreementKey& key, std::uint64_t bytes, std::uint64_t cupti_bytes);
  [[nodiscard]] std::uint16_t function_at(std::uint64_t ticks) const;
  void forget(const Order& oldest);
  void judge_missing(const Call& call, bool is_release);

  std::unordered_map<std::uint64_t, std::vector<Call>> pending_;  // by address and operation
  std::deque<Order> order_;
  std::deque<Other> others_;
  std::uint64_t next_id_ = 1;
  std::uint64_t last_record_ticks_ = 0;
  std::uint64_t records_ = 0;
  std::uint64_t agreed_ = 0;
  std::uint64_t not_judged_ = 0;
  std::map<DisagreementKey, DisagreementSums> disagreements_;
};

}  // namespace gpumemtrace::analyzer
