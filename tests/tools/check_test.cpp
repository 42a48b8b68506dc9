// SPDX-License-Identifier: Apache-2.0
// The parts of `check`: patterns, policies, baselines and the verdict.
#include <fstream>

#include "tests/catch.hpp"
#include "tests/support/error_text.hpp"
#include "tests/support/report_json.hpp"
#include "tests/support/source_file.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tools/check/verdict_output.hpp"

namespace gpumemtrace::tools::check_test {
namespace {

namespace rows = analyzer::rows;

// The published example without its findings.
rows::Report example_report() {
  std::ifstream file(tests::source_file("docs/report.example.json"));
  rows::Report report = tests::report_of_json(Json::parse(file));
  report.findings.clear();
  return report;
}

// The example with one leak at a Python line.
rows::Report leaking_report() {
  rows::Report report = example_report();
  rows::Frame step;
  step.function = "step";
  step.file = "/home/me/train.py";
  step.line = 12;
  step.language = rows::Language::kPython;
  rows::Frame outer = step;
  outer.function = "outer";
  outer.file = "/home/me/main.py";
  outer.line = 3;
  report.stacks = {{"p1:1", {}, {{}, {step, outer}}, std::nullopt}};
  rows::Finding& finding = report.findings.emplace_back();
  finding.rule = analyzer::Rule::kLeak;
  finding.severity = analyzer::Severity::kError;
  finding.title = "lost <memory> & \"more\"";
  finding.detail = "3 blocks";
  finding.fix = "Free them.";
  finding.bytes = 1000;
  finding.process = "p1";
  rows::Site site;
  site.function = step.function;
  site.file = step.file;
  site.line = step.line;
  finding.origin = {"program", site, "p1:1"};
  finding.fingerprint = "00ff";
  return report;
}

Policy policy_of(std::string_view text) {
  Policy policy;
  apply_policy_text(text, "policy", policy);
  return policy;
}

Verdict judge(const rows::Report& report, std::string_view policy,
              std::string_view suppressions = {}) {
  Suppressions rows;
  rows.add_text(suppressions, "file");
  return judge(report, policy_of(policy), std::move(rows), nullptr);
}

}  // namespace

TEST_CASE("patterns match as LeakSanitizer's do", "[unit]") {
  CHECK(matches_pattern("foo", "a foo b"));
  CHECK_FALSE(matches_pattern("^foo", "a foo b"));
  CHECK(matches_pattern("^a foo", "a foo b"));
  CHECK_FALSE(matches_pattern("foo$", "a foo b"));
  CHECK(matches_pattern("b$", "a foo b"));
  CHECK(matches_pattern("^a*b$", "a foo b"));
  CHECK(matches_pattern("a*o*b", "a foo b"));
  CHECK_FALSE(matches_pattern("b*a", "a foo b"));
  CHECK(matches_pattern("^ab$", "ab"));
  CHECK_FALSE(matches_pattern("^ab$", "aab"));
  CHECK_FALSE(matches_pattern("^a*ab$", "ab"));
}

TEST_CASE("without a policy an exact error fails and a warning does not", "[unit]") {
  rows::Report report = leaking_report();
  const Verdict failed = judge(report, "");
  CHECK(failed.outcome == Outcome::kViolated);
  CHECK(to_int(describe(failed.outcome).exit_code) == 23);
  REQUIRE(failed.findings.size() == 1);
  CHECK(failed.findings[0].status == FindingStatus::kFails);

  report.findings[0].severity = analyzer::Severity::kWarning;
  CHECK(judge(report, "").outcome == Outcome::kPassed);
  report.findings[0].severity = analyzer::Severity::kError;
  report.findings[0].confidence = analyzer::FindingConfidence::kInferred;
  CHECK(judge(report, "").outcome == Outcome::kPassed);
}

TEST_CASE("a policy replaces the default one", "[unit]") {
  const rows::Report report = leaking_report();
  CHECK(judge(report, "max-peak = 1TiB").outcome == Outcome::kPassed);
  CHECK(judge(report, "max-leak = 1000").outcome == Outcome::kPassed);
  CHECK(judge(report, "max-leak = 999").outcome == Outcome::kViolated);
  CHECK(judge(report, "fail-on = leak").outcome == Outcome::kViolated);
  CHECK(judge(report, "fail-on = any:warning").outcome == Outcome::kViolated);
  CHECK(judge(report, "fail-on = growth").outcome == Outcome::kPassed);
}

TEST_CASE("limits are held against the level and the device that they name", "[unit]") {
  const rows::Report report = example_report();  // driver peak 73,098,330,112 bytes on d0
  CHECK(judge(report, "max-peak = 73098330112,level=physical").outcome == Outcome::kPassed);
  CHECK(judge(report, "max-peak = 73098330111,level=physical").outcome == Outcome::kViolated);
  CHECK(judge(report, "max-peak = 73098330111,level=driver,gpu=0").outcome == Outcome::kViolated);
  CHECK(judge(report, "max-peak = 1,level=driver,gpu=1").outcome == Outcome::kNothingMatched);
  CHECK(judge(report, "max-peak = 1TiB,level=managed").outcome == Outcome::kNothingMatched);
  CHECK(judge(report, "max-peak = 1,level=host").outcome == Outcome::kViolated);
  CHECK(judge(report, "max-transfer = 1GiB").outcome == Outcome::kViolated);
  CHECK(judge(report, "max-transfer = 20GiB").outcome == Outcome::kPassed);
  CHECK(judge(report, "max-stranded = 1%").outcome == Outcome::kViolated);
  CHECK(judge(report, "max-stranded = 99%").outcome == Outcome::kPassed);
}

TEST_CASE("the peak of the job holds, fails or is not certain", "[unit]") {
  rows::Report report = example_report();  // the job's peak: 73,641,492,480 to 73,643,589,632 bytes
  const auto check_of = [&](std::string_view policy) { return judge(report, policy).checks.at(0); };
  const PolicyCheck holds = check_of("max-peak = 73643589632");
  CHECK(holds.holds);
  CHECK(holds.subject == "job on d0");
  CHECK(holds.holders.empty());
  const PolicyCheck fails = check_of("max-peak = 73641492479");
  CHECK_FALSE(fails.holds);
  CHECK(fails.message.starts_with("at least 68.6 GiB at the peak, "));
  const PolicyCheck unsure = check_of("max-peak = 73642000000");
  CHECK_FALSE(unsure.holds);
  CHECK(unsure.message.starts_with(
      "not certain: 73,641,492,480 to 73,643,589,632 bytes at the peak, "));
  // Other processes hold 6 GiB of the card.
  CHECK(check_of("max-peak = 80096526336,scope=card").holds);
  CHECK_FALSE(check_of("max-peak = 79GB,scope=card").holds);
  CHECK(check_of("max-peak = 75GB,scope=job").holds);
  CHECK(judge(report, "max-peak = 1,gpu=1").outcome == Outcome::kNothingMatched);

  // A report of a version before card_peaks has no such rows.
  report.card_peaks.clear();
  const PolicyCheck old = check_of("max-peak = 73098330112");
  CHECK(old.holds);
  CHECK(tests::contains(old.message, "this report has no peak of the job"));
  CHECK_FALSE(check_of("max-peak = 73098330111").holds);
  CHECK(judge(report, "max-peak = 1,scope=card").outcome == Outcome::kNothingMatched);
}

TEST_CASE("a peak that fails names who held most of it", "[unit]") {
  const rows::Report report = example_report();
  const Verdict verdict = judge(report, "max-peak = 1\nmax-peak = 1,level=host");
  const std::vector<HeldBytes>& holders = verdict.checks.at(0).holders;
  REQUIRE(holders.size() == 5);
  CHECK(holders[0].name == "pytorch at project/model.py:41 in Block.forward");
  CHECK(holders[0].bytes == 51539607552);
  CHECK(tests::contains(verdict_text(verdict, {}),
                        "    48.0 GiB  pytorch at project/model.py:41 in Block.forward\n"));
  CHECK(tests::contains(verdict_junit(verdict), "pytorch at project/model.py:41"));
  CHECK(tests::contains(verdict_github(verdict, "/home/me"),
                        "::error file=project/model.py,line=41,title=gpumemtrace max-peak"));
  const Json json = Json::parse(verdict_json(verdict));
  const Json& first = json.at("checks").at(0);
  CHECK(first.at("holders").size() == 5);
  CHECK(first.at("low_bytes") == 73641492480);
  CHECK(first.at("high_bytes") == 73643589632);
  CHECK(first.at("allowed_bytes") == 1);
  CHECK(verdict.checks.at(1).holders.at(0).name == "pytorch");
}

TEST_CASE("a line holds no more of a peak than its part of it", "[unit]") {
  rows::Report report = example_report();
  rows::CardPart& blocks = report.card_peaks.at(1).parts.at(0);
  REQUIRE(blocks.what == rows::CardPartKind::kFrameworkAllocated);
  blocks.bytes = 1000;  // the blocks' bytes at the card's peak, before PyTorch's own peak
  const Verdict verdict = judge(report, "max-peak = 1");
  for (const HeldBytes& holder : verdict.checks.at(0).holders) {
    INFO(holder.name);
    if (holder.name.starts_with("pytorch at")) CHECK(holder.bytes <= 1000);
  }
}

TEST_CASE("a peak that grew names the lines that grew, and the limit", "[unit]") {
  const tests::TemporaryFolder folder;
  rows::Report report = example_report();
  Baseline written;
  written.put(baseline_of(report));
  const auto path = folder.path() / "baseline.json";
  std::ofstream(path) << written.text();
  const Baseline baseline = Baseline::read(path);
  rows::CardPeak& job = report.card_peaks.at(1);
  job.low_bytes += 10'000'000'000;
  job.high_bytes += 10'000'000'000;
  rows::Holder& grown = report.peak.at(1).holders.at(2);  // held at train.py:30
  grown.bytes += 10'000'000'000;
  grown.origin.site->line = 31;  // the code above this line changed
  const auto check_of = [&](const Baseline& base) {
    const Verdict verdict = judge(report, policy_of("max-regression = 0%"), Suppressions(), &base);
    for (const PolicyCheck& check : verdict.checks) {
      if (check.subject == "job peak" || check.subject == "physical peak") return check;
    }
    return PolicyCheck();
  };
  const PolicyCheck check = check_of(baseline);
  CHECK_FALSE(check.holds);
  CHECK(tests::contains(check.message, "68.6 GiB in the baseline, 68.6 GiB allowed"));
  CHECK(check.holders_title == "Grew most:");
  REQUIRE(check.holders.size() == 1);
  CHECK(tests::contains(check.holders[0].name, "train.py:31 in train"));
  CHECK(check.holders[0].base_bytes == 4294967296);

  // A wide range of the peak, for want of samples, must not hide that calls asked for more.
  report.card_peaks.at(1).low_bytes = 0;
  report.card_peaks.at(1).high_bytes = baseline.find(report)->peak_bytes.at("job");
  report.devices.at(0).physical_peak->bytes *= 2;
  CHECK(judge(report, Policy{}, Suppressions(), &baseline).outcome == Outcome::kViolated);
  report.devices.at(0).physical_peak->bytes /= 2;
  report.card_peaks.at(1).high_bytes += 10'000'000'000;

  // A baseline of an older version has the physical peak instead of the job's: that peak is
  // compared, and the verdict says so.
  BaselineEntry entry = baseline_of(report);
  entry.peak_bytes.erase("job");
  entry.peak_bytes["physical"] = 1;
  entry.holders.clear();
  Baseline old;
  old.put(entry);
  const PolicyCheck compared = check_of(old);
  CHECK_FALSE(compared.holds);
  CHECK(compared.subject == "physical peak");
  CHECK(tests::contains(compared.message, "as an older version wrote the baseline"));
  CHECK(tests::contains(compared.holders_title, "the baseline has no lines"));
}

TEST_CASE("copies that a limit or a baseline does not allow name the lines that copy", "[unit]") {
  const tests::TemporaryFolder folder;
  rows::Report report = example_report();
  rows::CopySite copies;
  copies.direction = analyzer::Direction::kHostToDevice;
  copies.bytes = 1000;
  copies.origin = {"program", rows::Site(), std::nullopt};
  copies.origin.site->file = "/home/me/train.py";
  copies.origin.site->line = 12;
  rows::CopySite on_device = copies;
  on_device.direction = analyzer::Direction::kDeviceToDevice;
  on_device.origin.site->line = 13;
  rows::CopySite others;  // the remaining copies, which have no line
  others.bytes = 1'000'000;
  report.transfers.sites = {copies, on_device, others};
  const PolicyCheck limit = judge(report, "max-transfer = 1").checks.at(0);
  CHECK(limit.holders_title == "Copied most:");
  REQUIRE(limit.holders.size() == 1);
  CHECK(limit.holders[0].name == "program at me/train.py:12");

  Baseline written;
  written.put(baseline_of(report));
  const auto path = folder.path() / "baseline.json";
  std::ofstream(path) << written.text();
  report.transfers.by_kind.at(0).bytes += 2'000'000'000'000;
  report.transfers.sites.at(0).bytes += 2'000'000'000'000;
  const auto check_of = [&](const Baseline& base) {
    const Verdict verdict = judge(report, Policy{}, Suppressions(), &base);
    const auto found =
        std::ranges::find(verdict.checks, std::string("transfers"), &PolicyCheck::subject);
    return found == verdict.checks.end() ? PolicyCheck() : *found;
  };
  const PolicyCheck grew = check_of(Baseline::read(path));
  CHECK_FALSE(grew.holds);
  CHECK(tests::contains(grew.message, " allowed"));
  CHECK(grew.holders_title == "Grew most:");
  REQUIRE(grew.holders.size() == 1);
  CHECK(grew.holders[0].base_bytes == 1000);

  BaselineEntry entry = baseline_of(example_report());
  entry.holders.clear();
  Baseline old;
  old.put(entry);
  CHECK(check_of(old).holders_title.starts_with("Copied most (the baseline has no lines"));
}

TEST_CASE("a baseline of another driver compares all but what the driver takes", "[unit]") {
  rows::Report report = leaking_report();
  report.findings[0].rule = analyzer::Rule::kIdleContexts;
  Baseline baseline;
  baseline.put(baseline_of(report));
  report.processes[0].cuda.driver_version = 12040;
  report.card_peaks.at(1).low_bytes *= 2;  // the contexts grew
  report.card_peaks.at(1).high_bytes *= 2;
  *report.findings[0].bytes *= 1'000'000;
  const auto verdict_of = [&] { return judge(report, Policy{}, Suppressions(), &baseline); };
  const Verdict verdict = verdict_of();
  CHECK(verdict.outcome == Outcome::kPassed);
  CHECK(tests::contains(verdict.checks.at(0).message, "another driver"));
  CHECK_FALSE(verdict.base_peak_bytes);
  const auto subjects = [&] {
    std::vector<std::string> names;
    for (const PolicyCheck& check : verdict.checks) names.push_back(check.subject);
    return names;
  }();
  CHECK(std::ranges::count(subjects, "job peak") == 0);
  CHECK(std::ranges::count(subjects, "physical peak") == 1);

  report.peak[2].bytes *= 2;  // the peak of PyTorch
  CHECK(verdict_of().outcome == Outcome::kViolated);
  // An entry for the present driver is preferred to one for another driver.
  baseline.put(baseline_of(report));
  CHECK(verdict_of().outcome == Outcome::kPassed);
  CHECK(verdict_of().base_peak_bytes == report.card_peaks.at(1).high_bytes);
}

TEST_CASE("GitHub's step summary has both peaks, the change and the page", "[unit]") {
  rows::Report report = example_report();
  Baseline baseline;
  baseline.put(baseline_of(report));
  report.card_peaks.at(1).high_bytes += 10 << 20;
  Verdict verdict = judge(report, Policy{}, Suppressions(), &baseline);
  verdict.page_url = "https://ci.example/page.html";
  verdict.notes = {"left out a.gmt: an earlier run"};
  CHECK(tests::contains(verdict_junit(verdict), "<system-out>left out a.gmt: an earlier run<"));
  const std::string text = verdict_markdown(verdict);
  CHECK(tests::contains(text,
                        "Peak of the job on d0: **68.6 GiB** of 79.6 GiB, 10.0 MiB more than the "
                        "baseline's 68.6 GiB. Peak of the card, with all other processes: "
                        "**74.6 GiB** of 79.6 GiB.\n"));
  CHECK(tests::contains(text, "\nNote: left out a.gmt: an earlier run\n"));
  CHECK(tests::contains(text, "\n[The page of this run](<https://ci.example/page.html>)\n"));
}

TEST_CASE("what accepts a verdict names the baseline that was given", "[unit]") {
  const rows::Report report = leaking_report();
  Verdict verdict = judge(report, "");
  const std::vector<std::filesystem::path> inputs = {"my traces"};
  CHECK(tests::contains(
      verdict_text(verdict, inputs),
      "gpumemtrace check 'my traces' --baseline gpumemtrace-baseline.json --write-baseline\nand "
      "give --baseline gpumemtrace-baseline.json from then on."));
  verdict.baseline = "ci/base.json";
  const std::string text = verdict_text(verdict, inputs);
  CHECK(tests::contains(
      text, "gpumemtrace check 'my traces' --baseline ci/base.json --write-baseline\n"));
  CHECK_FALSE(tests::contains(text, "from then on"));
}

TEST_CASE("no suppression is proposed that hides a whole program", "[unit]") {
  rows::Report report = leaking_report();
  rows::Origin& origin = report.findings[0].origin;
  origin.site = rows::Site();
  origin.site->module = "train";
  CHECK(suppression_for(report.findings[0]).empty());
  CHECK_FALSE(tests::contains(verdict_text(judge(report, ""), {}), "Suppress"));
  origin.site->file = "/home/me/train.py";
  CHECK(suppression_for(report.findings[0]).empty());
  origin.site->line = 12;
  CHECK(suppression_for(report.findings[0]) == "leak:/me/train.py:12$");
  origin = {"cublas", std::nullopt, std::nullopt};
  CHECK(suppression_for(report.findings[0]).empty());
}

TEST_CASE("suppressions are held against every frame of the stack", "[unit]") {
  const rows::Report report = leaking_report();
  for (const char* text :
       {"leak:^step$", "leak:train.py:12", "leak:/home/*/main.py", "leak:outer"}) {
    INFO(text);
    const Verdict verdict = judge(report, "", text);
    CHECK(verdict.outcome == Outcome::kPassed);
    CHECK(verdict.findings[0].status == FindingStatus::kSuppressed);
    CHECK(verdict.suppressions.back().count == 1);
    CHECK(verdict.suppressions.back().bytes == 1000);
  }
  for (const char* text : {"leak:^tep", "growth:step", "transfer:step"}) {
    INFO(text);
    const Verdict verdict = judge(report, "", text);
    CHECK(verdict.outcome == Outcome::kViolated);
    CHECK(verdict_text(verdict, {}).letters().find("suppressions that hid nothing") !=
          std::string::npos);
  }
  const auto refusal_of = [&](const char* text) {
    return tests::error_of<Failure>([&] { return judge(report, "", text); });
  };
  CHECK(tests::contains(refusal_of("step"), "'step' is no suppression"));
  CHECK(tests::contains(refusal_of("leaks:step"), "'leaks:step' is no suppression"));
}

TEST_CASE("the suppression that the verdict proposes hides the finding", "[unit]") {
  const rows::Report report = leaking_report();
  const std::string proposal = suppression_for(report.findings[0]);
  CHECK(proposal == "leak:^step$");
  CHECK(judge(report, "", proposal).outcome == Outcome::kPassed);
}

TEST_CASE("a leak and its growth are judged apart and told once", "[unit]") {
  rows::Report report = leaking_report();
  rows::Finding growth = report.findings[0];
  growth.rule = analyzer::Rule::kGrowth;
  growth.severity = analyzer::Severity::kWarning;
  growth.title = "it grew";
  growth.fingerprint = "11ff";
  growth.same_cause = report.findings[0].fingerprint;
  report.findings.push_back(growth);
  const auto count = [](const std::string& text, std::string_view part) {
    std::size_t times = 0;
    for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
      ++times;
    }
    return times;
  };
  // The finding that the terminal and GitHub show first: the one that fails a limit, else the leak.
  const auto check_told = [&](std::string_view policy, std::string_view rule) {
    INFO(policy);
    const Verdict verdict = judge(report, policy);
    const std::string text = verdict_text(verdict, {});
    CHECK(count(text, "\n  leak: ") == (rule == "leak" ? 1 : 0));
    CHECK(count(text, "\n  growth: ") == (rule == "growth" ? 1 : 0));
    CHECK(count(text, "    The same counts as growth, too.\n") == (rule == "leak" ? 1 : 0));
    CHECK(count(text, "    The fault behind it is the leak: ") == (rule == "growth" ? 1 : 0));
    CHECK(count(text, "Suppress: leak:^step$") == 1);
    CHECK(count(text, "Suppress: growth:^step$") == 1);
    CHECK(count(verdict_github(verdict, "/"), "title=it grew::") == (rule == "growth" ? 1 : 0));
    CHECK(count(verdict_markdown(verdict), "| it grew |") == (rule == "growth" ? 1 : 0));
    CHECK(Json::parse(verdict_json(verdict)).at("findings").size() == 2);
  };
  check_told("", "leak");
  check_told("max-leak = 0", "leak");
  check_told("max-leak = 0\nmax-growth = 0", "leak");
  check_told("max-growth = 0", "growth");
  check_told("max-peak = 1TiB", "leak");

