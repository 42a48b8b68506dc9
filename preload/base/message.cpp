// SPDX-License-Identifier: Apache-2.0
#include "preload/base/message.hpp"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include <iterator>

#include "preload/base/files.hpp"
#include "preload/base/sections.hpp"
#include "preload/base/thread_guards.hpp"

namespace gpumemtrace::preload {
namespace {

constinit bool silent = false;
[[GPUMEMTRACE_START_DATA]] constinit bool had_standard_error = true;
[[GPUMEMTRACE_START_DATA]] constinit FileIdentity standard_error;  // zeros: not known

// False if messages could damage a file: a program that has closed its standard error may have a
// file of data under descriptor 2.
bool has_place_for_messages() noexcept {
  FileIdentity now;
  if (had_standard_error &&
      (standard_error == FileIdentity{} || (identify(2, now) && now == standard_error))) {
    return true;
  }
  const long flags = syscall(SYS_fcntl, 2, F_GETFL, 0);
  return flags >= 0 && (flags & O_APPEND) != 0;
}

// The signals that the kernel sends to a writing thread if nobody reads the pipe, or if the file
// would exceed its size limit. They would end the program.
constexpr std::uint64_t kSignalsOfWriting = signal_set(SIGPIPE, SIGXFSZ);

// The signals that are pending; all signals if the kernel does not say, so that none is taken back.
std::uint64_t pending_signals() noexcept {
  std::uint64_t pending = 0;
  return syscall(SYS_rt_sigpending, &pending, sizeof pending) == 0 ? pending : ~std::uint64_t{0};
}

// True if standard error has room for a whole message, or will have within a tenth of a second.
bool can_be_written() noexcept {
  pollfd file = {2, POLLOUT, 0};
  timespec rest = {0, 100'000'000};  // after a signal, the kernel leaves the remaining time here
  long ready = 0;
  do {
    ready = syscall(SYS_ppoll, &file, 1, &rest, nullptr, sizeof(std::uint64_t));
  } while (ready < 0 && errno == EINTR);
  return ready != 0;  // true also if a sandbox forbids ppoll
}

// Uses system calls directly, because libc's functions are cancellation points.
void write_message(const Line& line) noexcept {
  char prefix[] = "gpumemtrace: ";
  char end[] = "\n";
  const std::size_t room = PIPE_BUF - sizeof prefix - sizeof end;
  const iovec whole[] = {
      {prefix, sizeof prefix - 1},
      {const_cast<char*>(line.text().data()), line.size() < room ? line.size() : room},
      {end, sizeof end - 1}};
  const SignalsBlocked signals_blocked(kSignalsOfWriting);
  const std::uint64_t pending_before = pending_signals();
  if (!can_be_written() || syscall(SYS_writev, 2, whole, std::size(whole)) >= 0) return;
  // Takes back the signal that this write has raised; a signal that was pending before stays.
  const std::uint64_t raised = kSignalsOfWriting & ~pending_before;
  const timespec now = {};
  while (syscall(SYS_rt_sigtimedwait, &raised, nullptr, &now, sizeof raised) > 0) {
  }
}

}  // namespace

Line& Line::operator<<(std::string_view text) noexcept {
  for (const char c : text) {
    if (size_ == kCapacity) break;
    buffer_[size_++] = c;
  }
  return *this;
}

Line& Line::operator<<(std::uint64_t number) noexcept {
  char digits[20];
  std::size_t count = 0;
  do {
    digits[count++] = static_cast<char>('0' + number % 10);
    number /= 10;
  } while (number != 0);
  while (count > 0) *this << std::string_view(&digits[--count], 1);
  return *this;
}

[[GPUMEMTRACE_START_CODE]] void remember_standard_error() noexcept {
  had_standard_error = identify(2, standard_error) || errno != EBADF;
}

void silence_messages() noexcept { silent = true; }

void message(const Line& line) noexcept {
  const ErrnoKeeper errno_keeper;
  if (!silent && has_place_for_messages()) write_message(line);
}

std::string_view errno_text(int error) noexcept {
  switch (error) {
    case EACCES:
      return "permission denied";
    case EPERM:
    case ENOSYS:
      return "the system does not permit it, perhaps by a sandbox's filter";
    case EROFS:
      return "the file system is read-only";
    case ENOSPC:
      return "no space left on the device";
    case EDQUOT:
      return "the disk quota is used up";
    case EFBIG:
      return "the file would be larger than the limit allows";
    case EBADF:
      return "the program has closed the recorder's file";
    case ENOENT:
      return "no such folder";
    case ENAMETOOLONG:
      return "the name is too long";
    case EMFILE:
    case ENFILE:
      return "too many open files";
    case ENOMEM:
      return "out of memory";
    case ENODEV:
    case EOPNOTSUPP:
      return "the file system does not support shared memory mappings";
    case EEXIST:
      return "the file exists";
    default:
      return "system error";
  }
}

}  // namespace gpumemtrace::preload
