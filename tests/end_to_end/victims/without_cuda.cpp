// SPDX-License-Identifier: Apache-2.0
// A C++ program that never uses CUDA. Prints how many threads it has and which descriptors are
// open.
#include <dirent.h>

#include <algorithm>
#include <iostream>
#include <string>
#include <vector>

namespace {

std::vector<std::string> entries_of(const char* folder) {
  std::vector<std::string> names;
  DIR* const opened = opendir(folder);
  if (opened == nullptr) return names;
  while (const dirent* const entry = readdir(opened)) names.emplace_back(entry->d_name);
  closedir(opened);
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace

int main() {
  std::cout << "threads " << entries_of("/proc/self/task").size() - 2 << "\n";
  for (const std::string& name : entries_of("/proc/self/fd")) std::cout << name << " ";
  std::cout << "\n";
  return 0;
}
