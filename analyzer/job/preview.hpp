// SPDX-License-Identifier: Apache-2.0
// The parts of a trace that are needed before its records can be put in order and applied.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "analyzer/base/clock.hpp"
#include "analyzer/stacks/dictionary.hpp"
#include "trace/reader.hpp"
#include "trace/records.hpp"

namespace gpumemtrace::analyzer {

struct Preview {
  Clock clock;
  std::uint64_t background_cpu_ns = 0;  // processor time of the recorder's threads; 0: not known
  std::string host;
  std::string boot_id;
  std::vector<trace::WaitingStack> waits;  // as far as the recorder's own thread looked who waits
  std::vector<trace::Device> devices;
  std::vector<trace::ActivityClock> activity_clocks;
  trace::ActivityMode widest_activity = trace::ActivityMode::kOff;  // that was ever recorded

  // True if both have the process in the same place, and a model that began with this one has all
  // that the other one needs before its first record.
  [[nodiscard]] bool serves_for(const Preview& later) const {
    return boot_id == later.boot_id && host == later.host && waits.size() == later.waits.size() &&
           devices.size() == later.devices.size();
  }
};

// The number of the writer's records in the packed file.
[[nodiscard]] std::uint64_t record_count(const trace::WriterStream& stream);

// Reads the clock records, the process's place and devices, and the threads that waited in backward
// passes ahead of all others: from the recorder's own writers, and from those with few records.
class PreviewReader {
 public:
  // Continues at its end, if the file was read before. False if it is another file, or lacks the
  // records already read.
  [[nodiscard]] bool read(const trace::TraceFile& file);
  [[nodiscard]] Preview preview(const trace::TraceFile& file) const;

 private:
  struct Stream {
    trace::StreamPosition position;
    bool has_begun = false;
    bool is_recorders = false;
  };

  [[nodiscard]] bool read(const trace::TraceFile& file, const trace::WriterStream& writer);
  void take(const trace::RecordHeader& record, const Stream& stream);

  std::map<std::uint32_t, Stream> streams_;  // by writer
  std::vector<ClockPoint> points_;
  Preview preview_;  // without what follows from the rest
  Dictionary dictionary_;
};

}  // namespace gpumemtrace::analyzer
