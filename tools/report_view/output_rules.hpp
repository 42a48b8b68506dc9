// SPDX-License-Identifier: Apache-2.0
// Decides which files a command may write. Commands ask before their work, so that no user waits
// long only to be refused.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace gpumemtrace::tools {

// - A file that the command reads is never written, under whatever name or link. Neither is a
//   trace, or its ring.
// - Another existing file is replaced only if `force` is set, or if the command itself wrote the
//   file before: then its first bytes hold `own_mark`.
// - A device, a pipe, an empty file and a link need no `force`. Writing replaces the link, not the
//   file that it points to.
class OutputRules {
 public:
  explicit OutputRules(bool force) : force_(force) {}

  // Adds an input: a file, a trace with its ring, or a folder with all of its traces and partial
  // reports. Missing files are reported by the code that opens them.
  void reads(const std::filesystem::path& input);
  void reads(const std::vector<std::filesystem::path>& inputs);

  // Throws Failure if `output` may not be written, or was passed before. Does nothing if `output`
  // is stdout.
  void require_writable(const std::filesystem::path& output, std::string_view own_mark = {});

 private:
  using FileId = std::pair<dev_t, ino_t>;

  bool force_ = false;
  std::set<FileId> read_;
  std::set<std::filesystem::path> written_;
};

}  // namespace gpumemtrace::tools
