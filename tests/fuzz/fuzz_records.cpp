// SPDX-License-Identifier: Apache-2.0
// Sends traces of random records (random_trace.hpp) through everything that reads a trace:
//
//   fuzz_records FOLDER SECONDS [SEED [INPUTS]]
//
// FOLDER has inputs of fuzz_reader; some traces begin with the records of one. Without SEED each
// run has another seed, which is printed. Input i of seed S is input 0 of seed S + i.
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "analyzer/analyze.hpp"
#include "analyzer/base/printable.hpp"
#include "analyzer/follow.hpp"
#include "analyzer/json/report_json.hpp"
#include "tests/fuzz/random_trace.hpp"
#include "tests/fuzz/trace_input.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tools/base/failure.hpp"
#include "tools/check/verdict.hpp"
#include "tools/check/verdict_output.hpp"
#include "tools/diff/difference.hpp"
#include "tools/export/exports.hpp"
#include "tools/live/live_state.hpp"
#include "tools/live/live_text.hpp"
#include "tools/page/report_page.hpp"
#include "tools/report_view/printable_report.hpp"
#include "tools/summary/summary_text.hpp"
#include "tools/whatif/what_if_text.hpp"
#include "trace/reader.hpp"

extern "C" __attribute__((weak)) void __sanitizer_set_death_callback(void (*callback)());