  // Each limit holds by itself, and hiding the leak hides nothing else.
  CHECK(judge(report, "max-growth = 0").outcome == Outcome::kViolated);
  CHECK(judge(report, "max-leak = 0").outcome == Outcome::kViolated);
  CHECK(judge(report, "max-growth = 1000").outcome == Outcome::kPassed);
  CHECK(judge(report, "fail-on = growth").outcome == Outcome::kViolated);
  const Verdict hidden = judge(report, "max-growth = 0", "leak:^step$");
  CHECK(hidden.outcome == Outcome::kViolated);
  CHECK(count(verdict_text(hidden, {}), "\n  growth: ") == 1);
  CHECK(count(verdict_text(hidden, {}), "The fault behind it") == 0);
  const BaselineEntry known = baseline_of(report);
  CHECK(known.findings.size() == 2);
}

TEST_CASE("a gate that saw nothing fails", "[unit]") {
  rows::Report report = example_report();
  report.traces[0].events = 0;
  CHECK(to_int(describe(judge(report, "").outcome).exit_code) == 1);
  CHECK(judge(report, "allow-empty = true").outcome == Outcome::kPassed);
  CHECK(to_int(describe(judge_nothing(policy_of("")).outcome).exit_code) == 1);
  CHECK(judge_nothing(policy_of("allow-empty = true")).outcome == Outcome::kPassed);
}

