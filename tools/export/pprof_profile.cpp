// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <protozero/pbf_writer.hpp>

#include "tools/base/deflate.hpp"
#include "tools/base/text.hpp"
#include "tools/export/exports.hpp"
#include "tools/report_view/job_text.hpp"
#include "tools/report_view/report_input.hpp"
#include "tools/report_view/report_row.hpp"

namespace gpumemtrace::tools {
namespace {

// Field numbers of pprof's profile.proto.
namespace profile {
constexpr int kSampleType = 1;
constexpr int kSample = 2;
constexpr int kLocation = 4;
constexpr int kFunction = 5;
constexpr int kStringTable = 6;
constexpr int kTimeNanos = 9;
constexpr int kComment = 13;
constexpr int kDefaultSampleType = 14;
}  // namespace profile
namespace value_type {
constexpr int kType = 1;
constexpr int kUnit = 2;
}  // namespace value_type
namespace sample {
constexpr int kLocationId = 1;
constexpr int kValue = 2;
constexpr int kLabel = 3;
}  // namespace sample
namespace label {
constexpr int kKey = 1;
constexpr int kStr = 2;
}  // namespace label
namespace location {
constexpr int kId = 1;
constexpr int kLine = 4;
}  // namespace location
namespace line {
constexpr int kFunctionId = 1;
constexpr int kLine = 2;
}  // namespace line
namespace function {
constexpr int kId = 1;
constexpr int kName = 2;
constexpr int kSystemName = 3;
constexpr int kFilename = 4;
}  // namespace function

using Values = std::array<std::int64_t, kCostMeasures.size()>;

class ProfileWriter {
 public:
  ProfileWriter() { (void)text(""); }

  void add_types(const CostMeasure& first) {
    for (const CostMeasure& measure : kCostMeasures) {
      protozero::pbf_writer type(out_, profile::kSampleType);
      type.add_int64(value_type::kType, text(std::string(measure.name) + "_space"));
      type.add_int64(value_type::kUnit, text("bytes"));
    }
    out_.add_int64(profile::kDefaultSampleType, text(std::string(first.name) + "_space"));
  }

  void add_sample(const NamedStack& stack, const Values& values, const std::string& process) {
    std::vector<std::uint64_t> locations;  // ids of frames, innermost first
    for (auto frame = stack.rbegin(); frame != stack.rend(); ++frame) {
      locations.push_back(location_of(*frame));
    }
    protozero::pbf_writer row(out_, profile::kSample);
    row.add_packed_uint64(sample::kLocationId, locations.begin(), locations.end());
    row.add_packed_int64(sample::kValue, values.begin(), values.end());
    protozero::pbf_writer of_process(row, sample::kLabel);
    of_process.add_int64(label::kKey, text("process"));
    of_process.add_int64(label::kStr, text(process));
  }

  void add_comment(const std::string& comment) { out_.add_int64(profile::kComment, text(comment)); }

  [[nodiscard]] std::string finish(std::uint64_t start_unix_ns) {
    if (start_unix_ns != 0) {
      out_.add_int64(profile::kTimeNanos, static_cast<std::int64_t>(start_unix_ns));
    }
    for (const std::string& text : strings_) out_.add_string(profile::kStringTable, text);
    return std::move(data_);
  }

 private:
  std::int64_t text(const std::string& value) {
    const auto [known, is_new] =
        numbers_.try_emplace(value, static_cast<std::int64_t>(strings_.size()));
    if (is_new) strings_.push_back(valid_utf8(value));
    return known->second;
  }

  // The id of a frame's location. Each location and each function is written once.
  std::uint64_t location_of(const NamedFrame& frame) {
    const auto [known, is_new] = locations_.try_emplace(frame, locations_.size() + 1);
    if (!is_new) return known->second;
    const auto [of, is_new_function] =
        functions_.try_emplace({frame.name, frame.file}, functions_.size() + 1);
    if (is_new_function) {
      protozero::pbf_writer row(out_, profile::kFunction);
      row.add_uint64(function::kId, of->second);
      row.add_int64(function::kName, text(frame.name));
      row.add_int64(function::kSystemName, text(frame.name));
      row.add_int64(function::kFilename, text(frame.file));
    }
    protozero::pbf_writer row(out_, profile::kLocation);
    row.add_uint64(location::kId, known->second);
    protozero::pbf_writer in_function(row, location::kLine);
    in_function.add_uint64(line::kFunctionId, of->second);
    in_function.add_int64(line::kLine, static_cast<std::int64_t>(frame.line));
    return known->second;
  }

  std::string data_;
  protozero::pbf_writer out_{data_};
  std::vector<std::string> strings_;
  std::map<std::string, std::int64_t> numbers_;
  std::map<NamedFrame, std::uint64_t> locations_;
  std::map<std::pair<std::string, std::string>, std::uint64_t> functions_;
};

}  // namespace

std::string pprof_profile(const analyzer::rows::Report& report, const StackExport& what) {
  ProfileWriter writer;
  writer.add_types(what.measure);
  for (const analyzer::rows::Process& process : report.processes) {
    std::map<NamedStack, Values> samples;
    for (std::size_t i = 0; i < kCostMeasures.size(); ++i) {
      StackExport one = what;
      one.measure = kCostMeasures[i];
      for (const auto& [stack, bytes] : bytes_by_stack(report, one, process.id)) {
        samples[stack][i] = static_cast<std::int64_t>(bytes);
      }
    }
    for (const auto& [stack, values] : samples) {
      writer.add_sample(stack, values, process_title(process));
    }
  }
  writer.add_comment("gpumemtrace " GPUMEMTRACE_VERSION);
  const std::string missing = missing_in_short(report);
  if (!missing.empty()) writer.add_comment("incomplete: " + missing);
  return gzipped(writer.finish(job_start_unix_ns(report).value_or(0)));
}

}  // namespace gpumemtrace::tools
