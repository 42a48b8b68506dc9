// SPDX-License-Identifier: Apache-2.0
// The table of all rules of the report's findings: name, severity and confidence.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace gpumemtrace::analyzer {

enum class Severity : std::uint8_t { kError, kWarning, kInfo };
// The confidence of a finding. kExact: counted. kInferred: follows from counts and from the usual
// meaning of the numbers. kHeuristic: a pattern that other causes could have, too.
enum class FindingConfidence : std::uint8_t { kExact, kInferred, kHeuristic };

// The part of a run that a rule covers if a checkpoint replaced the begin of its trace by sums:
// some rules need only sums, others need single events.
enum class RuleScope : std::uint8_t { kWholeRun, kBehindCheckpoint };

// The rules. Findings of failures and leaks are shown in this order, the others by their savings.
enum class Rule : std::uint8_t {
  kOutOfMemory,
  kOutOfMemoryRecovered,
  kLeak,
  kInvalidFree,
  kLeakUntilContextEnd,
  kUnreleasedHandle,
  kGrowth,
  kReferenceCycles,
  kManyPools,
  kManyCommunicators,
  kWrongDevice,
  kRankImbalance,
  kRankEndedEarly,
  kRepeatedCopies,
  kPageableCopies,
  kSynchronousCopies,
  kSmallCopies,
  kPingPong,
  kLowBandwidth,
  kCopiesNotHidden,
  kManagedThrash,
  kFragmentation,
  kAllocationChurn,
  kPinnedChurn,
  kPinnedRounding,
  kLoadedAndKept,
  kOpaquePool,
  kGradientsInForward,
  kGraphWithoutBackward,
  kGraphsPileUp,
  kIdleContexts,
  kCount,
};

struct RuleInfo {
  std::string_view name;
  std::string_view family;  // name that related rules share, for use in suppressions
  Severity severity = Severity::kWarning;
  FindingConfidence confidence = FindingConfidence::kExact;
  std::string_view summary;
  RuleScope scope = RuleScope::kWholeRun;
};

