// SPDX-License-Identifier: Apache-2.0
// Groups of ranks, and ranks that differ from the other ranks of their group.
#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

#include "analyzer/base/input_error.hpp"
#include "analyzer/report/group_sizes.hpp"
#include "analyzer/report/sections.hpp"
#include "analyzer/rules/rules.hpp"
#include "tests/catch.hpp"
#include "tests/support/rank_job.hpp"
#include "tests/support/report_query.hpp"

namespace gpumemtrace::rank_groups_test {

using namespace gpumemtrace;
using namespace gpumemtrace::tests;
using analyzer::GroupSizes;
using analyzer::Level;
using analyzer::Rule;
namespace rows = analyzer::rows;

namespace {

constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;

// Rows of a rank that holds parameters and activations, as a report of traces has them.
struct RankRows {
  std::uint64_t parameters = kGiB;
  std::uint64_t activations = kGiB;
  std::vector<std::string> layers{};  // layers that hold the parameters
  std::uint64_t features = 0;         // bytes of category kOther, held at line 9
  rows::CommandLine command{};
};

rows::Holder holder(std::uint64_t bytes, analyzer::Category category, std::uint64_t line) {
  rows::Holder row;
  row.bytes = bytes;
  row.category = category;
  row.origin.site = rows::Site{"step", "train.py", line, {}, rows::Language::kPython, {}, {}, {}};
  return row;
}

void add_rank(std::uint64_t rank, const RankRows& of, rows::Report& report) {
  const std::string number = std::to_string(rank);
  rows::Process process;
  process.id = "p" + number;
  process.rank = rank;
  process.command = of.command;
  report.processes.push_back(process);
  rows::Device device;
  device.id = "d" + number;
  device.seen_as = {{process.id, 0}};
  report.devices.push_back(device);
  rows::Peak peak;
  peak.process = process.id;
  peak.device = device.id;
  peak.level = Level::kFramework;
  peak.bytes = of.parameters + of.activations + of.features;
  peak.categories = {{"parameter", of.parameters}, {"activation", of.activations}};
  peak.holders = {holder(of.parameters, analyzer::Category::kParameter, 1),
                  holder(of.activations, analyzer::Category::kActivation, 2)};
  if (of.features != 0) {
    peak.holders.push_back(holder(of.features, analyzer::Category::kOther, 9));
    peak.holders.back().layers = "Net > Head";
  }
  report.peak.push_back(peak);
  for (const std::string& layer : of.layers) {
    rows::Module module;
    module.process = process.id;
    module.device = device.id;
    module.path = "Net > Block";
    module.name = layer;
    module.bytes = of.parameters / of.layers.size();
    module.categories = {{"parameter", module.bytes}};
    report.modules.push_back(module);
  }
}

rows::Report report_of(const std::vector<RankRows>& ranks) {
  rows::Report report;
  for (std::size_t i = 0; i < ranks.size(); ++i) add_rank(i, ranks[i], report);
  return report;
}

// Fills the sections that are made of the report's other rows.
void compare(rows::Report& report, const std::string& groups = {}) {
  report.groups_given = analyzer::report_groups_given(report, groups);
  report.rank_groups = analyzer::report_rank_groups(report);
  report.ranks = analyzer::report_ranks(report);
  report.findings = analyzer::find_all({report, {}, analyzer::Thresholds()});
}

// The ranks of the groups of one kind and basis, as "0 2 | 1 3".
std::string groups_of(const rows::Report& report, std::string_view kind, std::string_view basis) {
  std::string text;
  for (const rows::RankGroup& group : report.rank_groups) {
    const std::string_view own = group.kind ? name_of(*group.kind) : "";
    if (own != kind || name_of(group.basis) != basis) continue;
    text += text.empty() ? "" : " | ";
    for (std::size_t i = 0; i < group.ranks.size(); ++i) {
      text += (i == 0 ? "" : " ") + std::to_string(group.ranks[i]);
    }
  }
  return text;
}

void add_communicator(rows::Report& report, std::uint64_t rank, std::uint64_t number,
                      std::uint64_t size, const rows::OptionalText& hash) {
  rows::Communicator row;
  row.process = "p" + std::to_string(rank);
  row.id = row.process + ":nccl1";
  row.ranks = size;
  row.rank = number;
  row.nccl_hash = hash;
  report.communicators.push_back(row);
}

Json findings_of_job(const RankJob& job, const std::string& groups = {}) {
  const TemporaryFolder folder;
  write_rank_job(job, folder.path());
  analyzer::Options options;
  options.groups = groups;
  const Json report = analyze_json({folder.path()}, options);
  keep_report(report);
  Json found = Json::array();
  for (const Json& finding : report.at("findings")) {
    if (finding.at("evidence").contains("rank")) found.push_back(finding);
  }
  return found;
}

bool has(const Json& finding, std::string_view text) {
  return finding.at("detail").get<std::string>().find(text) != std::string::npos;
}

}  // namespace

TEST_CASE("sizes of groups are read in the order in which ranks are numbered", "[unit]") {
  const auto sizes =
      analyzer::fit_group_sizes(analyzer::parse_group_sizes("tp=2,dp,pp=4,ep=2"), 32);
  REQUIRE(sizes);
  CHECK(sizes->axes[1].size == 4);
  CHECK(sizes->axes[1].coordinate(13) == 2);
  CHECK(sizes->axes[2].coordinate(13) == 1);
  CHECK(sizes->experts == 2);
  CHECK_FALSE(analyzer::fit_group_sizes(analyzer::parse_group_sizes("tp=3,dp"), 32));
  CHECK_FALSE(analyzer::fit_group_sizes(analyzer::parse_group_sizes("tp=2,pp=4"), 32));
  CHECK_FALSE(analyzer::fit_group_sizes(analyzer::parse_group_sizes("tp=2,dp,ep=3"), 32));
  CHECK_FALSE(analyzer::fit_group_sizes(analyzer::parse_group_sizes("tp=2,dp"), 0));
  // In 64-bit arithmetic the product of the first text's sizes is 0, that of the second's is 4.
  for (const char* text :
       {"tp=4294967296,dp,pp=4294967296", "tp=4294967297,dp=4,pp=18446744069414584321"}) {
    INFO(text);
    CHECK_FALSE(analyzer::fit_group_sizes(analyzer::parse_group_sizes(text), 4));
  }
  for (const char* text :
       {"", "tp", "tp=2,tp=2", "tp=0", "tp=x", "tp,dp", "xp=2", "ep=2", "tp=2,"}) {
    INFO(text);
    if (std::string_view(text) == "tp") {
      CHECK_NOTHROW(analyzer::parse_group_sizes(text));
    } else {
      CHECK_THROWS_AS(analyzer::parse_group_sizes(text), analyzer::InputError);
    }
  }
}

TEST_CASE("Megatron-LM's and torchtitan's options give the sizes of groups", "[unit]") {
  const auto sizes_of = [](const rows::CommandLine& command) {
    return analyzer::group_sizes_of_command(command);
  };
  CHECK(sizes_of({"pretrain.py", "--tensor-model-parallel-size", "2",
                  "--pipeline-model-parallel-size=4"}) == "tp=2,dp,pp=4");
  CHECK(sizes_of({"--expert-model-parallel-size", "8"}) == "tp=1,dp,pp=1,ep=8");
  CHECK(sizes_of({"--expert-model-parallel-size", "8", "--expert-tensor-parallel-size", "1"}) ==
        "tp=1,dp,pp=1");
  CHECK(sizes_of({"--tensor-model-parallel-size", "2", "--use-tp-pp-dp-mapping"}).empty());
  // Sizes that the command line lacks may stand in a configuration file, so one size alone gives
  // no groups.
  CHECK(sizes_of({"--parallelism.tensor_parallel_degree=2"}).empty());
  CHECK(sizes_of({"--parallelism.tensor_parallel_degree=2",
                  "--parallelism.pipeline_parallel_degree", "2"}) == "tp=2,dp,pp=2");
  CHECK(sizes_of({"train.py", "--batch", "32"}).empty());
}

TEST_CASE("given sizes make data, tensor, pipeline and expert groups", "[unit]") {
  rows::Report report = report_of(std::vector<RankRows>(8));
  compare(report, "tp=2,dp=2,pp=2,ep=2");
  CHECK(groups_of(report, "tensor", "given") == "0 1 | 2 3 | 4 5 | 6 7");
  CHECK(groups_of(report, "data", "given") == "0 2 | 1 3 | 4 6 | 5 7");
  CHECK(groups_of(report, "pipeline", "given") == "0 4 | 1 5 | 2 6 | 3 7");
  CHECK(groups_of(report, "expert", "given") == "0 2 | 1 3 | 4 6 | 5 7");
  CHECK_THROWS_AS(compare(report, "tp=3,dp"), analyzer::InputError);
}

TEST_CASE("a command line that does not fit the job gives no groups", "[unit]") {
  const rows::CommandLine command{"--tensor-model-parallel-size", "4"};
  rows::Report fits = report_of(std::vector<RankRows>(8, {.command = command}));
  compare(fits);
  CHECK(fits.groups_given == "tp=4,dp,pp=1");
  CHECK(groups_of(fits, "data", "given") == "0 4 | 1 5 | 2 6 | 3 7");
  rows::Report other = report_of(std::vector<RankRows>(6, {.command = command}));
  compare(other);
  CHECK_FALSE(other.groups_given);
  CHECK(groups_of(other, "", "inferred") == "0 1 2 3 4 5");
}

TEST_CASE("sizes in a command line whose product does not fit in 64 bits give no groups",
          "[unit]") {
  const rows::CommandLine command{"--tensor-model-parallel-size=4294967296",
                                  "--pipeline-model-parallel-size=4294967296"};
  rows::Report report = report_of(std::vector<RankRows>(4, {.command = command}));
  compare(report);
  CHECK_FALSE(report.groups_given);
}

TEST_CASE("communicators are joined by NCCL's hash, or if they have all ranks", "[unit]") {
  rows::Report report = report_of(std::vector<RankRows>(4));
  for (std::uint64_t rank = 0; rank < 4; ++rank) {
    add_communicator(report, rank, rank, 4, {});  // the communicator of all ranks
    add_communicator(report, rank, rank % 2, 2, std::to_string(rank / 2));
    // communicators of two ranks without a hash: it is not known which of them are the same one
    add_communicator(report, rank, rank / 2, 2, {});
    add_communicator(report, rank, 0, 3, "the same rank of it, four times");
  }
  compare(report);
  CHECK(groups_of(report, "", "communicator") == "0 1 | 0 1 2 3 | 2 3");
}

TEST_CASE("what communicates and has no layer in common is a pipeline", "[unit]") {
  rows::Report report = report_of({{.layers = {"blocks.0"}}, {.layers = {"blocks.1"}}});
  for (std::uint64_t rank : {0u, 1u}) add_communicator(report, rank, rank, 2, {});
  compare(report);
  CHECK(groups_of(report, "pipeline", "communicator") == "0 1");
  CHECK(report.ranks[0].peer_group == std::nullopt);
}

TEST_CASE("replicas are a data group unless they also communicate with others", "[unit]") {
  const auto replicas = [](bool has_tensor_groups) {
    rows::Report report = report_of(std::vector<RankRows>(4));
    for (rows::Peak& peak : report.peak) peak.categories->emplace_back("gathered", 1);
    for (std::uint64_t rank = 0; rank < 4; ++rank) {
      add_communicator(report, rank, rank, 4, {});
      if (!has_tensor_groups) continue;
      add_communicator(report, rank, rank % 2, 2, std::to_string(rank / 2));
    }
    compare(report);
    return report;
  };
  CHECK(groups_of(replicas(false), "data", "communicator") == "0 1 2 3");
  CHECK(groups_of(replicas(false), "data", "inferred") == "0 1 2 3");
  CHECK(groups_of(replicas(true), "data", "communicator").empty());
  CHECK(groups_of(replicas(true), "", "inferred") == "0 1 2 3");
}

TEST_CASE("a rank is compared with those that have its part of the model", "[unit]") {
  // Two pipeline stages of four ranks; the first stage has more activations. In the second report
  // rank 5 also holds features.
  std::vector<RankRows> ranks(8, {.layers = {"blocks.1"}});
  for (std::size_t i = 0; i < 4; ++i) ranks[i] = {.activations = 5 * kGiB, .layers = {"blocks.0"}};
  rows::Report clean = report_of(ranks);
  compare(clean);
  CHECK(clean.findings.empty());

  ranks[5].features = kGiB;
  rows::Report report = report_of(ranks);
  compare(report);
  REQUIRE(report.findings.size() == 1);
  const rows::Finding& finding = report.findings[0];
  CHECK(finding.process == "p5");
  CHECK(finding.bytes == kGiB);
  CHECK(finding.title == "Rank 5 peaked at 3.0 GiB, 1.0 GiB more than the others of its group");
  CHECK(finding.detail.starts_with(
      "The other ranks (4, 6, 7) have a median of 2.0 GiB. It holds 1.0 GiB more at train.py:9 "
      "(step) in Net > Head (other)."));
  CHECK(*finding.evidence.find<std::string>("module") == "Net > Head");
  for (const rows::Rank& row : report.ranks) {
    if (row.rank == 5) CHECK(row.peer_deviation == static_cast<std::int64_t>(kGiB));
  }
}

TEST_CASE("one rank with another model besides is compared with the rest", "[unit]") {
  std::vector<RankRows> ranks(4, {.layers = {"blocks.0"}});
  ranks[0] = {.parameters = 3 * kGiB, .layers = {"blocks.0", "teacher.0"}};
  rows::Report report = report_of(ranks);
  compare(report);
  REQUIRE(report.findings.size() == 1);
  CHECK(report.findings[0].process == "p0");
}

TEST_CASE("ranks that fall into bands have no outlier", "[unit]") {
  std::vector<RankRows> ranks(8);
  for (std::size_t i = 0; i < 8; ++i) ranks[i].activations = (i / 2 + 1) * kGiB;
  rows::Report bands = report_of(ranks);
  compare(bands);
  CHECK(bands.findings.empty());
}

TEST_CASE("one of a thousand ranks is found", "[unit]") {
  std::vector<RankRows> ranks(1000);
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const std::size_t stage = i / 125;
    ranks[i].parameters = kGiB + (stage == 0 ? kGiB : 0) + (stage == 7 ? 2 * kGiB : 0);
    ranks[i].activations = (8 - stage) * kGiB + i * 1024;
  }
  ranks[517].features = kGiB;
  rows::Report report = report_of(ranks);
  compare(report, "tp=5,dp,pp=8");
  REQUIRE(report.findings.size() == 1);
  CHECK(report.findings[0].process == "p517");
  CHECK(report.rank_groups.size() == 200 + 40 + 125);
}

