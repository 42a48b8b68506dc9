// SPDX-License-Identifier: Apache-2.0
#include "analyzer/report/group_sizes.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <ranges>
#include <string_view>

#include "analyzer/base/input_error.hpp"

namespace gpumemtrace::analyzer {
namespace {

struct AxisName {
  std::string_view name;
  rows::GroupKind kind;
};
constexpr auto kAxisNames = std::to_array<AxisName>({{"tp", rows::GroupKind::kTensor},
                                                     {"dp", rows::GroupKind::kData},
                                                     {"pp", rows::GroupKind::kPipeline},
                                                     {"ep", rows::GroupKind::kExpert}});

[[noreturn]] void refuse(const std::string& text) {
  throw InputError("--groups " + text +
                   " is no list of sizes. Name tp, dp and pp in the order in which ranks are "
                   "numbered, one of them without a size, as in tp=2,dp,pp=4; ep=N shares the "
                   "experts among N neighbours of a data group.");
}

// The number in the text; 0 if the text is no number.
std::uint64_t number_of(std::string_view text) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() ? number : 0;
}

// The value of the option "--name VALUE" or "--name=VALUE"; 0 if the command line does not have it.
std::uint64_t option_of(const rows::CommandLine& command, std::string_view name) {
  for (std::size_t i = 0; i < command.size(); ++i) {
    std::string_view word = command[i];
    if (!word.starts_with(name)) continue;
    word.remove_prefix(name.size());
    if (word.starts_with('=')) return number_of(word.substr(1));
    if (word.empty() && i + 1 < command.size()) return number_of(command[i + 1]);
  }
  return 0;
}

// The options of one program that numbers its ranks by tensor, data and pipeline, in this order.
struct ProgramOptions {
  std::string_view tensor;
  std::string_view pipeline;
  std::string_view experts;
  std::string_view other_order;    // an option that changes the order of ranks
  std::string_view other_experts;  // an option that changes how experts are shared
  bool has_defaults;               // true if a missing option means 1, not a value in a file
};
constexpr auto kPrograms = std::to_array<ProgramOptions>({
    // The options of Megatron-LM: megatron/training/arguments.py, megatron/core/parallel_state.py.
    {"--tensor-model-parallel-size", "--pipeline-model-parallel-size",
     "--expert-model-parallel-size", "--use-tp-pp-dp-mapping", "--expert-tensor-parallel-size",
     true},
    // The options of torchtitan: torchtitan/config/job_config.py,
    // torchtitan/distributed/parallel_dims.py.
    {"--parallelism.tensor_parallel_degree", "--parallelism.pipeline_parallel_degree",
     "--parallelism.expert_parallel_degree", "", "--parallelism.expert_parallel_degree", false},
});

bool has_option(const rows::CommandLine& command, std::string_view name) {
  return !name.empty() && std::ranges::any_of(command, [&](std::string_view word) {
    return word.substr(0, word.find('=')) == name;
  });
}

}  // namespace

const GroupAxis* GroupSizes::axis(rows::GroupKind kind) const {
  const auto found = std::ranges::find(axes, kind, &GroupAxis::kind);
  return found == axes.end() ? nullptr : &*found;
}

GroupSizes parse_group_sizes(const std::string& text) {
  GroupSizes sizes;
  for (const auto part : std::views::split(text, ',')) {
    const std::string_view word(part.begin(), part.end());
    const std::size_t sign = std::min(word.find('='), word.size());
    const auto name = std::ranges::find(kAxisNames, word.substr(0, sign), &AxisName::name);
    if (name == kAxisNames.end()) refuse(text);
    const bool has_size = sign != word.size();
    const std::uint64_t size = has_size ? number_of(word.substr(sign + 1)) : 0;
    if (has_size && size == 0) refuse(text);
    if (name->kind == rows::GroupKind::kExpert) {
      if (size == 0) refuse(text);
      sizes.experts = size;
      continue;
    }
    if (sizes.axis(name->kind) != nullptr) refuse(text);
    sizes.axes.push_back({name->kind, size});
  }
  if (sizes.axes.empty() || std::ranges::count(sizes.axes, 0, &GroupAxis::size) > 1) refuse(text);
  return sizes;
}

std::optional<GroupSizes> fit_group_sizes(GroupSizes sizes, std::uint64_t ranks) {
  std::uint64_t known = 1;
  for (const GroupAxis& axis : sizes.axes) {
    const std::uint64_t size = std::max<std::uint64_t>(axis.size, 1);
    if (size > ranks / known) return std::nullopt;  // the product may not fit in 64 bits
    known *= size;
  }
  if (ranks == 0 || ranks % known != 0) return std::nullopt;
  std::uint64_t stride = 1;
  for (GroupAxis& axis : sizes.axes) {
    if (axis.size == 0) axis.size = ranks / known;
    axis.stride = stride;
    stride *= axis.size;
  }
  const GroupAxis* const data = sizes.axis(rows::GroupKind::kData);
  const std::uint64_t copies = data == nullptr ? 1 : data->size;
  if (stride != ranks || copies % sizes.experts != 0) return std::nullopt;
  return sizes;
}

std::string group_sizes_of_command(const rows::CommandLine& command) {
  for (const ProgramOptions& program : kPrograms) {
    const std::uint64_t tensor = option_of(command, program.tensor);
    const std::uint64_t pipeline = option_of(command, program.pipeline);
    const std::uint64_t experts = option_of(command, program.experts);
    const bool is_there =
        program.has_defaults ? tensor + pipeline + experts != 0 : tensor != 0 && pipeline != 0;
    if (!is_there || has_option(command, program.other_order)) continue;
    std::string text = "tp=" + std::to_string(std::max<std::uint64_t>(tensor, 1)) +
                       ",dp,pp=" + std::to_string(std::max<std::uint64_t>(pipeline, 1));
    if (experts > 1 && !has_option(command, program.other_experts))
      text += ",ep=" + std::to_string(experts);
    return text;
  }
  return {};
}

}  // namespace gpumemtrace::analyzer
