// SPDX-License-Identifier: Apache-2.0
// Ids and times of rows, known by their type: code that visits all rows finds them there, to give
// processes other numbers or to put the times of several machines on one clock.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

namespace gpumemtrace::analyzer::rows {

// A std::string that visitors of rows tell from other texts by its type.
template <class Meaning>
struct Text : std::string {
  using Plain = std::string;  // the type in JSON

  using std::string::string;
  using std::string::operator=;
  Text() = default;
  Text(std::string text) : std::string(std::move(text)) {}
};

// The tags are not named Process or Device, which are names of classes.
using ProcessId = Text<struct IdOfProcess>;
using DeviceId = Text<struct IdOfDevice>;
// The id of a row of stacks[]: that of its process, a colon and a number.
using StackId = Text<struct IdOfStack>;
// The id of something that a process has: that of the process, a colon, perhaps that of a device
// and another colon, and a name.
using PartId = Text<struct IdOfPart>;

// A point of time on the job's clock: a number that visitors of rows tell from others by its type.
class JobTime {
 public:
  using Plain = std::uint64_t;  // the type in JSON

  JobTime() = default;
  JobTime(std::uint64_t ns) : ns_(ns) {}
  operator std::uint64_t() const { return ns_; }

 private:
  std::uint64_t ns_ = 0;
};

}  // namespace gpumemtrace::analyzer::rows
