// SPDX-License-Identifier: Apache-2.0
// The path of the recorder's trace.
#include "preload/trace_file/output_path.hpp"

#include <unistd.h>

#include <filesystem>
#include <string>

#include "tests/catch.hpp"
#include "tests/support/environment.hpp"

namespace gpumemtrace::output_path_test {

using namespace gpumemtrace::preload;
using gpumemtrace::tests::Environment;

namespace {

std::string expand(const std::string& pattern, const JobFacts& job = {}) {
  Line path;
  expand_output_path(pattern, job, path);
  return std::string(path.text());
}

JobFacts rank_of(std::string_view rank, std::string_view world_size, std::string_view job = {}) {
  JobFacts facts;
  facts.rank = rank;
  facts.world_size = world_size;
  facts.job = job;
  return facts;
}

// The absolute form of a path below the current folder.
std::string here(const std::string& path) {
  return (std::filesystem::current_path() / path).string();
}

std::string own_id() { return std::to_string(getpid()); }

std::string host() { return std::string(host_name()); }

}  // namespace

TEST_CASE("a path is absolute and ends with .gmt", "[unit]") {
  CHECK(expand("/tmp/a.gmt") == "/tmp/a.gmt");
  CHECK(expand("/tmp/a") == "/tmp/a.gmt");
  CHECK(expand("a") == here("a.gmt"));
  CHECK(expand("b/a.gmt.old") == here("b/a.gmt.old.gmt"));
}

TEST_CASE("the fields of a pattern", "[unit]") {
  const Environment variables({{"TASK", "seven/8"}, {"EMPTY", ""}, {"UP", ".."}, {"HERE", "."}});
  const JobFacts job{.rank = "3",
                     .local_rank = "1",
                     .world_size = "4",
                     .job = "9[0]",
                     .attempt = {},
                     .run = {},
                     .restart = {},
                     .array = {},
                     .task = {}};
  CHECK(expand("/t/%p", job) == "/t/" + own_id() + ".gmt");
  CHECK(expand("/t/%e", job) == "/t/unit_tests.gmt");
  CHECK(expand("/t/%h", job) == "/t/" + host() + ".gmt");
  CHECK(expand("/t/%n", job) == "/t/" + host().substr(0, host().find('.')) + ".gmt");
  CHECK(expand("/t/%r", job) == "/t/3.gmt");
  CHECK(expand("/t/100%%", job) == "/t/100%.gmt");
  CHECK(std::stoull(expand("/t/%t", job).substr(3)) > 1'500'000'000);
  // Characters that would leave the folder, or are hard to type, become underscores.
  CHECK(expand("/t/%j", job) == "/t/9_0_.gmt");
  CHECK(expand("/t/%q{TASK}", job) == "/t/seven_8.gmt");
  CHECK(expand("/t/a%q{EMPTY}%q{MISSING}b", job) == "/t/ab.gmt");
  CHECK(expand("/t/%q{UP}/a", job) == "/t/__/a.gmt");
  CHECK(expand("/t/%q{HERE}/a", job) == "/t/_/a.gmt");
  CHECK(expand("/t/%q{HERE}%q{HERE}/a", job) == "/t/__/a.gmt");
}

TEST_CASE("what is no field stays as it is", "[unit]") {
  CHECK(expand("/t/%z") == "/t/%z.gmt");
  CHECK(expand("/t/100%") == "/t/100%.gmt");
  CHECK(expand("/t/%q") == "/t/%q.gmt");
  CHECK(expand("/t/%q{OPEN") == "/t/%q{OPEN.gmt");
}

TEST_CASE("a rank that is not known vanishes with what is written for it", "[unit]") {
  CHECK(expand("/t/a.r%r.gmt") == "/t/a.gmt");
  CHECK(expand("/t/a.%r.gmt") == "/t/a.gmt");
  CHECK(expand("/t/a%r.gmt") == "/t/a.gmt");
  CHECK(expand("/t/a.b.r%r.c.gmt") == "/t/a.b.c.gmt");
  CHECK(expand("/t/a.r%r.gmt", rank_of("0", "1")) == "/t/a.r0.gmt");
}

TEST_CASE("without a name there is one by program, host, rank and process", "[unit]") {
  const std::string end = "." + own_id() + ".gmt";
  const std::string begin = "gpumemtrace-unit_tests." + host();
  CHECK(expand("/t/") == "/t/" + begin + end);
  CHECK(expand("") == here(begin + end));
  // Ranks of one job share a folder.
  const JobFacts job = rank_of("3", "4", "77");
  CHECK(expand("", job) == here("gpumemtrace-77/" + begin + ".r3" + end));
  CHECK(expand("", rank_of("3", "4")) == here("gpumemtrace-job/" + begin + ".r3" + end));
  CHECK(expand("", rank_of("0", "1", "77")) == here(begin + ".r0" + end));
  // If the user names a folder, the path has no folder of the job.
  CHECK(expand("/t/", job) == "/t/" + begin + ".r3" + end);
}

TEST_CASE("the place in a job is what its launcher says", "[unit]") {
  const auto facts_of = [](std::initializer_list<Environment::Variable> variables) {
    const Environment environment(variables);
    const JobFacts facts = read_job_facts();
    const auto text = [](std::string_view part) { return std::string(part) + "|"; };
    return text(facts.rank) + text(facts.local_rank) + text(facts.world_size) + text(facts.job);
  };
  CHECK(facts_of({}) == "||||");
  CHECK(facts_of({{"RANK", "5"},
                  {"LOCAL_RANK", "1"},
                  {"WORLD_SIZE", "8"},
                  {"TORCHELASTIC_RUN_ID", "run"}}) == "5|1|8|run|");
  CHECK(facts_of({{"OMPI_COMM_WORLD_RANK", "2"},
                  {"OMPI_COMM_WORLD_LOCAL_RANK", "0"},
                  {"OMPI_COMM_WORLD_SIZE", "4"},
                  {"PMIX_NAMESPACE", "478412801"}}) == "2|0|4|478412801|");
  CHECK(facts_of({{"PMI_RANK", "2"}, {"MPI_LOCALRANKID", "1"}, {"PMI_SIZE", "4"}}) == "2|1|4||");
  CHECK(facts_of({{"SLURM_PROCID", "6"},
                  {"SLURM_LOCALID", "2"},
                  {"SLURM_NTASKS", "16"},
                  {"SLURM_JOB_ID", "123"}}) == "6|2|16|123|");
  // torchrun within Slurm: torchrun's rank counts.
  CHECK(facts_of({{"RANK", "5"},
                  {"WORLD_SIZE", "8"},
                  {"SLURM_PROCID", "0"},
                  {"SLURM_NTASKS", "1"},
                  {"SLURM_JOB_ID", "123"}}) == "5||8|123|");
  // A rank is ignored if the number of ranks is not known.
  CHECK(facts_of({{"RANK", "5"}, {"LOCAL_RANK", "1"}, {"LSB_JOBID", "3"}}) == "|||3|");
}

TEST_CASE("a run is known by its `gpumemtrace run` and by the scheduler's job and attempt",
          "[unit]") {
  const auto facts_of = [](std::initializer_list<Environment::Variable> variables) {
    const Environment environment(variables);
    const JobFacts facts = read_job_facts();
    std::string text(facts.job);
    for (const auto part : {facts.attempt, facts.run, facts.restart, facts.array, facts.task}) {
      text += "|" + std::string(part);
    }
    return text;
  };
  CHECK(facts_of({}) == "|||||");
  CHECK(facts_of({{"SLURM_JOB_ID", "7"}, {"SLURM_RESTART_COUNT", "1"}}) == "7|1||||");
  CHECK(facts_of({{"TORCHELASTIC_RUN_ID", "a"}, {"TORCHELASTIC_RESTART_COUNT", "2"}}) ==
        "a|2||2||");
  // Processes that torchrun restarts within a job of Slurm are of the same job and attempt.
  CHECK(facts_of({{"SLURM_JOB_ID", "7"},
                  {"TORCHELASTIC_RUN_ID", "a"},
                  {"TORCHELASTIC_RESTART_COUNT", "2"}}) == "7|||2||");
  CHECK(facts_of(
            {{"SLURM_JOB_ID", "71"}, {"SLURM_ARRAY_JOB_ID", "70"}, {"SLURM_ARRAY_TASK_ID", "1"}}) ==
        "71||||70|1");
  CHECK(facts_of({{"GPUMEMTRACE_RUN_ID", "41-99"}}) == "||41-99|||");
}

TEST_CASE("a path that is too long is cut, not written beyond its place", "[unit]") {
  CHECK(expand("/" + std::string(10'000, 'x')).size() == Line::kCapacity);
}

}  // namespace gpumemtrace::output_path_test
