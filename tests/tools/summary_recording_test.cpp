// SPDX-License-Identifier: Apache-2.0
// The summary about names that are missing and memory that XLA took in advance.
#include "tests/catch.hpp"
#include "tools/summary/summary_sections.hpp"

namespace gpumemtrace::tools::summary_recording_test {
namespace {

namespace rows = analyzer::rows;

std::string text_of(const rows::Report& report) {
  SummaryDetail detail;
  detail.width = 1000;
  detail.inputs = "traces/";
  std::string text;
  for (const Block& block : recording_section(report, detail)) {
    for (const std::string& line : block.lines) text += line + "\n";
  }
  return text;
}

bool has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("a line without a name says what gives one", "[unit]") {
  rows::Report report;
  rows::Finding& finding = report.findings.emplace_back();
  finding.origin.owner = "program";
  rows::Site& site = finding.origin.site.emplace();
  site.module = "simulate";
  site.api = "cudaMalloc";
  const std::string text = text_of(report);
  CHECK(has(text, "no function or line of simulate is known here: build it with -g"));
  CHECK(has(text, "`gpumemtrace symbolize traces/ -o FILE` on the machine of the run"));
  site.function = "allocate";
  CHECK(text_of(report).empty());
  site.function.reset();
  finding.origin.owner = "cublas";  // nobody has names of cuBLAS's code
  CHECK(text_of(report).empty());
}

TEST_CASE("what XLA took in advance is told, what it needed is not", "[unit]") {
  rows::Report report;
  rows::Device& device = report.devices.emplace_back();
  device.id = "d0";
  device.total_bytes = 80'000'000'000;
  rows::Usage& usage = report.usage.emplace_back();
  usage.process = "p1";
  usage.device = "d0";
  usage.opaque_pool = {"XLA's arena", "XLA_PYTHON_CLIENT_ALLOCATOR=cuda_async"};
  rows::Peak& peak = report.peak.emplace_back();
  peak.process = "p1";
  peak.device = "d0";
  rows::Holder& holder = peak.holders.emplace_back();
  holder.bytes = 60'000'000'000;
  holder.count = 1;
  holder.origin.owner = "jax";
  const std::string text = text_of(report);
  CHECK(has(text, "XLA preallocated 55.9 GiB, 75 % of the card"));
  CHECK(has(text, "XLA_PYTHON_CLIENT_PREALLOCATE=false"));
  holder.count = 30;  // JAX allocated 30 times, so XLA preallocated nothing
  CHECK(text_of(report).empty());
  holder.count = 1;
  holder.bytes = 60'000'000;
  CHECK(text_of(report).empty());
  holder.bytes = 60'000'000'000;
  holder.origin.owner = "pytorch";
  CHECK(text_of(report).empty());
}

}  // namespace gpumemtrace::tools::summary_recording_test
