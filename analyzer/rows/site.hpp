// SPDX-License-Identifier: Apache-2.0
// The line of the program's code that asked for something, and the owner of that code: most rows
// end with it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "analyzer/rows/fields.hpp"
#include "analyzer/rows/ids.hpp"
#include "analyzer/rows/names.hpp"
#include "analyzer/rows/words.hpp"

namespace gpumemtrace::analyzer::rows {

// Values that are null in the report if they are not known or have no meaning for the row.
using OptionalNumber = std::optional<std::uint64_t>;
using OptionalText = std::optional<std::string>;
using OptionalProcess = std::optional<ProcessId>;
using OptionalDevice = std::optional<DeviceId>;
using OptionalStack = std::optional<StackId>;
using OptionalTime = std::optional<JobTime>;

[[nodiscard]] inline OptionalText text_or_none(std::string text) {
  return text.empty() ? OptionalText() : OptionalText(std::move(text));
}
[[nodiscard]] inline OptionalNumber number_or_none(std::uint64_t number) {
  return number == 0 ? OptionalNumber() : OptionalNumber(number);
}

// A line of code, as far as it is known.
struct Site {
  OptionalCode function;
  OptionalCode file;
  OptionalNumber line;
  OptionalCode module;  // the file with the code; only of native code
  Language language = Language::kNative;
  OptionalNumber offset;   // in the module, if the line is not known
  OptionalPublicText api;  // the function of CUDA that the code called
  // The autograd node of a backward pass, such as AddmmBackward0. It is the function, too, if the
  // pass has no line of the user.
  OptionalCode node;

  friend bool operator==(const Site&, const Site&) = default;

  static void fields(auto& self, auto& v) {
    GPUMEMTRACE_KEYS(v, function, file, line, module);
    v("kind", self.language);
    GPUMEMTRACE_KEYS(v.added, offset, api, node);
  }
};

// A line of code beside the row's own site, such as the one that freed the memory.
struct CodeLocation {
  Site site;
  OptionalStack stack;  // id of a row of stacks[]

  friend bool operator==(const CodeLocation&, const CodeLocation&) = default;

  GPUMEMTRACE_FIELDS(site, stack)
};
using OptionalLocation = std::optional<CodeLocation>;

// The owner of memory, and the line that asked for it.
struct Origin {
  // The owner of the code that allocated: program, pytorch, nccl, cublas and so on, from a table
  // that users extend
  OptionalName<Secret::kOwner> owner;
  std::optional<Site> site;  // the innermost line of the user's code
  // The id of a row of stacks[]. The allocations of one site are one row, whatever library code
  // lies between; the stack is that of the largest part.
  OptionalStack stack;

  GPUMEMTRACE_FIELDS(owner, site, stack)
};

// The calls that freed memory which a row's site had allocated. A member without a value is not
// known.
struct Releases {
  OptionalNumber count;  // the number freed or closed, of all that the site made
  // The call that freed or closed the first of them. No trace has it for blocks of the framework.
  OptionalLocation first_at;
  std::optional<bool> elsewhere;  // true if other lines freed or closed some of them
};

// The fields that rows on a process's memory on a device share.
struct OnDevice {
  ProcessId process;
  OptionalDevice device;  // null for host memory
};
// The fields that rows on one level of a process's memory on a device share.
struct OnLevel : OnDevice {
  Level level = Level::kDriver;
};

// Numbers and their names, in the order of the report. The names are public, except that those of a
// timeline may be owners.
using NamedNumbers = std::vector<std::pair<std::string, std::uint64_t>>;

}  // namespace gpumemtrace::analyzer::rows
