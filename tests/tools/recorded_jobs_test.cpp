// SPDX-License-Identifier: Apache-2.0
// Which traces of a folder that was used twice are of an earlier run.
#include "tools/report_view/recorded_jobs.hpp"

#include "analyzer/rows/report.hpp"
#include "tests/catch.hpp"
#include "tools/report_view/report_row.hpp"

namespace gpumemtrace::tools {
namespace {

namespace rows = analyzer::rows;

constexpr std::uint64_t kSecond = 1'000'000'000;

// Processes one by one: what ran, from when to when in seconds, and what it says of its run.
class Folder {
 public:
  Folder& add(const std::string& command, std::uint64_t from_s, std::uint64_t to_s,
              RunOfTrace run = {}, std::uint64_t parent = 1) {
    const std::string id = "p" + std::to_string(report_.processes.size() + 1);
    rows::Process& process = report_.processes.emplace_back();
    process.id = id;
    process.pid = 100 + report_.processes.size();
    process.ppid = parent;
    process.host = "node";
    process.boot_id = "boot";
    process.command = {command};
    process.start_unix_ns = from_s * kSecond;
    rows::Trace& trace = report_.traces.emplace_back();
    trace.process = id;
    trace.duration_ns = (to_s - from_s) * kSecond;
    runs_.push_back(std::move(run));
    return *this;
  }

  // Says that the last process is this rank of two.
  Folder& rank(std::uint64_t rank) {
    report_.processes.back().rank = rank;
    report_.processes.back().world_size = 2;
    return *this;
  }

  // A letter a trace: r replaced, j judged.
  [[nodiscard]] std::string replaced() const {
    std::string text;
    for (const bool is_replaced : replaced_traces(report_, runs_)) text += is_replaced ? 'r' : 'j';
    return text;
  }
  [[nodiscard]] std::string unrelated() const { return unrelated_jobs_text(report_); }

 private:
  rows::Report report_;
  std::vector<RunOfTrace> runs_;
};

RunOfTrace run(const char* id) { return {id, std::nullopt}; }
RunOfTrace attempt(const char* id) { return {std::nullopt, id}; }

std::string program(std::vector<std::string> command) {
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
  // Ranks of an earlier run, of which the later one has fewer.
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
  CHECK(Folder().add("a", 1, 2, attempt("7.0")).add("a", 3, 4, attempt("7.0")).replaced() == "jj");
  CHECK(Folder().add("a", 1, 2, attempt("7.0")).add("a", 3, 4, attempt("7.1")).replaced() == "rj");
  CHECK(Folder().add("a", 1, 2, attempt("7.0")).add("a", 3, 4, attempt("8.0")).replaced() == "rj");
}

TEST_CASE("programs that one shell started one after the other are unrelated", "[unit]") {
  CHECK(Folder().add("a", 1, 2).add("b", 3, 4).unrelated() ==
        "2 unrelated jobs: a (1 process), b (1 process)");
  CHECK(Folder().add("a", 1, 2).add("a", 3, 4).unrelated().empty());
  CHECK(Folder().add("a", 1, 4).add("b", 2, 3).unrelated().empty());
}

TEST_CASE("a Python program is named by its script, not by options", "[unit]") {
  CHECK(program({"python3", "train.py", "--fast"}) == "train.py");
  CHECK(program({"/usr/bin/python3", "-u", "-W", "ignore", "job/train.py"}) == "train.py");
  CHECK(program({"python3", "-m", "torch.distributed.run", "x.py"}) == "torch.distributed.run");
  CHECK(program({"python3", "-c", "print()"}) == "python3");
  CHECK(program({"python3"}) == "python3");
}

}  // namespace gpumemtrace::tools
