// SPDX-License-Identifier: Apache-2.0
// Returns 0 if a program that was linked for an old glibc works: constructors, exceptions,
// threads.
#include <stdexcept>
#include <string>
#include <thread>

namespace {

struct Constructed {
  std::string text = "made before main()";
} constructed;

}  // namespace

int main() {
  thread_local int of_thread = 1;
  std::thread([] { of_thread = 2; }).join();
  try {
    if (constructed.text.size() == 18 && of_thread == 1) throw std::runtime_error("thrown");
  } catch (const std::runtime_error&) {
    return 0;
  }
  return 1;
}
