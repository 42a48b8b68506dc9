// SPDX-License-Identifier: Apache-2.0
// A C++ program that embeds a Python interpreter and a second interpreter in it.
// Usage: embeds_python LIBPYTHON [SCRIPT [STOP_FILE]]
// With STOP_FILE, CUDA is used before there is an interpreter, and the script runs repeatedly until
// that file exists, and then once more. Without SCRIPT, CUDA is used while there is an interpreter
// and after its library was unloaded.
#include <dlfcn.h>
#include <unistd.h>

#include <cstdio>
#include <string>

#include "tests/end_to_end/victims/driver_calls.hpp"

namespace gpumemtrace::victims {
namespace {

void* library = nullptr;

template <class Function>
Function* python(const char* symbol) {
  void* const found = dlsym(library, symbol);
  require(found != nullptr, symbol);
  return reinterpret_cast<Function*>(found);
}

// Runs the script in the current interpreter as `python3 SCRIPT SIZE` would.
void run_script(const std::string& script, std::size_t first_size) {
  const std::string code = "import sys\nsys.argv = ['embedded', '" + std::to_string(first_size) +
                           "']\nexec(compile(open('" + script + "').read(), '" + script +
                           "', 'exec'), {'__name__': '__main__'})\n";
  require(python<int(const char*)>("PyRun_SimpleString")(code.c_str()) == 0, "the script failed");
}

void run_until(const char* stop_file, const std::string& script) {
  std::size_t first_size = std::size_t{1} << 20;
  bool is_last = false;
  while (!is_last) {
    is_last = access(stop_file, F_OK) == 0;
    run_script(script, first_size);
    first_size += std::size_t{1} << 20;
  }
}

void run_in_two_interpreters(const std::string& script) {
  run_script(script, std::size_t{1} << 20);
  void* const first = python<void*()>("PyThreadState_Get")();
  void* const second = python<void*()>("Py_NewInterpreter")();
  require(second != nullptr, "no second interpreter");
  run_script(script, std::size_t{2} << 20);
  python<void(void*)>("Py_EndInterpreter")(second);
  python<void*(void*)>("PyThreadState_Swap")(first);
  run_script(script, std::size_t{3} << 20);
}

void end_interpreter() {
  require(python<int()>("Py_FinalizeEx")() == 0, "the interpreter did not end in order");
}

void use_cuda_while_and_after(const char* path) {
  constexpr int kAllocations = 1000;
  require(python<int(const char*)>("PyRun_SimpleString")("pass") == 0, "the interpreter failed");
  start_driver();
  free_memory(allocate(512));
  end_interpreter();
  dlclose(library);
  require(dlopen(path, RTLD_NOW | RTLD_NOLOAD) == nullptr, "the library was not unloaded");
  for (int i = 0; i < kAllocations; ++i) free_memory(allocate(1024));
}

}  // namespace
}  // namespace gpumemtrace::victims

int main(int count, char** arguments) {
  using namespace gpumemtrace::victims;
  require(count >= 2 && count <= 4, "usage: embeds_python LIBPYTHON [SCRIPT [STOP_FILE]]");
  // RTLD_GLOBAL: extension modules find the interpreter's functions among the global symbols.
  library = dlopen(arguments[1], RTLD_NOW | RTLD_GLOBAL);
  require(library != nullptr, dlerror());
  if (count == 4) start_driver();
  python<void(int)>("Py_InitializeEx")(0);
  if (count == 2) {
    use_cuda_while_and_after(arguments[1]);
    return 0;
  }
  if (count == 4) {
    run_until(arguments[3], arguments[2]);
  } else {
    run_in_two_interpreters(arguments[2]);
  }
  end_interpreter();
  start_driver();
  free_memory(allocate(512));
  return 0;
}
