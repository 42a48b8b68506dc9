// SPDX-License-Identifier: Apache-2.0
// The ids that the processes and devices of partial reports get in the job.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "analyzer/rows/partial.hpp"

namespace gpumemtrace::analyzer {

struct ProcessPlace {
  // empty: the process is left out, because another partial report has it
  std::string id;
  std::int64_t origin_ns = 0;  // the time on its machine's clock at which the job began
};

// The ids in the job, by the ids that one partial report uses.
struct JobIds {
  std::map<std::string, ProcessPlace> processes;
  std::map<std::string, std::string> devices;
};

// A process of a partial report that is taken into the job.
struct TakenProcess {
  std::size_t partial = 0;
  const rows::PartialProcess* process = nullptr;
  const rows::Process* row = nullptr;
};

struct JobPlaces {
  std::vector<TakenProcess> processes;  // the job's processes in their order in the job
  std::vector<rows::Device> devices;
  std::vector<JobIds> of_partial;
};

// `repeated_traces_count_once`: a process is left out if another partial report has a copy of its
// trace, or this one has it a second time.
[[nodiscard]] JobPlaces find_places(const std::vector<rows::Partial>& partials,
                                    bool repeated_traces_count_once);

// Gives all rows of a partial report the job's ids and clock.
void apply_job_ids(const JobIds& ids, rows::Partial& partial);

}  // namespace gpumemtrace::analyzer
