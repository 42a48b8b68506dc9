// SPDX-License-Identifier: Apache-2.0
// Rows on memory of one process that another one opened.
#pragma once

#include "analyzer/rows/site.hpp"

namespace gpumemtrace::analyzer::rows {

// Memory of another process that `process` opened, by the line that opened it and the lines that
// allocated and freed it. It counts as the exporter's memory alone. The largest rows of a process
// come first; after 64 of them one has the rest.
struct SharedMemory : OnDevice {
  OptionalProcess exporter;            // the process whose memory it is
  OptionalPublicText exporter_reason;  // why that is not known
  // The device that holds the memory; `device` is that of the context in which it was opened
  OptionalDevice exporter_device;
  std::uint64_t count = 0;  // the number of allocations that were opened
  std::uint64_t bytes = 0;
  std::uint64_t live_count_at_end = 0;  // the number of these that were never closed
  std::uint64_t live_bytes_at_end = 0;
  // The bytes that the exporter freed while `process` had them open. CUDA leaves undefined what
  // then happens; card_peaks[] counts it no more, although the card may hold it until it is closed.
  std::uint64_t freed_while_open_bytes = 0;
  // The bytes that `process` still had open when the exporter's process or context had ended
  std::uint64_t ended_while_open_bytes = 0;
  // The longest time that `process` had memory open after the exporter freed it or ended
  OptionalNumber kept_after_ns;
  Origin origin;
  OptionalLocation allocated_at;  // by the exporter
  OptionalLocation freed_at;      // by the exporter
  bool is_exact = true;

  static void fields(auto& self, auto& v) {
    GPUMEMTRACE_KEYS(v, process, device, exporter, exporter_reason, exporter_device, count, bytes,
                     live_count_at_end, live_bytes_at_end, freed_while_open_bytes,
                     ended_while_open_bytes, kept_after_ns);
    Origin::fields(self.origin, v);
    GPUMEMTRACE_KEYS(v, allocated_at, freed_at);
    v.exact(self.is_exact);
  }
};

// One allocation whose handle a process handed out.
struct ExportedMemory {
  std::uint64_t handle = 0;  // a hash of the handle
  JobTime time_ns = 0;       // of the first call that handed it out
  OptionalTime end_ns;       // null: still live at the end of the trace of a running process

  GPUMEMTRACE_FIELDS(handle, time_ns, end_ns)
};

// The exported allocations that one line allocated and one line freed.
struct ExportedBySite : OnDevice {
  OptionalLocation allocated_at;
  OptionalLocation freed_at;
  bool is_freed = false;  // true if a call freed them
  std::vector<ExportedMemory> memory;

  GPUMEMTRACE_FIELDS(process, device, allocated_at, freed_at, is_freed, memory)
};

// One allocation that a process opened by its handle.
struct OpenedMemory {
  std::uint64_t handle = 0;  // a hash of the handle
  std::uint64_t bytes = 0;
  JobTime time_ns = 0;
  OptionalTime end_ns;  // null: it was never closed

  GPUMEMTRACE_FIELDS(handle, bytes, time_ns, end_ns)
};

// Allocations of other processes that one line opened.
struct OpenedBySite : OnDevice {
  Origin origin;
  JobTime last_ns = 0;  // the end of the opening process's trace
  bool is_exact = true;
  std::vector<OpenedMemory> memory;

  GPUMEMTRACE_FIELDS(process, device, origin, last_ns, is_exact, memory)
};

}  // namespace gpumemtrace::analyzer::rows
