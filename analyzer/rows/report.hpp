// SPDX-License-Identifier: Apache-2.0
// The report: one member a section, as docs/report.schema.json describes them.
#pragma once

#include "analyzer/rows/allocation_rows.hpp"
#include "analyzer/rows/finding.hpp"
#include "analyzer/rows/job_rows.hpp"
#include "analyzer/rows/leak_rows.hpp"
#include "analyzer/rows/life_rows.hpp"
#include "analyzer/rows/memory_rows.hpp"
#include "analyzer/rows/time_rows.hpp"
#include "analyzer/rows/transfer_rows.hpp"
#include "analyzer/rows/what_if_rows.hpp"

namespace gpumemtrace::analyzer::rows {

struct Tool {
  std::string name;
  std::string version;

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& v) {
    v("name", self.name);
    v("version", self.version);
  }
};

struct Report {
  static constexpr std::string_view kFormat = "gpumemtrace-report";
  static constexpr std::uint64_t kVersion = 1;

  std::string format{kFormat};
  std::uint64_t version = kVersion;
  Tool tool;
  std::optional<bool> is_redacted;
  std::vector<Trace> traces;
  std::vector<Process> processes;
  std::vector<Device> devices;
  std::vector<Usage> usage;
  std::vector<Peak> peak;
  std::vector<Module> modules;
  std::vector<Tensor> tensors;
  std::vector<Composition> composition;
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
  std::optional<Window> window;                               // where it was asked for
  std::optional<std::vector<BlockAt>> blocks;                 // likewise
  std::optional<std::vector<WhatIf>> what_if;                 // likewise
  std::optional<std::vector<AllocationHistory>> allocations;  // likewise
  std::vector<Rank> ranks;
  std::vector<Finding> findings;
  std::vector<Cost> costs;
  std::vector<Stack> stacks;  // that the other sections name
  Coverage coverage;
  std::vector<Loss> losses;

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& v) {
    v("format", self.format);
    v("version", self.version);
    v("tool", self.tool);
    v.only_if_known("redacted", self.is_redacted);
    v("traces", self.traces);
    v("processes", self.processes);
    v("devices", self.devices);
    v("usage", self.usage);
    v("peak", self.peak);
    v.added("modules", self.modules);
    v.added("tensors", self.tensors);
    v("composition", self.composition);
    v("owners", self.owners);
    v("leaks", self.leaks);
    v("fragmentation", self.fragmentation);
    v.added("segments", self.segments);
    v("transfers", self.transfers);
    v("managed", self.managed);
    v("oom", self.oom);
    v("steps", self.steps);
    v("ranges", self.ranges);
    v.added("ranges_by_name", self.ranges_by_name);
    v.added("marks", self.marks);
    v.added("timeline", self.timeline);
    v.added("sizes", self.sizes);
    v.added("lifetimes", self.lifetimes);
    v.added("temporary", self.temporary);
    v.added("largest_blocks", self.largest_blocks);
    v.only_if_known("window", self.window);
    v.only_if_known("blocks", self.blocks);
    v.only_if_known("what_if", self.what_if);
    v.only_if_known("allocations", self.allocations);
    v.added("ranks", self.ranks);
    v("findings", self.findings);
    v("costs", self.costs);
    v("stacks", self.stacks);
    v("coverage", self.coverage);
    v("losses", self.losses);
  }
};

}  // namespace gpumemtrace::analyzer::rows