namespace {

using namespace gpumemtrace;
using analyzer::rows::Report;

constexpr unsigned kMostSeconds = 120;            // for one input
constexpr long kMostKilobytes = 3 * 1024 * 1024;  // of the process, with the sanitizers' memory

std::uint64_t seed_of_input = 0;

void tell_seed() {
  std::fprintf(stderr, "fuzz_records: it was input 0 of seed %llu\n",
               static_cast<unsigned long long>(seed_of_input));
}

[[noreturn]] void fail(const std::string& why) {
  std::fprintf(stderr, "fuzz_records: %s\n", why.c_str());
  tell_seed();
  std::exit(1);
}

void fail_by_signal(int signal) {
  tell_seed();
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

// Fails if text for a terminal, a log or XML is not printable.
void require_printable(const std::string& text, const char* what) {
  const std::string shown = analyzer::printable_lines(text);
  if (shown == text) return;
  const auto at = std::ranges::mismatch(text, shown).in2 - shown.begin();
  fail(std::string(what) + " has unprintable text: " +
       shown.substr(static_cast<std::size_t>(std::max<std::ptrdiff_t>(at - 40, 0)), 80));
}

// Runs one reader of a report; the reader may refuse the report in a sentence.
template <class Reader>
void try_reader(Reader&& reader) {
  try {
    reader();
  } catch (const tools::Failure&) {
  }
}

analyzer::Options analyze_options(std::uint64_t seed) {
  analyzer::Options options;
  options.symbols.enabled = false;  // with symbols, a trace decides which files are read
  options.what_if.emplace();
  options.logged_allocations = 100;
  options.blocks_at_peak = true;
  options.redact = seed % 8 == 0;
  if (seed % 4 == 1) options.window = {seed % 5000, 1'000'000};
  if (seed % 4 == 2) options.blocks_at_ns = seed % 3000;
  for (std::size_t i = 0; i < analyzer::kThresholds.size(); ++i) options.thresholds.set(i, 0);
  return options;
}

void judge(const Report& report) {
  tools::Policy policy;
  tools::apply_policy_text(
      "max-leak = 0\nmax-growth = 0\nmax-peak = 1\nmax-peak = 1,level=driver\n"
      "max-stranded = 0%\nmax-transfer = 1\nfail-on = any\nmax-regression = 5%,8MiB\n",
      "fuzz", policy);
  tools::Suppressions suppressions;
  suppressions.add_embedded(report);
  tools::Baseline baseline;
  baseline.put(tools::baseline_of(report));
  const tools::Verdict verdict = tools::judge(report, policy, std::move(suppressions), &baseline);
  require_printable(tools::verdict_text(verdict, {"trace.gmt"}), "verdict");
  require_printable(tools::verdict_junit(verdict), "JUnit");
  require_printable(tools::verdict_markdown(verdict), "Markdown");
  require_printable(tools::verdict_json(verdict), "JSON");
  require_printable(tools::verdict_sarif(verdict, "/src"), "SARIF");
  (void)tools::verdict_github(verdict, "/src");
}

void compare(const Report& report) {
  tools::Difference difference;
  difference.sections = tools::compare_jobs(report, report);
  require_printable(tools::difference_text(difference), "difference");
}

void export_all(const Report& report) {
  for (const tools::CostMeasure& measure : tools::kCostMeasures) {
    require_printable(tools::collapsed_stacks(report, {measure, ""}), "collapsed stacks");
    require_printable(tools::speedscope_profile(report, {measure, "driver"}), "speedscope");
    require_printable(tools::flame_graph_svg(report, {measure, ""}), "SVG");
  }
  (void)tools::pprof_profile(report, {});
  (void)tools::perfetto_trace(report, 0);
  (void)tools::sqlite_database(report, "");
  for (const auto& process : report.processes) {
    for (const auto level : {analyzer::Level::kFramework, analyzer::Level::kDriver}) {
      (void)tools::memory_viz_snapshot(report, process.id, level, 0);
    }
  }
}

void read_everything(const std::filesystem::path& trace, std::uint64_t seed) {
  try {
    // A report that the tools refuse is a finding, because our analyzer made it.
    const Report raw = analyzer::analyze({trace}, analyze_options(seed));
    require_printable(analyzer::to_text(raw), "report");
    (void)tools::report_page(raw);
    const Report report = tools::printable(analyzer::report_of_text(analyzer::to_text(raw)));
    require_printable(tools::summary_text(report), "summary");
    require_printable(tools::what_if_text(report), "whatif");
    try_reader([&] { judge(report); });  // the program's suppressions may be refused
    compare(report);
    export_all(report);
    analyzer::Follower follower({trace}, {{false, {}, {}, false}, {}, false});
    analyzer::JobNow now = follower.look();
    now.report = tools::printable(std::move(now.report));
    for (const std::string& line : tools::live_lines(tools::live_state_of(now, {}), 80, 100)) {
      require_printable(line, "live");
    }
  } catch (const trace::TraceError&) {
  } catch (const analyzer::InputError&) {
  } catch (const std::exception& error) {
    fail(std::string("an exception nobody turns into a sentence: ") + error.what());
  }
}

// The records of the inputs that fuzz_reader has kept; inputs of which nothing can be read are left
// out.
std::vector<tests::WordsByWriter> read_corpus(const std::filesystem::path& folder,
                                              const std::filesystem::path& place) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) files.push_back(entry);
  std::ranges::sort(files);
  std::vector<tests::WordsByWriter> corpus;
  for (const std::filesystem::path& path : files) {
    std::ifstream in(path, std::ios::binary);
    const std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
    tests::write_input(tests::expand_input(std::as_bytes(std::span(text))), place / "trace.gmt");
    try {
      tests::WordsByWriter records = tests::records_of(place / "trace.gmt");
      if (!records.empty()) corpus.push_back(std::move(records));
    } catch (const trace::TraceError&) {
    }
  }
  return corpus;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  const std::uint64_t seed =
      argc > 3 ? std::strtoull(argv[3], nullptr, 0) : std::random_device()() * std::uint64_t{1000};
  const std::uint64_t most = argc > 4 ? std::strtoull(argv[4], nullptr, 0) : ~std::uint64_t{0};
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(std::atoi(argv[2]));
  const tests::TemporaryFolder folder(tests::place_in_memory());
  const std::vector<tests::WordsByWriter> corpus = read_corpus(argv[1], folder.path());
  std::printf("seed %llu, %zu inputs to begin with\n", static_cast<unsigned long long>(seed),
              corpus.size());
  std::fflush(stdout);
  std::signal(SIGALRM, fail_by_signal);
  if (__sanitizer_set_death_callback != nullptr) {
    __sanitizer_set_death_callback(tell_seed);
  } else {
    for (const int signal : {SIGABRT, SIGSEGV, SIGBUS, SIGFPE}) std::signal(signal, fail_by_signal);
  }
  std::uint64_t inputs = 0;
  for (; inputs < most && std::chrono::steady_clock::now() < end; ++inputs) {
    seed_of_input = seed + inputs;
    alarm(kMostSeconds);
    tests::RandomTrace trace(seed_of_input);
    const bool begins_new = corpus.empty() || seed_of_input % 2 == 0;
    trace.write(folder.path(),
                begins_new ? tests::WordsByWriter() : corpus[seed_of_input / 2 % corpus.size()]);
    read_everything(folder.path() / "trace.gmt", seed_of_input);
  }
  struct rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  std::printf("%llu inputs, nothing found; %ld MB at most\n",
              static_cast<unsigned long long>(inputs), usage.ru_maxrss / 1024);
  return usage.ru_maxrss < kMostKilobytes ? 0 : 1;
}
