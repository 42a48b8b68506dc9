// SPDX-License-Identifier: Apache-2.0
// Sends any input as a trace through the whole analyzer, to a report that the tools can draw.
#include <cstddef>
#include <cstdint>
#include <span>

#include "analyzer/analyze.hpp"
#include "analyzer/json/report_json.hpp"
#include "tests/fuzz/trace_input.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tools/summary/summary_text.hpp"
#include "trace/reader.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace gpumemtrace;
  static const tests::TemporaryFolder folder(tests::place_in_memory());
  const std::filesystem::path path = folder.path() / "trace.gmt";
  tests::write_input(tests::expand_input(std::as_bytes(std::span(data, size))), path);
  analyzer::Options options;
  options.symbols.enabled = false;  // with symbols, a trace decides which files are read
  options.what_if.emplace();
  try {
    // A report that the tools refuse is a finding, because our analyzer made it.
    (void)tools::summary_text(
        analyzer::report_of_text(analyzer::to_text(analyzer::analyze({path}, options))));
  } catch (const trace::TraceError&) {
  } catch (const analyzer::InputError&) {
  }
  return 0;
}