TEST_CASE("a heavy first and last stage and uneven experts are no fault", "[unit]") {
  RankJob job;
  job.experts = 2;
  job.steps = 3;
  CHECK(findings_of_job(job).dump(1) == "[]");
  job.names_layers = true;
  CHECK(findings_of_job(job).dump(1) == "[]");
  job.says_sizes = true;
  CHECK(findings_of_job(job).dump(1) == "[]");
}

TEST_CASE("a fault of one rank is named with its line and category in each kind of group",
          "[unit]") {
  const auto finding_of = [](RankFault fault, std::uint64_t rank) {
    RankJob job;
    job.ranks = 24;  // three replicas of each expert
    job.pipeline = 2;
    job.experts = 2;
    job.says_sizes = true;
    job.steps = 4;
    job.fault = fault;
    job.faulty_rank = rank;
    const Json found = findings_of_job(job);
    REQUIRE(found.size() == 1);
    CHECK(found[0].at("evidence").at("rank") == rank);
    return found[0];
  };
  const Json data = finding_of(RankFault::kFeatures, 14);
  CHECK(has(data, "(Block.keep) in Model (other)"));
  const Json tensor = finding_of(RankFault::kLogits, 21);
  CHECK(has(tensor, "(Head.forward) in Model > Head (activation)"));
  const Json pipeline = finding_of(RankFault::kLogits, 1);
  CHECK(has(pipeline, "(Head.forward) in Model > Head (activation)"));
  const Json expert = finding_of(RankFault::kExperts, 7);
  CHECK(has(expert, "(Experts.forward) in Model > Experts (activation)"));
  CHECK(has(expert, "The other ranks (2, 3, 6, 10, 11) have"));
}

