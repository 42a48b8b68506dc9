// SPDX-License-Identifier: Apache-2.0
// Finds the traces of an earlier run in a folder that was used twice.
#include "tools/report_view/recorded_jobs.hpp"

#include "analyzer/rows/report.hpp"
#include "tests/catch.hpp"
#include "tools/report_view/report_row.hpp"

namespace gpumemtrace::tools::recorded_jobs_test {
namespace {

namespace rows = analyzer::rows;

constexpr std::uint64_t kSecond = 1'000'000'000;

// A folder of recorded processes. add() adds one: its command, its begin and end in seconds, the
// ids of its run, and its parent's process id.
class Folder {
 public:
  Folder& add(const std::string& command, std::uint64_t from_s, std::uint64_t to_s,
              rows::RunIds ids = {}, std::uint64_t parent = 1) {
    const std::string id = "p" + std::to_string(report_.processes.size() + 1);
    rows::Process& process = report_.processes.emplace_back();
    process.id = id;
    process.pid = 100 + report_.processes.size();
    process.ppid = parent;
    process.host = "node";
    process.boot_id = "boot";
    process.command = {command};
    process.start_unix_ns = from_s * kSecond;
    process.started_in = std::move(ids);
    rows::Trace& trace = report_.traces.emplace_back();
    trace.process = id;
    trace.duration_ns = (to_s - from_s) * kSecond;
    return *this;
  }

  // Makes the process that was added last this rank of two.
  Folder& rank(std::uint64_t rank) {
    report_.processes.back().rank = report_.processes.back().local_rank = rank;
    report_.processes.back().world_size = 2;
    return *this;
  }

  // One letter for each trace: r if a later run replaced it, j if `check` judges it.
  [[nodiscard]] std::string replaced() const {
    std::string text;
    for (const bool is_replaced : replaced_traces(report_)) text += is_replaced ? 'r' : 'j';
    return text;
  }
  [[nodiscard]] std::string several_jobs() const { return several_jobs_text(report_); }