TEST_CASE("an incomplete trace fails, and so do leaks that could not be checked", "[unit]") {
  rows::Report report = example_report();
  report.traces[0].complete = false;
  CHECK(to_int(describe(judge(report, "").outcome).exit_code) == 24);
  CHECK(judge(report, "allow-incomplete = true").outcome == Outcome::kPassed);
  report.traces[0].complete = true;
  report.leaks.state = rows::LeakState::kNotApplicable;
  CHECK(judge(report, "").outcome == Outcome::kIncomplete);
  CHECK(judge(report, "max-peak = 1TiB").outcome == Outcome::kPassed);
}

TEST_CASE("a trace with a checkpoint is complete, and the verdict says what is left of it",
          "[unit]") {
  rows::Report report = example_report();
  report.coverage.partial_rules = {{"p1", 12'300'000'000, {"growth"}}};
  const Verdict verdict = judge(report, "max-peak = 1TiB");
  CHECK(verdict.outcome == Outcome::kPassed);
  CHECK(verdict_text(verdict, {}).letters().find("of the time before 12.30 s only sums are left") !=
        std::string::npos);
}

TEST_CASE("a baseline accepts what it has and refuses what is new or larger", "[unit]") {
  rows::Report report = leaking_report();
  Baseline baseline;
  baseline.put(baseline_of(report));
  const Policy policy = policy_of("max-regression = 5%,100");
  const auto outcome = [&] { return judge(report, policy, Suppressions(), &baseline).outcome; };
  CHECK(outcome() == Outcome::kPassed);
  report.findings[0].bytes = 1101;
  CHECK(outcome() == Outcome::kViolated);
  report.findings[0].bytes = 1000;
  report.findings[0].fingerprint = "0100";
  CHECK(outcome() == Outcome::kViolated);
  report.findings[0].fingerprint = "00ff";
  report.peak[2].bytes = 536870912 * 2;
  CHECK(outcome() == Outcome::kViolated);
}

TEST_CASE("a regression may be as large as the larger of share and bytes", "[unit]") {
  CHECK(RegressionLimit{0.5, 100}.allowed_bytes(1000) == 1500);
  CHECK(RegressionLimit{0.5, 700}.allowed_bytes(1000) == 1700);
  CHECK(RegressionLimit{10, 0}.allowed_bytes(1'000'000'000'000'000'000) ==
        11'000'000'000'000'000'000U);
  CHECK(RegressionLimit{1e30, 0}.allowed_bytes(1000) == ~std::uint64_t{0});
}

TEST_CASE("a baseline of another environment cannot be compared", "[unit]") {
  rows::Report report = leaking_report();
  Baseline baseline;
  baseline.put(baseline_of(report));
  report.devices[0].name = "NVIDIA A100";
  const Verdict verdict = judge(report, Policy{}, Suppressions(), &baseline);
  CHECK(verdict.outcome == Outcome::kNotComparable);
  CHECK(to_int(describe(verdict.outcome).exit_code) == 1);
}

TEST_CASE("a baseline is read as it was written, and written twice alike", "[unit]") {
  const tests::TemporaryFolder folder;
  Baseline baseline;
  rows::Report report = leaking_report();
  baseline.put(baseline_of(report));
  report.devices[0].name = "NVIDIA A100";
  baseline.put(baseline_of(report));
  const auto path = folder.path() / "baseline.json";
  std::ofstream(path) << baseline.text();
  const Baseline again = Baseline::read(path);
  CHECK(again.text() == baseline.text());
  CHECK(again.find(leaking_report()) != nullptr);
}

TEST_CASE("a policy that makes no sense is refused with its line", "[unit]") {
  const std::pair<std::string, const char*> cases[] = {
      {"max-leak = lots", "max-leak: 'lots' is no size"},
      {"max-peak = 1GiB,level=gpu", "max-peak: there is no level 'gpu'"},
      {"max-peak = 1GiB,foo",
       "max-peak: 'foo' is neither scope=job, scope=card, level=LEVEL nor gpu=NUMBER"},
      {"fail-on = bugs", "fail-on: there is no rule 'bugs'"},
      {"fail-on = leak:bad", "fail-on: 'bad' is no severity"},
      {"max-stranded = 300%", "max-stranded: '300%' is no share"},
      {"frobnicate = 1", "'frobnicate = 1' is no setting"},
      {"max-leak", "'max-leak' is no setting"},
      {"allow-empty = perhaps", "allow-empty: 'perhaps' is neither true nor false"}};
  for (const auto& [text, reason] : cases) {
    const std::string refusal =
        tests::error_of<Failure>([&] { return policy_of("# fine\n" + text); });
    CAPTURE(text, refusal);
    CHECK(tests::contains(refusal, "policy:2"));
    CHECK(tests::contains(refusal, reason));
  }
}

TEST_CASE("JUnit has a case a check and escapes what XML does not allow", "[unit]") {
  const std::string text = verdict_junit(judge(leaking_report(), "max-leak = 0"));
  CHECK(text.find("tests=\"2\" failures=\"1\"") != std::string::npos);
  CHECK(text.find("time=\"") != std::string::npos);
  CHECK(text.find("  at step (train.py:12)&#10;  at outer (main.py:3)") != std::string::npos);
  CHECK(text.find("lost &lt;memory&gt; &amp; &quot;more&quot;") != std::string::npos);
}

TEST_CASE("SARIF names rule, fingerprint and line relative to the root", "[unit]") {
  const rows::Report report = leaking_report();
  const Json sarif = Json::parse(verdict_sarif(judge(report, ""), "/home/me"));
  const Json& run = sarif.at("runs").at(0);
  const Json& result = run.at("results").at(0);
  CHECK(sarif.at("version") == "2.1.0");
  CHECK(result.at("ruleId") == "leak");
  const auto index = result.at("ruleIndex").get<std::size_t>();
  CHECK(run.at("tool").at("driver").at("rules").at(index).at("id") == "leak");
  CHECK(result.at("level") == "error");
  CHECK(result.at("partialFingerprints").at("gpumemtrace/v1") == "00ff");
  const Json& place = result.at("locations").at(0).at("physicalLocation");
  CHECK(place.at("artifactLocation").at("uri") == "train.py");
  CHECK(place.at("region").at("startLine") == 12);
}

TEST_CASE("the same fault on many ranks is told once", "[unit]") {
  rows::Report report = leaking_report();
  report.processes.resize(8, report.processes[0]);
  report.findings.resize(8, report.findings[0]);
  const Verdict verdict = judge(report, "");
  const std::string text = verdict_text(verdict, {});
  CHECK(text.find("The same 8 times in this job, 7.8 KiB together.") != std::string::npos);
  CHECK(text.find("lost <memory>") == text.rfind("lost <memory>"));
  CHECK(verdict.findings.size() == 8);
}

TEST_CASE("paths in a verdict have no steps back", "[unit]") {
  CHECK(path_below("/home/me/tests/../train.py", "/home/me") == "train.py");
  CHECK(path_below("/opt/a/../train.py", "/home/me") == "/opt/train.py");
}

TEST_CASE("GitHub gets an annotation at the line", "[unit]") {
  const rows::Report report = leaking_report();
  const std::string text = verdict_github(judge(report, ""), "/home/me");
  CHECK(text.find("::error file=train.py,line=12,title=") != std::string::npos);
  CHECK(text.find("%0AFix: Free them.") != std::string::npos);
  CHECK(verdict_markdown(judge(report, "")).find("**FAIL**") != std::string::npos);
}

}  // namespace gpumemtrace::tools::check_test
