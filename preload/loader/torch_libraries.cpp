// SPDX-License-Identifier: Apache-2.0
#include "preload/loader/torch_libraries.hpp"

#include <string.h>

#include <string_view>

#include "preload/base/files.hpp"
#include "preload/base/message.hpp"
#include "preload/loader/loader_list.hpp"

namespace gpumemtrace::preload {
namespace {

constexpr std::string_view kLibrary = "/lib/libtorch_cpu.so";
constexpr std::string_view kVariable = "__version__";
constexpr std::size_t kMaxFileBytes = 4096;

// The text between quotation marks in the line that begins with the variable:
//   __version__ = '2.11.0+cu130'
std::string_view version_in(std::string_view content) noexcept {
  while (!content.empty()) {
    const std::size_t end = content.find('\n');
    const std::string_view line = slice(content, 0, end);
    if (line.starts_with(kVariable)) {
      const std::size_t begin = line.find_first_of("'\"");
      if (begin == line.npos) return {};
      const std::string_view text = slice(line, begin + 1);
      const std::size_t close = text.find(line[begin]);
      return close == text.npos ? std::string_view() : slice(text, 0, close);
    }
    content = end == content.npos ? std::string_view() : slice(content, end + 1);
  }
  return {};
}

}  // namespace

std::size_t read_torch_version(const LoaderList& modules, char* out,
                               std::size_t capacity) noexcept {
  std::string_view library;
  const bool is_found = modules.visit([&](const dl_phdr_info& info) noexcept {
    library = info.dlpi_name;
    return library.ends_with(kLibrary);
  });
  if (!is_found) return 0;
  Line path;
  path << slice(library, 0, library.size() - kLibrary.size()) << "/version.py";
  char content[kMaxFileBytes];
  const std::size_t size = read_small_file(path.c_str(), content, sizeof content);
  const std::string_view version = version_in({content, size});
  if (version.size() > capacity) return 0;
  memcpy(out, version.data(), version.size());
  return version.size();
}

}  // namespace gpumemtrace::preload
