// SPDX-License-Identifier: Apache-2.0
// Which files a command may write: it is asked before the work, so that nobody waits for a refusal.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace gpumemtrace::tools {

// - What the command reads is never written, under whatever name or link. Nor is any trace, or its
//   ring.
// - Another file that is there is replaced only if `force` says so, or where the command itself
//   wrote it before: then its first bytes hold `own_mark`.
// - A device, a pipe, an empty file and a link (which goes, not what it names) are no such file.
class OutputRules {
 public:
  explicit OutputRules(bool force) : force_(force) {}

  // Adds an input: a file, a trace with its ring, or a folder with all of its traces. Missing files
  // are reported by the code that opens them.
  void reads(const std::filesystem::path& input);
  void reads(const std::vector<std::filesystem::path>& inputs);

  // Throws Failure for an output that may not be written, also for one that was named before.
  // Nothing if `output` is stdout.
  void require_writable(const std::filesystem::path& output, std::string_view own_mark = {});

 private:
  using FileId = std::pair<dev_t, ino_t>;

  bool force_ = false;
  std::set<FileId> read_;
  std::set<std::filesystem::path> written_;
};

}  // namespace gpumemtrace::tools
