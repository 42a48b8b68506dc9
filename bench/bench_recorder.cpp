// SPDX-License-Identifier: Apache-2.0
// Measures the cost of recording on the traced thread.
//
//   bench_recorder [--folder DIR] [--rounds N] [calls] [latency] [threads] [growth]
//   bench_recorder [--folder DIR] [--rounds N] sustained|stacks|full
//
// Starts itself again under the recorder, with its trace in a folder inside DIR that is removed at
// the end. Without names of measurements it makes those of the first line; each of the others needs
// its own process.

#include <spawn.h>
#include <sys/statfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

#include "bench/build_folder.hpp"
#include "bench/processors.hpp"
#include "bench/program.hpp"
#include "bench/recorder_phases.hpp"
#include "bench/recorder_stacks.hpp"
#include "bench/stopwatch.hpp"
#include "tests/support/temporary_folder.hpp"

namespace gpumemtrace::bench {
namespace {

// Environment variable that is set in the measuring child process: the folder of its trace.
constexpr char kFolderVariable[] = "GPUMEMTRACE_BENCH_FOLDER";

std::vector<std::string> measurements_of(const Arguments& arguments) {
  if (arguments.others.empty()) return {"calls", "latency", "threads", "growth"};
  return arguments.others;
}

void measure_in_a_child(const Arguments& arguments, char** values) {
  const tests::TemporaryFolder folder(arguments.folder);
  const std::string first = measurements_of(arguments).front();
  const bool sustained = first == "sustained";
  const bool stacks = first == "stacks";
  const bool full = first == "full";
  setenv(kFolderVariable, folder.path().c_str(), 1);
  setenv("LD_PRELOAD", preload_path().c_str(), 1);
  setenv("GPUMEMTRACE_OUTPUT", (folder.path() / "bench.gmt").c_str(), 1);
  // In most measurements the ring has room for the bursts of many threads, so that no records are
  // dropped.
  setenv("GPUMEMTRACE_RING_SIZE", full ? "2MiB" : sustained ? "64MiB" : "1GiB", 1);
  setenv("GPUMEMTRACE_MAX_TRACE_BYTES", "64GiB", 1);
  setenv("GPUMEMTRACE_NATIVE", stacks ? "auto" : "off", 1);
  setenv("GPUMEMTRACE_ON_FULL", sustained ? "block" : "drop", 1);
  pid_t child = 0;
  const int error = posix_spawn(&child, "/proc/self/exe", nullptr, nullptr, values, environ);
  if (error != 0) throw std::runtime_error(std::string("cannot start again: ") + strerror(error));
  int status = 0;
  waitpid(child, &status, 0);
  if (status != 0) throw std::runtime_error("the process that measures failed");
}

// Returns the name of a path's file system, by its magic number in statfs(2).
std::string file_system_of(const std::filesystem::path& path) {
  struct statfs facts = {};
  if (statfs(path.c_str(), &facts) != 0) return "an unknown file system";
  switch (static_cast<std::uint64_t>(facts.f_type)) {
    case 0x01021994:
      return "tmpfs";
    case 0xef53:
      return "ext4";
    case 0x58465342:
      return "xfs";
    case 0x9123683e:
      return "btrfs";
    case 0x794c7630:
      return "overlayfs";
    default:
      return "another file system";
  }
}

// Starts the recording: the first wrapped call makes the ring and starts the background thread.
// That thread gets the last processor and the measuring thread the first, which are far apart on
// most machines.
void start_recording(const CallForms& calls, const std::vector<int>& processors) {
  run_on({processors.back()});
  cuda_abi::CUdeviceptr address = 0;
  calls.wrapped.allocate(&address, 1);
  run_on({processors.front()});
}

void measure(const Arguments& arguments, const std::filesystem::path& folder) {
  const std::vector<int> processors = allowed_processors();
  const CallForms calls = load_calls();
  start_recording(calls, processors);
  const RingView ring(folder / "bench.gmt.ring");
  const double cores_apart_ns = measure_round_trip_ns(processors.front(), processors.back());
  const RecorderBench bench{
      calls,      ring,          measure_ns_per_tick(), arguments.rounds, file_system_of(folder),
      processors, cores_apart_ns};
  std::vector<Row> rows;
  for (const std::string& name : measurements_of(arguments)) {
    if (name == "calls") {
      for (const Row& row : measure_calls(bench)) rows.push_back(row);
    } else if (name == "latency") {
      rows.push_back(measure_latency(bench));
    } else if (name == "threads") {
      rows.push_back(measure_threads(bench));
    } else if (name == "growth") {
      rows.push_back(measure_growth(bench));
    } else if (name == "sustained") {
      rows.push_back(measure_sustained(bench));
    } else if (name == "full") {
      rows.push_back(measure_full_ring(bench));
    } else if (name == "stacks") {
      for (const Row& row : measure_native_stacks(bench)) rows.push_back(row);
    } else {
      throw std::runtime_error("there is no measurement " + name);
    }
  }
  print_rows(rows);
}

}  // namespace
}  // namespace gpumemtrace::bench

int main(int count, char** values) {
  using namespace gpumemtrace::bench;
  return run_program(count, values, [values](const Arguments& arguments) {
    const char* folder = std::getenv(kFolderVariable);
    if (folder == nullptr) {
      measure_in_a_child(arguments, values);
    } else {
      measure(arguments, folder);
    }
  });
}