 private:
  rows::Report report_;
};

rows::RunIds run(const char* id) {
  rows::RunIds ids;
  ids.run = id;
  return ids;
}
rows::RunIds job(const char* id, const char* attempt = "0") {
  rows::RunIds ids;
  ids.job = id;
  ids.attempt = attempt;
  return ids;
}
// The ids of a Slurm job that runs one task of a job array.
rows::RunIds task(const char* job_id, const char* array, const char* number) {
  rows::RunIds ids = job(job_id);
  ids.array = array;
  ids.task = number;
  return ids;
}
// The ids of a worker of torchrun under `gpumemtrace run`, in a job without a name.
rows::RunIds worker(const char* run_id, const char* restart) {
  rows::RunIds ids = run(run_id);
  ids.job = "none";
  ids.attempt = ids.restart = restart;
  return ids;
}

std::string program(rows::CommandLine command) {
  rows::Process process;
  process.command = std::move(command);
  process.python.emplace();
  return program_name(process);
}

}  // namespace

TEST_CASE("of a command that was recorded again the newest is judged", "[unit]") {
  CHECK(Folder().add("a", 1, 2).add("a", 3, 4).replaced() == "rj");
  CHECK(Folder().add("a", 3, 4).add("a", 1, 2).replaced() == "jr");
  CHECK(Folder().add("a", 1, 2).add("b", 3, 4).add("a", 5, 6).replaced() == "rjj");
  // The earlier run has more ranks than the later one, and all of them are replaced.
  CHECK(Folder().add("a", 1, 3).add("a", 1, 3).add("a", 5, 6).replaced() == "rrj");
}

TEST_CASE("processes that ran at the same time are one job", "[unit]") {
  CHECK(Folder().add("a", 1, 4).add("a", 2, 3).replaced() == "jj");
  CHECK(Folder().add("a", 1, 4, run("x")).add("a", 2, 3, run("y")).replaced() == "jj");
}

TEST_CASE("ranks of one parent are one job, even one after the other", "[unit]") {
  Folder folder;
  folder.add("a", 1, 2).rank(0).add("a", 3, 4).rank(1);
  CHECK(folder.replaced() == "jj");
  CHECK(folder.add("a", 5, 6).rank(0).add("a", 7, 8).rank(1).replaced() == "rrjj");
}

TEST_CASE("everything under one run is judged together or not at all", "[unit]") {
  CHECK(Folder().add("a", 1, 2, run("x")).add("a", 3, 4, run("x")).replaced() == "jj");
  CHECK(Folder()
            .add("a", 1, 2, run("x"))
            .add("b", 3, 4, run("x"))
            .add("a", 5, 6, run("y"))
            .replaced() == "rrj");
  CHECK(Folder().add("a", 1, 2, run("x")).add("b", 3, 4, run("y")).replaced() == "jj");
}

TEST_CASE("one attempt of a scheduler's job is one run", "[unit]") {
  CHECK(Folder().add("a", 1, 2, job("7")).add("a", 3, 4, job("7")).replaced() == "jj");
  CHECK(Folder().add("a", 1, 2, job("7")).add("a", 3, 4, job("7", "1")).replaced() == "rj");
  CHECK(Folder().add("a", 1, 2, job("7")).add("a", 3, 4, job("8")).replaced() == "rj");
  // The ranks run on two nodes, so that they have no parent process in common.
  Folder folder;
  folder.add("a", 1, 2, job("7"), 1).rank(0).add("b", 3, 4, job("7"), 2).rank(1);
  CHECK(folder.several_jobs().empty());
}

TEST_CASE("tasks of one job array do not replace each other", "[unit]") {
  Folder folder;
  folder.add("a", 1, 2, task("70", "70", "0"), 1).add("a", 3, 4, task("71", "70", "1"), 2);
  CHECK(folder.replaced() == "jj");
  CHECK(folder.several_jobs() == "2 tasks of job array 70: 0, 1");
  // The first task runs again, then a task of another array.
  CHECK(folder.add("a", 5, 6, task("72", "70", "0")).replaced() == "rjj");
  CHECK(folder.add("a", 7, 8, task("80", "80", "0")).replaced() == "rrrj");
}

TEST_CASE("a restart by torchrun begins a run of its own", "[unit]") {
  const auto two_workers = [](Folder& folder, std::uint64_t at_s, const char* restart) {
    folder.add("a", at_s, at_s + 1, worker("x", restart), 50).rank(0);
    folder.add("a", at_s + 1, at_s + 2, worker("x", restart), 50).rank(1);
  };
  Folder folder;
  two_workers(folder, 1, "0");
  CHECK(folder.replaced() == "jj");
  two_workers(folder, 5, "1");
  CHECK(folder.replaced() == "rrjj");
  CHECK(folder.several_jobs().empty());
  // A worker of another node failed: the agent of this node starts its workers again.
  two_workers(folder, 9, "1");
  CHECK(folder.replaced() == "rrrrjj");
}

TEST_CASE("what a worker of torchrun started goes with the worker", "[unit]") {
  Folder folder;
  folder.add("a", 1, 9, worker("x", "0"), 50).rank(0);
  const std::uint64_t first = 101;  // the id of the process that is added first
  folder.add("loader", 2, 3, worker("x", "0"), first).rank(0);
  folder.add("loader", 4, 5, worker("x", "0"), first).rank(0);
  CHECK(folder.replaced() == "jjj");
  CHECK(folder.add("a", 11, 12, worker("x", "1"), 50).rank(0).replaced() == "rrrj");
}

TEST_CASE("programs that one shell started one after the other are unrelated", "[unit]") {
  CHECK(Folder().add("a", 1, 2).add("b", 3, 4).several_jobs() ==
        "2 unrelated jobs: a (1 process), b (1 process)");
  CHECK(Folder().add("a", 1, 2).add("a", 3, 4).several_jobs().empty());
  CHECK(Folder().add("a", 1, 4).add("b", 2, 3).several_jobs().empty());
}

TEST_CASE("a Python program is named by its script, not by options", "[unit]") {
  CHECK(program({"python3", "train.py", "--fast"}) == "train.py");
  CHECK(program({"/usr/bin/python3", "-u", "-W", "ignore", "job/train.py"}) == "train.py");
  CHECK(program({"python3", "-m", "torch.distributed.run", "x.py"}) == "torch.distributed.run");
  CHECK(program({"python3", "-c", "print()"}) == "python3");
  CHECK(program({"python3"}) == "python3");
  CHECK(program({"ray::Trainer.step"}) == "ray::Trainer.step");
}

}  // namespace gpumemtrace::tools::recorded_jobs_test
