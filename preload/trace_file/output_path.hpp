// SPDX-License-Identifier: Apache-2.0
// The path of the trace: expands the pattern of --output.
//
//   %h host   %p process id   %e executable   %t start time (seconds since 1970)   %n host's short
//   name   %r rank   %j job id   %q{VAR} an environment variable   %% a percent sign
//
// A %r without a rank vanishes together with the dot and the letter r before it (".r%r").
#pragma once

#include <string_view>

#include "preload/base/message.hpp"

namespace gpumemtrace::preload {

// The process's place in a job, from the variables of torchrun, Open MPI, MPICH, Slurm and others.
struct JobFacts {
  std::string_view rank;
  std::string_view local_rank;
  std::string_view world_size;
  std::string_view job;
  std::string_view attempt;  // how often the scheduler, or else torchrun, started the job before
  std::string_view run;      // id of the `gpumemtrace run` that started the process
  std::string_view restart;  // how often torchrun started the workers of its node before
  std::string_view array;    // id of the job array that the job belongs to
  std::string_view task;     // the job's number in that array
};
JobFacts read_job_facts() noexcept;

// The executable's path and base name, and the host's name, in buffers that live as long as the
// process.
std::string_view executable_path() noexcept;
std::string_view executable_name() noexcept;
std::string_view host_name() noexcept;

// Builds the absolute path, without the number that may be needed to make it unique. An empty
// `pattern` means a file in the current folder, or in the job's folder if there are several ranks.
void expand_output_path(std::string_view pattern, const JobFacts& job, Line& path) noexcept;

}  // namespace gpumemtrace::preload
