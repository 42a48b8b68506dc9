// SPDX-License-Identifier: Apache-2.0
// Uses the driver while it holds the loader's locks: inside the constructor of a library that is
// being opened, and there inside dl_iterate_phdr(). Prints when it does so, and continues after a
// line on its standard input. Usage: loader_lock LIBRARY
#include <link.h>

#include "tests/end_to_end/victims/driver_calls.hpp"

namespace gpumemtrace::victims {
namespace {

int use_cuda(dl_phdr_info*, std::size_t, void*) {
  start_driver();
  free_memory(allocate(4096));
  std::puts("inside");
  std::fflush(stdout);
  require(std::getchar() != EOF, "nobody tells to go on");
  return 1;
}

}  // namespace
}  // namespace gpumemtrace::victims

// The constructor in victims/constructor_library.cpp calls this function.
extern "C" [[gnu::visibility("default")]] void constructor_runs() {
  dl_iterate_phdr(gpumemtrace::victims::use_cuda, nullptr);
}

int main(int count, char** arguments) {
  using namespace gpumemtrace::victims;
  require(count == 2, "usage: loader_lock LIBRARY");
  require(dlopen(arguments[1], RTLD_NOW) != nullptr, "the library cannot be opened");
  return 0;
}