TEST_CASE("the growth of the rank that fills its device first says so", "[unit]") {
  RankJob job;
  job.pipeline = 1;
  job.tensor = 1;
  job.ranks = 4;
  job.steps = 60;
  job.fault = RankFault::kFeatures;
  job.faulty_rank = 2;
  const TemporaryFolder folder;
  write_rank_job(job, folder.path());
  const Json report = analyze_json({folder.path()});
  keep_report(report);
  const Json growth = row_where(report.at("findings"), {{"rule", "growth"}});
  REQUIRE_FALSE(growth.is_null());
  CHECK(growth.at("evidence").at("first_rank_to_fill") == 2);
  const std::uint64_t steps = growth.at("evidence").at("steps_until_full").get<std::uint64_t>();
  CHECK(has(growth, "Rank 2 is the first to run out of memory: in " + std::to_string(steps)));
  const Json row = row_where(report.at("ranks"), {{"rank", 2}});
  CHECK(row.at("steps_until_full").get<double>() > 300);
  CHECK(row.at("steps_until_full").get<double>() < 500);
}

TEST_CASE("a rank that was killed while the others went on ended early", "[unit]") {
  RankJob job;
  job.ranks = 4;
  job.pipeline = 1;
  job.tensor = 1;
  CHECK(findings_of_job(job).empty());
  job.fault = RankFault::kEndsEarly;
  job.faulty_rank = 3;
  const Json found = findings_of_job(job);
  REQUIRE(found.size() == 1);
  CHECK(found[0].at("rule") == "rank_ended_early");
  CHECK(found[0].at("evidence").at("rank") == 3);
  CHECK(found[0].at("title").get<std::string>().find("after 4 of 8 steps") != std::string::npos);
}

}  // namespace gpumemtrace::rank_groups_test
