// SPDX-License-Identifier: Apache-2.0
// The places of partial reports' processes and devices in the job.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "analyzer/rows/partial.hpp"

namespace gpumemtrace::analyzer {

struct ProcessPlace {
  std::string id;              // empty: the process of another partial report is taken
  std::int64_t origin_ns = 0;  // of the job on the machine's clock
};

// By the ids of one partial report.
struct Places {
  std::map<std::string, ProcessPlace> processes;
  std::map<std::string, std::string> devices;
};

// A process that is taken into the job.
struct TakenProcess {
  std::size_t partial = 0;
  const rows::PartialProcess* process = nullptr;
  const rows::Process* row = nullptr;
};

struct JobPlaces {
  std::vector<TakenProcess> processes;  // in the order of the job
  std::vector<rows::Device> devices;
  std::vector<Places> of_partial;
};

// `repeated_traces_count_once`: a process is left out if another partial report, or another place
// of this one, has a copy of its trace.
[[nodiscard]] JobPlaces find_places(const std::vector<rows::Partial>& partials,
                                    bool repeated_traces_count_once);

// Gives all rows the ids and the clock of the job.
void put_in_place(const Places& places, rows::Partial& partial);

}  // namespace gpumemtrace::analyzer
