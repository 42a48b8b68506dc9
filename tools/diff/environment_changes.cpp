// SPDX-License-Identifier: Apache-2.0
// Reasons why two jobs are hard to compare, beside their own behaviour.
#include <algorithm>
#include <set>

#include "tools/base/text.hpp"
#include "tools/diff/difference.hpp"

namespace gpumemtrace::tools {
namespace {

namespace rows = analyzer::rows;

using Values = std::set<std::string>;

// Arguments change from run to run, so they are left out.
void program_of(const rows::Process& process, Values& values) {
  values.insert(program_name(process));
}

void driver_of(const rows::Process& process, Values& values) {
  const auto version = process.cuda.driver_version;
  if (version) values.insert(format_text("{}.{}", *version / 1000, *version % 1000 / 10));
}

void torch_of(const rows::Process& process, Values& values) {
  if (process.torch) values.insert(process.torch->version.value_or("unknown"));
}

void allocator_of(const rows::Process& process, Values& values) {
  if (process.torch) values.insert(process.torch->allocator.value_or("unknown"));
}

void world_size_of(const rows::Process& process, Values& values) {
  values.insert(process.world_size ? format_text("{}", *process.world_size) : "none");
}

struct Aspect {
  const char* name;
  void (*add)(const rows::Process& process, Values& values);
};
constexpr Aspect kAspects[] = {
    {"program", program_of},
    {"CUDA version of the driver", driver_of},
    {"PyTorch", torch_of},
    {"allocator of PyTorch", allocator_of},
    {"number of ranks", world_size_of},
};

std::string values_text(const Values& values) {
  const std::string text = joined(values);
  return text.empty() ? "none" : text;
}

void add_change(const char* name, const Values& base, const Values& next,
                std::vector<std::string>& changes) {
  if (base == next) return;
  changes.push_back(
      format_text("another {}: {} in BASE, {} in NEW", name, values_text(base), values_text(next)));
}

Values devices_of(const rows::Report& report) {
  Values names;
  for (const rows::Device& device : report.devices) names.insert(device.name.value_or("unknown"));
  return names;
}

}  // namespace

std::vector<std::string> changes_of_environment(const rows::Report& base,
                                                const rows::Report& next) {
  std::vector<std::string> changes;
  for (const Aspect& aspect : kAspects) {
    Values in_base;
    Values in_next;
    for (const rows::Process& process : base.processes) aspect.add(process, in_base);
    for (const rows::Process& process : next.processes) aspect.add(process, in_next);
    add_change(aspect.name, in_base, in_next, changes);
  }
  add_change("GPU", devices_of(base), devices_of(next), changes);
  return changes;
}

}  // namespace gpumemtrace::tools
