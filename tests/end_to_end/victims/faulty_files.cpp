// SPDX-License-Identifier: Apache-2.0
// A library to be preloaded before the recorder. It makes the recorder's calls of one libc function
// fail, as they would on a full disk or an odd file system. The program's own calls do not fail.
//
// - FAULTY_CALL: the name of the function, one of those below.
// - FAULTY_FILE: if set, only calls on files whose names end with this text fail.
// - FAULTY_FIRST, FAULTY_LAST: the numbers of the first and the last call that fail, from 1.
// - FAULTY_ERRNO: the errno of the failed calls.
// - FAULTY_STILL: if set, pwrite64 never returns instead of failing.
// - FAULTY_SLOW_MS: if set, the calls take this many milliseconds instead of failing.
// - FAULTY_HALF: if set, the pwrite64 call before call FAULTY_FIRST writes half of its bytes.
// - FAULTY_COUNTER: a file of eight bytes, which counts the calls of the function.
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdio>

namespace {

struct Fault {
  const char* function = nullptr;
  const char* file = nullptr;
  std::uint64_t first = 0;
  std::uint64_t last = 0;
  int error = 0;
  bool half = false;
  bool still = false;
  long slow_ms = 0;
  std::atomic<std::uint64_t>* calls = nullptr;
};
Fault fault;

std::uint64_t number_of(const char* variable) {
  const char* const text = getenv(variable);
  return text == nullptr ? 0 : std::strtoull(text, nullptr, 10);
}

template <class Function>
Function* next(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

[[gnu::constructor]] void read_environment() {
  const char* const counter = getenv("FAULTY_COUNTER");
  const int file = counter == nullptr ? -1 : open(counter, O_RDWR);
  if (file < 0) return;
  auto* const map = next<decltype(mmap64)>("mmap64");
  void* const mapped =
      map(nullptr, sizeof(std::uint64_t), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  if (mapped == MAP_FAILED) return;
  fault.calls = static_cast<std::atomic<std::uint64_t>*>(mapped);
  fault.function = getenv("FAULTY_CALL");
  fault.file = getenv("FAULTY_FILE");
  fault.first = number_of("FAULTY_FIRST");
  fault.last = number_of("FAULTY_LAST");
  fault.error = static_cast<int>(number_of("FAULTY_ERRNO"));
  fault.half = number_of("FAULTY_HALF") != 0;
  fault.still = number_of("FAULTY_STILL") != 0;
  fault.slow_ms = static_cast<long>(number_of("FAULTY_SLOW_MS"));
}

bool is_recorder(const void* caller) {
  Dl_info info;
  return dladdr(caller, &info) != 0 && strstr(info.dli_fname, "libgpumemtrace.so") != nullptr;
}

constexpr int kNoFile = -1;

bool is_meant(int file) {
  if (fault.file == nullptr) return true;
  char link[64];
  char name[4096] = {};
  std::snprintf(link, sizeof link, "/proc/thread-self/fd/%d", file);
  const ssize_t size = readlink(link, name, sizeof name - 1);
  const std::size_t wanted = strlen(fault.file);
  return size >= static_cast<ssize_t>(wanted) && strcmp(name + size - wanted, fault.file) == 0;
}

// Counts a call of the recorder's to the chosen function on a chosen file and returns its number,
// from 1; returns 0 for all other calls.
std::uint64_t count(const char* function, int file, const void* caller) {
  if (fault.calls == nullptr || strcmp(function, fault.function) != 0 || !is_recorder(caller) ||
      !is_meant(file)) {
    return 0;
  }
  return fault.calls->fetch_add(1) + 1;
}

bool fails(std::uint64_t number) {
  if (number == 0 || number < fault.first || number > fault.last) return false;
  if (fault.slow_ms == 0) return true;
  const timespec pause{fault.slow_ms / 1000, fault.slow_ms % 1000 * 1'000'000};
  nanosleep(&pause, nullptr);
  return false;
}

}  // namespace

// Defines a function that replaces libc's of the same name. Variadic functions are defined without
// `...`: on the machines that the recorder supports, the arguments lie in the same registers. `on`
// is the descriptor that the function works on, `failure` its result when it has to fail.
#define GPUMEMTRACE_FAULTY(result, name, parameters, arguments, on, failure)                \
  extern "C" [[gnu::visibility("default")]] result faulty_##name parameters __asm__(#name); \
  extern "C" result faulty_##name parameters {                                              \
    static auto* const real = next<result parameters>(#name);                               \
    if (!fails(count(#name, on, __builtin_return_address(0)))) return real arguments;       \
    errno = fault.error;                                                                    \
    return failure;                                                                         \
  }

GPUMEMTRACE_FAULTY(int, open64, (const char* path, int flags, unsigned mode), (path, flags, mode),
                   kNoFile, -1)
GPUMEMTRACE_FAULTY(int, fcntl, (int file, int command, void* argument), (file, command, argument),
                   file, -1)
GPUMEMTRACE_FAULTY(int, fallocate64, (int file, int mode, off64_t offset, off64_t bytes),
                   (file, mode, offset, bytes), file, -1)
GPUMEMTRACE_FAULTY(int, ftruncate64, (int file, off64_t bytes), (file, bytes), file, -1)
GPUMEMTRACE_FAULTY(int, rename, (const char* from, const char* to), (from, to), kNoFile, -1)
GPUMEMTRACE_FAULTY(ssize_t, pread64, (int file, void* data, std::size_t bytes, off64_t offset),
                   (file, data, bytes, offset), file, -1)
GPUMEMTRACE_FAULTY(void*, mmap64,
                   (void* where, std::size_t bytes, int access, int flags, int file,
                    off64_t offset),
                   (where, bytes, access, flags, file, offset), file, MAP_FAILED)
GPUMEMTRACE_FAULTY(void*, mremap, (void* old, std::size_t old_bytes, std::size_t bytes, int flags),
                   (old, old_bytes, bytes, flags), kNoFile, MAP_FAILED)

extern "C" [[gnu::visibility("default")]] ssize_t pwrite64(int file, const void* data,
                                                           std::size_t bytes, off64_t offset) {
  static auto* const real = next<decltype(pwrite64)>("pwrite64");
  const std::uint64_t number = count("pwrite64", file, __builtin_return_address(0));
  if (fault.half && number + 1 == fault.first) bytes = (bytes + 1) / 2;
  if (!fails(number)) return real(file, data, bytes, offset);
  while (fault.still) pause();
  errno = fault.error;
  return -1;
}

extern "C" [[gnu::visibility("default")]] int pthread_create(pthread_t* thread,
                                                             const pthread_attr_t* attributes,
                                                             void* (*start)(void*),
                                                             void* argument) {
  static auto* const real = next<decltype(pthread_create)>("pthread_create");
  if (fails(count("pthread_create", kNoFile, __builtin_return_address(0)))) return fault.error;
  return real(thread, attributes, start, argument);
}
