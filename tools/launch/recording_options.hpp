// SPDX-License-Identifier: Apache-2.0
// The settings of a recording: options of `run` and `env`, variables for the recording library.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tools/cli/command_line.hpp"

namespace gpumemtrace::tools {

struct EnvironmentVariable {
  std::string name;
  std::string value;
};

enum class ValueKind {
  kFlag,    // set to "1" if given
  kText,    // passed on as typed
  kSize,    // 2GiB, 2GB or bytes; passed on in bytes
  kChoice,  // one of the words in `value_name`
  kSwitch,  // --name or --no-name: "1" or "0"
  kNumber,  // a number from 0 to `most`
};

inline constexpr std::string_view kOutputVariable = "GPUMEMTRACE_OUTPUT";
inline constexpr std::string_view kTorchNamesVariable = "GPUMEMTRACE_TORCH_NAMES";

// One setting of a recording. The library reads it from the variable, so that users of plain
// LD_PRELOAD can set it, too.
struct RecordingOption {
  const char* flags;  // in CommandLine's syntax
  const char* variable;
  ValueKind kind;
  const char* value_name;  // the value's name in the help; for kChoice all, separated by '|'
  const char* help;
  std::uint64_t most = 0;  // the largest value of kNumber
};

// The list of all settings: a new setting of the recording library needs only a row here.
inline constexpr auto kRecordingOptions = std::to_array<RecordingOption>({
    {"--output,-o", kOutputVariable.data(), ValueKind::kText, "PATTERN",
     "The trace's file, or a folder for it. %e executable, %h host, %n host without domain, "
     "%p process id, %r rank, %j job, %t time, %q{VAR} a variable."},
    {"--force", "GPUMEMTRACE_FORCE", ValueKind::kFlag, "",
     "Overwrite a trace of the same name; else .2, .3 is added."},
    {"--quiet", "GPUMEMTRACE_QUIET", ValueKind::kFlag, "",
     "Print nothing unless something goes wrong."},
    {"--ring-size", "GPUMEMTRACE_RING_SIZE", ValueKind::kSize, "SIZE",
     "Most memory for events that are not in the file yet (default 64MiB)."},
    {"--max-trace-bytes", "GPUMEMTRACE_MAX_TRACE_BYTES", ValueKind::kSize, "SIZE",
     "Largest trace (default 4GiB); beyond it, totals replace the oldest detail."},
    {"--on-full", "GPUMEMTRACE_ON_FULL", ValueKind::kChoice, "drop|block",
     "A full ring drops events and counts them (default), or makes the program wait."},
    {"--python,!--no-python", "GPUMEMTRACE_PYTHON", ValueKind::kSwitch, "",
     "Record Python call stacks (default), or do not."},
    {"--native", "GPUMEMTRACE_NATIVE", ValueKind::kChoice, "off|auto|full",
     "Native call stacks. auto (default): where a thread has Python frames, not for a framework's "
     "blocks and stream-ordered memory, which come too often; full: always."},
    {"--stack-depth", "GPUMEMTRACE_STACK_DEPTH", ValueKind::kNumber, "FRAMES",
     "Most Python and most native frames of a stack (default 64 each, at most 200); outer ones "
     "are cut.",
     200},
    {"--cupti", "GPUMEMTRACE_CUPTI", ValueKind::kChoice, "off|copies|full|full,kernels",
     "CUPTI's records: off (default); copies: when copies and sets ran on the GPU, for which "
     "each kernel launch takes about 0.5 us more; full: also the driver's own allocations, pools "
     "and page migrations."},
    {"--cupti-library", "GPUMEMTRACE_CUPTI_LIBRARY", ValueKind::kText, "FILE",
     "The libcupti to load in a program that loads none."},
    {"--hash-copies", "GPUMEMTRACE_HASH_COPIES", ValueKind::kFlag, "",
     "Hash what copies from host memory send, to find data that is sent again; reads it on the "
     "program's thread."},
    {"--torch-names", kTorchNamesVariable.data(), ValueKind::kFlag, "",
     "PyTorch: record which storage is which parameter, gradient, optimizer state or buffer, by "
     "name, in the first steps. The program is not changed."},
    {"--start-paused", "GPUMEMTRACE_START_PAUSED", ValueKind::kFlag, "",
     "Record nothing until `gpumemtrace ctl PID start`."},
});

// The values that the user gave for kRecordingOptions. The object must not move while the command
// line is parsed, and the CommandLine must outlive it.
class RecordingSettings {
 public:
  // Adds every row of kRecordingOptions to `line`, with checks of the values.
  void add_options(CommandLine& line);

  // One variable for each option that was given. Throws Failure for an output pattern that cannot
  // name a file.
  [[nodiscard]] std::vector<EnvironmentVariable> environment() const;

 private:
  std::array<std::string, kRecordingOptions.size()> texts_;
  std::array<bool, kRecordingOptions.size()> switches_{};
  std::array<Option, kRecordingOptions.size()> options_;
};

// Throws Failure if `pattern` is empty or has an unknown % field.
void check_output_pattern(std::string_view pattern);

}  // namespace gpumemtrace::tools
