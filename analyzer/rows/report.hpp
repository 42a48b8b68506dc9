// SPDX-License-Identifier: Apache-2.0
// The report: one member for each section.
#pragma once

#include "analyzer/rows/allocation_rows.hpp"
#include "analyzer/rows/card_rows.hpp"
#include "analyzer/rows/finding.hpp"
#include "analyzer/rows/job_rows.hpp"
#include "analyzer/rows/leak_rows.hpp"
#include "analyzer/rows/life_rows.hpp"
#include "analyzer/rows/memory_rows.hpp"
#include "analyzer/rows/shared_rows.hpp"
#include "analyzer/rows/time_rows.hpp"
#include "analyzer/rows/transfer_rows.hpp"
#include "analyzer/rows/what_if_rows.hpp"

namespace gpumemtrace::analyzer::rows {

struct Tool {
  PublicText name;
  PublicText version;

  GPUMEMTRACE_FIELDS(name, version)
};

struct Report {
  static constexpr std::string_view kFormat = "gpumemtrace-report";
  static constexpr std::uint64_t kVersion = 1;

  PublicText format{kFormat};
  std::uint64_t version = kVersion;
  Tool tool;
  // True if --redact replaced private names by names without meaning
  std::optional<bool> is_redacted;
  std::vector<Trace> traces;
  std::vector<Process> processes;
  std::vector<Device> devices;
  std::vector<Usage> usage;
  std::vector<Peak> peak;
  std::vector<Module> modules;
  std::vector<Tensor> tensors;
  std::vector<Composition> composition;
  std::vector<CardPeak> card_peaks;      // two rows for each device
  OptionalPublicText card_peaks_reason;  // why a device has no rows in card_peaks[]
  std::vector<PoolRow> pools;
  std::vector<DriverMemory> driver_memory;
  std::vector<Communicator> communicators;
  std::vector<SharedMemory> shared_memory;
  std::vector<Owner> owners;
  Leaks leaks;
  std::vector<Fragmentation> fragmentation;
  std::vector<Segment> segments;
  Transfers transfers;
  std::vector<Managed> managed;
  std::vector<Oom> oom;
  std::vector<Step> steps;
  std::vector<Range> ranges;
  std::vector<RangesOfName> ranges_by_name;
  std::vector<Mark> marks;
  std::vector<Timeline> timeline;
  std::vector<SizeRange> sizes;
  std::vector<LifetimeRange> lifetimes;
  std::vector<Temporary> temporary;
  std::vector<LargestBlock> largest_blocks;
  std::optional<Window> window;                               // only with --from or --to
  std::optional<std::vector<BlockAt>> blocks;                 // only with --at or --blocks
  std::optional<std::vector<WhatIf>> what_if;                 // only with --what-if
  std::optional<std::vector<AllocationHistory>> allocations;  // only if they were asked for
  std::vector<Rank> ranks;
  // The sizes that --groups or the command line gives, the innermost first: "tp=2,dp,pp=4"
  OptionalPublicText groups_given;
  std::vector<RankGroup> rank_groups;
  std::vector<Finding> findings;
  std::vector<Cost> costs;
  // null if the rows of stacks[] have their frames themselves, not indexes of frames[]
  OptionalPublicText frames_by;
  std::vector<Frame> frames;  // the frames of stacks[], each once
  std::vector<Stack> stacks;  // the stacks that the other sections name
  Coverage coverage;
  std::vector<Loss> losses;

  static void fields(auto& self, auto& v) {
    GPUMEMTRACE_KEYS(v, format, version, tool);
    v.only_if_known("redacted", self.is_redacted);
    GPUMEMTRACE_KEYS(v, traces, processes, devices, usage, peak);
    GPUMEMTRACE_KEYS(v.added, modules, tensors);
    v("composition", self.composition);
    GPUMEMTRACE_KEYS(v.added, card_peaks, card_peaks_reason, pools, driver_memory, communicators,
                     shared_memory);
    GPUMEMTRACE_KEYS(v, owners, leaks, fragmentation);
    v.added("segments", self.segments);
    GPUMEMTRACE_KEYS(v, transfers, managed, oom, steps, ranges);
    GPUMEMTRACE_KEYS(v.added, ranges_by_name, marks, timeline, sizes, lifetimes, temporary,
                     largest_blocks);
    GPUMEMTRACE_KEYS(v.only_if_known, window, blocks, what_if, allocations);
    GPUMEMTRACE_KEYS(v.added, ranks, groups_given, rank_groups);
    GPUMEMTRACE_KEYS(v, findings, costs);
    GPUMEMTRACE_KEYS(v.added, frames_by, frames);
    GPUMEMTRACE_KEYS(v, stacks, coverage, losses);
  }
};

// The frames of one of the report's stacks, innermost first.
[[nodiscard]] inline std::vector<const Frame*> frames_of(const Report& report, const Stack& stack) {
  std::vector<const Frame*> frames;
  for (const std::uint64_t index : stack.frames.indexes) frames.push_back(&report.frames[index]);
  for (const Frame& frame : stack.frames.own) frames.push_back(&frame);
  return frames;
}

// Copies the frames of report.frames[] into the stacks that refer to them, and empties frames[].
inline void put_frames_into_stacks(Report& report) {
  for (Stack& stack : report.stacks) {
    std::vector<Frame> own;
    for (const Frame* frame : frames_of(report, stack)) own.push_back(*frame);
    stack.frames = {{}, std::move(own)};
  }
  report.frames_by.reset();
  report.frames.clear();
}

}  // namespace gpumemtrace::analyzer::rows