inline constexpr std::array kRules = {
    RuleInfo{"out_of_memory", "out_of_memory", Severity::kError, FindingConfidence::kExact,
             "A request for GPU memory failed and the program was told so.",
             RuleScope::kBehindCheckpoint},
    RuleInfo{"out_of_memory_recovered", "out_of_memory", Severity::kWarning,
             FindingConfidence::kExact,
             "A request for GPU memory failed at first and was met after memory was given back.",
             RuleScope::kBehindCheckpoint},
    RuleInfo{"leak", "leak", Severity::kError, FindingConfidence::kExact,
             "Memory that the program allocated was never freed."},
    RuleInfo{"invalid_free", "invalid_free", Severity::kError, FindingConfidence::kExact,
             "Memory was freed twice, or freed at an address that was never allocated."},
    RuleInfo{"leak_until_context_end", "leak", Severity::kWarning, FindingConfidence::kExact,
             "Memory that only the end of its context freed."},
    RuleInfo{"unreleased_handle", "leak", Severity::kWarning, FindingConfidence::kExact,
             "A handle to memory of CUDA was opened or made and never given back."},
    RuleInfo{"growth", "growth", Severity::kWarning, FindingConfidence::kHeuristic,
             "The memory that one place holds rises throughout the run.",
             RuleScope::kBehindCheckpoint},
    RuleInfo{"reference_cycles", "cycles", Severity::kWarning, FindingConfidence::kInferred,
             "Memory that nobody could reach stayed until Python's cycle collector ran.",
             RuleScope::kBehindCheckpoint},
    RuleInfo{"many_private_pools", "pools", Severity::kWarning, FindingConfidence::kInferred,
             "Many private pools of CUDA graphs reserve much memory and use little of it.",
             RuleScope::kBehindCheckpoint},
    RuleInfo{"many_communicators", "communicators", Severity::kWarning,
             FindingConfidence::kInferred, "Communicators of NCCL that one place makes pile up.",
             RuleScope::kBehindCheckpoint},
    RuleInfo{"wrong_device", "wrong_device", Severity::kWarning, FindingConfidence::kInferred,
             "A process uses the device of another rank."},
    RuleInfo{"rank_imbalance", "rank_imbalance", Severity::kWarning, FindingConfidence::kHeuristic,
             "One rank holds much more or much less memory than its group."},
    RuleInfo{"rank_ended_early", "rank_ended_early", Severity::kWarning,
             FindingConfidence::kInferred, "A rank ended long before the others did."},
    RuleInfo{"repeated_copies", "transfer", Severity::kWarning, FindingConfidence::kInferred,
             "One place sends the same bytes to the device again and again.",
             RuleScope::kBehindCheckpoint},
    RuleInfo{"pageable_copies", "transfer", Severity::kWarning, FindingConfidence::kExact,
             "Copies through asynchronous functions that wait, because the host memory is "
             "pageable.",
             RuleScope::kBehindCheckpoint},
    RuleInfo{"synchronous_copies", "transfer", Severity::kWarning, FindingConfidence::kExact,
             "Copies in a loop of which each makes the program wait for the GPU."},
    RuleInfo{"small_copies", "transfer", Severity::kWarning, FindingConfidence::kExact,
             "Many small copies from one place that could be one."},
    RuleInfo{"ping_pong", "transfer", Severity::kWarning, FindingConfidence::kHeuristic,
             "Bytes go down to the host and come back to the same place again and again.",
             RuleScope::kBehindCheckpoint},
    RuleInfo{"low_bandwidth", "transfer", Severity::kWarning, FindingConfidence::kExact,
             "Large copies that reach a small part of what their link can carry.",
             RuleScope::kBehindCheckpoint},
    RuleInfo{"copies_not_hidden", "transfer", Severity::kWarning, FindingConfidence::kExact,
             "Large asynchronous copies that run while no kernel does.",
             RuleScope::kBehindCheckpoint},
    RuleInfo{"managed_thrash", "transfer", Severity::kWarning, FindingConfidence::kExact,
             "Managed memory that moves to the device and back again and again.",
             RuleScope::kBehindCheckpoint},
    RuleInfo{"fragmentation", "fragmentation", Severity::kWarning, FindingConfidence::kExact,
             "Much of the memory that the framework reserved lies in pieces beside live blocks.",
             RuleScope::kBehindCheckpoint},
    RuleInfo{"allocation_churn", "churn", Severity::kWarning, FindingConfidence::kExact,
             "Device memory is allocated from and freed to the driver again and again.",
             RuleScope::kBehindCheckpoint},
    RuleInfo{"pinned_churn", "churn", Severity::kWarning, FindingConfidence::kExact,
             "Host memory is pinned and unpinned again and again.", RuleScope::kBehindCheckpoint},
    RuleInfo{"pinned_rounding", "pinned_rounding", Severity::kWarning, FindingConfidence::kInferred,
             "PyTorch rounds pinned host memory up to powers of two, and much of it is not used."},
    RuleInfo{"loaded_and_kept", "loaded", Severity::kWarning, FindingConfidence::kInferred,
             "What was read from a file stays on the device after it was copied to its place.",
             RuleScope::kBehindCheckpoint},
    RuleInfo{"opaque_pool", "opaque_pool", Severity::kInfo, FindingConfidence::kExact,
             "A library deals out a pool in which this trace cannot see."},
    RuleInfo{"gradients_in_forward", "gradients", Severity::kInfo, FindingConfidence::kInferred,
             "Gradients that the optimizer has used are still alive in the next forward pass.",
             RuleScope::kBehindCheckpoint},
    RuleInfo{"graph_without_backward", "graph", Severity::kWarning, FindingConfidence::kInferred,
             "A forward pass kept what only a backward pass needs, and none came.",
             RuleScope::kBehindCheckpoint},
    RuleInfo{"graphs_pile_up", "graph", Severity::kWarning, FindingConfidence::kInferred,
             "CUDA graphs are instantiated again and again, and hardly one is used twice.",
             RuleScope::kBehindCheckpoint},
    RuleInfo{"idle_contexts", "context", Severity::kWarning, FindingConfidence::kInferred,
             "Processes hold a CUDA context and almost nothing else."},
};
static_assert(kRules.size() == static_cast<std::size_t>(Rule::kCount));

constexpr const RuleInfo& describe(Rule rule) { return kRules[static_cast<std::size_t>(rule)]; }

constexpr std::string_view name_of(Severity severity) {
  constexpr std::array<std::string_view, 3> kNames = {"error", "warning", "info"};
  return kNames[static_cast<std::size_t>(severity)];
}
constexpr std::string_view name_of(FindingConfidence confidence) {
  constexpr std::array<std::string_view, 3> kNames = {"exact", "inferred", "heuristic"};
  return kNames[static_cast<std::size_t>(confidence)];
}

}  // namespace gpumemtrace::analyzer
