// SPDX-License-Identifier: Apache-2.0
#include "preload/base/message.hpp"

#include <errno.h>
#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <iterator>

#include "preload/base/errno_keeper.hpp"
#include "preload/base/files.hpp"
#include "preload/base/libc_compat.hpp"

namespace gpumemtrace::preload {
namespace {

constinit bool silent = false;
constinit bool had_standard_error = true;
constinit FileIdentity standard_error;  // none: the kernel did not tell

// A program that has closed its standard error may have a file of data under the number.
bool has_place_for_messages() noexcept {
  FileIdentity now;
  if (had_standard_error &&
      (standard_error == FileIdentity{} || (identify(2, now) && now == standard_error))) {
    return true;
  }
  const int flags = gpumemtrace_libc_fcntl(2, F_GETFL);
  return flags >= 0 && (flags & O_APPEND) != 0;
}

void write_message(const Line& line) noexcept {
  char prefix[] = "gpumemtrace: ";
  char end[] = "\n";
  const iovec whole[] = {{prefix, sizeof prefix - 1},
                         {const_cast<char*>(line.text().data()), line.size()},
                         {end, sizeof end - 1}};
  [[maybe_unused]] const ssize_t ignored = writev(2, whole, std::size(whole));
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

void remember_standard_error() noexcept {
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
