// SPDX-License-Identifier: Apache-2.0
// Prints what dlsym and dlvsym return for many symbols, with dlerror and errno, so that a test can
// compare runs with and without the recorder. Prints the library of each address, not the address.
// Usage: lookups none|local|global (how the driver is loaded)
#include <dlfcn.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <initializer_list>

// The program exports these functions under names that look like the driver's; the recorder exports
// the second one, too.
extern "C" {
[[gnu::visibility("default")]] int cuFunctionOfTheProgram() { return 1; }
[[gnu::visibility("default")]] int cuMemcpyBatchAsync() { return 2; }
}

namespace {

constexpr int kErrno = 4711;

const char* file_name(const char* path) {
  const char* const slash = std::strrchr(path, '/');
  return slash == nullptr ? path : slash + 1;
}

// The library that contains the address. The recorder's functions are printed as the driver's: in a
// run with the recorder, its functions take the place of the driver's.
const char* owner_of(void* address) {
  Dl_info info;
  if (dladdr(address, &info) == 0) return "nobody";
  const char* const name = file_name(info.dli_fname);
  return std::strcmp(name, "libgpumemtrace.so") == 0 ? "libcuda.so.1" : name;
}

void tell(const char* question, void* answer) {
  const int errno_after = errno;
  const char* const error = dlerror();
  std::printf("%s: %s, %s, errno %s\n", question, answer == nullptr ? "null" : owner_of(answer),
              error == nullptr ? "no error" : error, errno_after == kErrno ? "kept" : "changed");
}

void ask(const char* whose, void* handle, const char* symbol) {
  char question[200];
  std::snprintf(question, sizeof question, "dlsym(%s, %s)", whose, symbol);
  dlerror();
  errno = kErrno;
  tell(question, dlsym(handle, symbol));
}

void ask_version(const char* whose, void* handle, const char* symbol, const char* version) {
  char question[200];
  std::snprintf(question, sizeof question, "dlvsym(%s, %s, %s)", whose, symbol, version);
  dlerror();
  errno = kErrno;
  tell(question, dlvsym(handle, symbol, version));
}

void ask_about(const char* symbol) {
  void* const math = dlopen("libm.so.6", RTLD_NOW);
  ask("default", RTLD_DEFAULT, symbol);
  ask("program", dlopen(nullptr, RTLD_NOW), symbol);
  ask("libm", math, symbol);
  ask_version("libm", math, symbol, "GLIBC_2.2.5");
  ask_version("libm", math, symbol, "GLIBC_9.9");
  ask_version("default", RTLD_DEFAULT, symbol, "GLIBC_9.9");
}

void ask_driver(int mode) {
  void* const driver = dlopen("libcuda.so.1", mode);
  if (driver == nullptr) {
    std::printf("no driver\n");
    return;
  }
  for (const char* symbol : {"cuInit", "cuMemAlloc_v2", "cuGetProcAddress_v2", "cuNoSuchThing_v9",
                             "cuGetErrorName", "malloc"}) {
    ask("driver", driver, symbol);
    ask_version("driver", driver, symbol, "GLIBC_9.9");
  }
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 2) return 2;
  const char* const driver = arguments[1];
  if (std::strcmp(driver, "local") == 0) ask_driver(RTLD_NOW | RTLD_LOCAL);
  if (std::strcmp(driver, "global") == 0) ask_driver(RTLD_NOW | RTLD_GLOBAL);
  for (const char* symbol : {"malloc", "cos", "cosl_of_nobody", "c", "cu", "cuNoSuchThing_v9",
                             "cuFunctionOfTheProgram"}) {
    ask_about(symbol);
    ask("next", RTLD_NEXT, symbol);
  }
  // RTLD_NEXT finds the recorder's function, since the recorder follows the program in the order of
  // libraries.
  ask_about("cuMemcpyBatchAsync");
  // cuInit is left out if the driver is loaded locally: a program finds it there only with the
  // recorder.
  if (std::strcmp(driver, "local") != 0) ask_about("cuInit");
  return 0;
}
