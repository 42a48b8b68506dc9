// SPDX-License-Identifier: Apache-2.0
#include "analyzer/symbols/debuginfod.hpp"

#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>

namespace gpumemtrace::analyzer {
namespace {

// The few functions of elfutils/debuginfod.h that are needed. The library is opened when it is
// asked for: it brings half a dozen others, and most machines do not have it.
struct Library {
  void* handle = nullptr;
  void* (*begin)() = nullptr;
  int (*find)(void* client, const unsigned char* build_id, int bytes, char** path) = nullptr;
  void (*end)(void* client) = nullptr;

  Library() : handle(dlopen("libdebuginfod.so.1", RTLD_NOW | RTLD_LOCAL)) {
    if (handle == nullptr) return;
    begin = reinterpret_cast<decltype(begin)>(dlsym(handle, "debuginfod_begin"));
    find = reinterpret_cast<decltype(find)>(dlsym(handle, "debuginfod_find_debuginfo"));
    end = reinterpret_cast<decltype(end)>(dlsym(handle, "debuginfod_end"));
  }
  [[nodiscard]] bool is_usable() const {
    return begin != nullptr && find != nullptr && end != nullptr;
  }
};

}  // namespace

std::filesystem::path download_debug_info(const std::string& build_id) {
  static const Library library;
  if (!library.is_usable() || build_id.empty()) return {};
  void* client = library.begin();
  if (client == nullptr) return {};
  char* path = nullptr;
  const int file = library.find(client, reinterpret_cast<const unsigned char*>(build_id.data()),
                                static_cast<int>(build_id.size()), &path);
  std::filesystem::path found;
  if (file >= 0) {
    close(file);
    if (path != nullptr) found = path;
  }
  std::free(path);
  library.end(client);
  return found;
}

}  // namespace gpumemtrace::analyzer
