// SPDX-License-Identifier: Apache-2.0
// A library to be preloaded into the command `gpumemtrace`. It interrupts one of the calls by which
// the command writes, names or deletes files.
//
// - FAULTY_NUMBER: the number of that call, from 1, among all calls of write to files, fsync,
// rename
//   and remove.
// - FAULTY_HOW: "kill": the process is killed before the call; "fail": the call fails with EIO;
//   "damage": a renamed file has lost its last bytes.
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace {

std::atomic<int> calls = 0;

template <class Function>
Function* next(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

bool is_asked_to(std::string_view how) {
  const char* const asked = getenv("FAULTY_HOW");
  return asked != nullptr && asked == how;
}

bool is_chosen() {
  const char* const number = getenv("FAULTY_NUMBER");
  return number != nullptr && ++calls == std::strtol(number, nullptr, 10);
}

// Returns true if the present call has to fail; does not return if it has to kill the process.
bool fails() {
  if (!is_chosen()) return false;
  if (is_asked_to("kill")) raise(SIGKILL);
  errno = EIO;
  return is_asked_to("fail");
}

}  // namespace

extern "C" [[gnu::visibility("default")]] ssize_t write(int file, const void* data,
                                                        std::size_t bytes) {
  struct stat status;
  const bool is_file = fstat(file, &status) == 0 && S_ISREG(status.st_mode);
  if (is_file && fails()) return -1;
  return next<decltype(write)>("write")(file, data, bytes);
}

extern "C" [[gnu::visibility("default")]] int fsync(int file) {
  return fails() ? -1 : next<decltype(fsync)>("fsync")(file);
}

extern "C" [[gnu::visibility("default")]] int rename(const char* from, const char* to) noexcept {
  if (fails()) return -1;
  const int result = next<decltype(rename)>("rename")(from, to);
  struct stat status;
  if (is_asked_to("damage") && stat(to, &status) == 0 &&
      truncate(to, status.st_size - status.st_size / 2) != 0) {
    abort();
  }
  return result;
}

extern "C" [[gnu::visibility("default")]] int remove(const char* path) noexcept {
  return fails() ? -1 : next<decltype(remove)>("remove")(path);
}
