// SPDX-License-Identifier: Apache-2.0
// Writes the sentences of an explanation of out-of-memory messages.
#include "tools/explain/explanation.hpp"

#include "analyzer/base/row_text.hpp"
#include "analyzer/frameworks/frameworks.hpp"
#include "tools/base/shell_words.hpp"
#include "tools/base/sizes.hpp"
#include "tools/base/text.hpp"

namespace gpumemtrace::tools {
namespace {

// If less than 1/kLittleLeft of the GPU's memory would be left after the request, the program must
// use less memory, because other allocator settings alone do not help.
constexpr std::uint64_t kLittleLeft = 50;

// A range of bytes as text: "1.3 GiB", or "1.2 GiB to 1.4 GiB" if the bounds print differently.
std::string bytes_text(const ByteRange& bytes) {
  const std::string low = size_text(bytes.low_bytes);
  const std::string high = size_text(bytes.high_bytes);
  return low == high ? low : low + " to " + high;
}

// The memory that a request could have used: "6.87 GiB free on the GPU and 134.28 MiB unused in
// PyTorch's cache".
std::string room_text(const FailureMessage& message) {
  std::vector<std::string> parts;
  if (message.free) parts.push_back(message.free->text + " free on the GPU");
  if (message.unallocated) {
    parts.push_back(message.unallocated->text + " unused in PyTorch's cache");
  } else if (message.reserved && message.allocated) {
    parts.push_back(format_text("{} reserved by PyTorch, less {} allocated", message.reserved->text,
                                message.allocated->text));
  }
  return joined(parts, " and ");
}

// Says by how much the request was too large, with the sizes that the message has.
std::string missing_sentence(const FailureGroup& group) {
  const FailureMessage& message = group.message;
  const std::string request = "The request for " + message.requested->text;
  if (!message.free) {
    return format_text("{} is larger than the GPU of {}.", request, message.capacity->text);
  }
  if (!message.unallocated && !message.reserved) {
    return format_text("{} and {} allocated are {} more than the GPU of {} has.", request,
                       message.allocated ? message.allocated->text : "0 bytes",
                       bytes_text(*group.cause.missing), message.capacity->text);
  }
  return format_text("{} was {} too large for {}.", request, bytes_text(*group.cause.missing),
                     room_text(message));
}

std::string not_said_sentence(const FailureMessage& message) {
  const std::string request = message.requested ? message.requested->text : "";
  switch (message.kind) {
    case MessageKind::kJax:
      return format_text(
          "JAX could not get {}. Its message does not say how much was free, or "
          "who held the rest.",
          request);
    case MessageKind::kCudaError:
      return "A call of CUDA found no memory (cudaErrorMemoryAllocation). The message does not say "
             "how much was asked for, or how much was free.";
    case MessageKind::kCudaMallocAsync:
      return format_text(
          "cudaMallocAsync did not give {}. Its message does not say how much its "
          "pool held unused.",
          request.empty() ? "the request" : request);
    case MessageKind::kPyTorch:
      break;
  }
  return request.empty() ? "The message is cut: it has no sizes."
                         : format_text(
                               "The message is cut: it says that {} were asked for, but "
                               "not all that was free.",
                               request);
}

std::string verdict_sentence(const FailureGroup& group) {
  const FailureMessage& message = group.message;
  switch (group.cause.verdict) {
    case FailureVerdict::kExhausted:
      return missing_sentence(group);
    case FailureVerdict::kOtherProcess:
      return format_text("{} Other processes hold {} of this GPU; without them it would fit.",
                         missing_sentence(group), bytes_text(*group.cause.other_processes));
    case FailureVerdict::kFragmented:
      return format_text("The request for {} found no piece of its size in {}.",
                         message.requested->text, room_text(message));
    case FailureVerdict::kLimited:
      return format_text(
          "The request for {} was {} above the program's own limit of {}; there "
          "were {}.",
          message.requested->text, bytes_text(*group.cause.missing), message.allowed->text,
          room_text(message));
    case FailureVerdict::kUnexplained:
      return format_text(
          "The request for {} failed, but {} were free on the GPU when the message "
          "was written.",
          message.requested->text, message.free->text);
    case FailureVerdict::kTooClose:
      return format_text(
          "The request for {} and what there was ({}) differ by less than the "
          "rounding of the message.",
          message.requested->text, room_text(message));
    case FailureVerdict::kNotSaid:
      break;
  }
  return not_said_sentence(message);
}

std::string variable_of(const FailureMessage& message) {
  return message.settings_variable.empty()
             ? std::string(analyzer::framework_with_blocks().settings_variable)
             : message.settings_variable;
}

void add_fragmented_help(const FailureGroup& group, std::vector<std::string>& helps) {
  const FailureMessage& message = group.message;
  if (message.setting == "max_split_size_mb") {
    helps.push_back(
        format_text("Set {}=max_split_size_mb:N, N below the size of large tensors. "
                    "PyTorch 2.1 and later have expandable_segments:True.",
                    variable_of(message)));
  } else if (!message.setting.empty()) {
    helps.push_back(format_text(
        "Set {}={}. The message does not say whether it was set; if it was, the unused pieces "
        "belong to other streams, to private pools or to small requests.",
        variable_of(message), message.setting));
  }
  const ByteRange& left = *group.cause.left;
  std::string rest = format_text(
      "If all of it were one piece, {} would be left after this request.", bytes_text(left));
  if (message.capacity && left.low_bytes < message.capacity->low_bytes / kLittleLeft) {
    rest += " The program nearly fills the GPU: it must use less, too.";
  }
  helps.push_back(rest);
}

void add_missing_help(const FailureGroup& group, std::vector<std::string>& helps) {
  const ByteRange& missing = *group.cause.missing;
  if (group.message.kind == MessageKind::kPyTorch) {
    helps.emplace_back(
        "No setting of the allocator helps, such as expandable_segments or max_split_size_mb: its "
        "cache is too small for this request.");
  }
  helps.push_back(
      format_text("Free or avoid {} before this request: by a smaller batch, activation "
                  "checkpointing, sharding or offloading.",
                  bytes_text(missing)));
  const auto add_holder = [&](const std::optional<ByteRange>& bytes, const char* holder) {
    if (!bytes) return;
    const bool is_enough = bytes->low_bytes >= missing.high_bytes;
    helps.push_back(format_text("{} {}.{}", bytes_text(*bytes), holder,
                                is_enough ? " That is more than was missing." : ""));
  };
  add_holder(group.cause.non_pytorch,
             "of this process are not PyTorch's: the CUDA context, NCCL, cuBLAS or other "
             "libraries have them");
  add_holder(group.cause.elsewhere,
             "of the GPU are not PyTorch's; the message does not say which process has them");
  add_holder(group.message.private_pools,
             "of the allocated bytes are unused, but in private pools (CUDA graphs, MemPool), "
             "which only serve requests of their own");
}

std::vector<std::string> helps_of(const FailureGroup& group) {
  std::vector<std::string> helps;
  switch (group.cause.verdict) {
    case FailureVerdict::kFragmented:
      add_fragmented_help(group, helps);
      break;
    case FailureVerdict::kOtherProcess:
      helps.emplace_back("End the other processes (nvidia-smi lists them), or use another GPU.");
      [[fallthrough]];
    case FailureVerdict::kExhausted:
      add_missing_help(group, helps);
      break;
    case FailureVerdict::kLimited:
      helps.push_back(format_text("Raise the limit of {}(), or use less.",
                                  analyzer::framework_with_blocks().limit_function));
      break;
    case FailureVerdict::kUnexplained:
      helps.emplace_back(
          "Another process may have freed memory in between. The message has no "
          "other reason.");
      break;
    case FailureVerdict::kTooClose:
    case FailureVerdict::kNotSaid:
      break;
  }
  return helps;
}

constexpr const char* kPlaceholder = "train.py";

// Commands that would record the failing program. Traces go to a folder, which holds those of any
// number of processes.
std::vector<std::string> commands_for(const std::vector<ExplainedFailure>& messages) {
  std::string script = kPlaceholder;
  bool is_fragmented = false;
  for (const ExplainedFailure& message : messages) {
    if (script == kPlaceholder && !message.failure.script.empty()) script = message.failure.script;
    is_fragmented |= message.failure.cause.verdict == FailureVerdict::kFragmented;
  }
  std::vector<std::string> commands = {"gpumemtrace run -o traces/ -- python " + shell_word(script),
                                       "gpumemtrace summary traces/"};
  if (is_fragmented) commands.emplace_back("gpumemtrace whatif traces/");
  return commands;
}

}  // namespace

Explanation explain_failures(const FailureLog& log) {
  Explanation explanation;
  explanation.left_out = log.left_out();
  for (const FailureGroup& group : log.groups()) {
    explanation.messages.push_back({group, verdict_sentence(group), helps_of(group)});
  }
  explanation.next = commands_for(explanation.messages);
  return explanation;
}

std::string explanation_json(const Explanation& explanation) {
  return analyzer::json_text(explanation, analyzer::JsonLayout::kIndented) + "\n";
}

}  // namespace gpumemtrace::tools
