#include "preload/message.hpp"

#include <errno.h>
#include <unistd.h>

namespace gpumemtrace::preload {
namespace {
constinit bool silent = false;
}

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

void silence_messages() noexcept { silent = true; }

void message(const Line& line) noexcept {
  if (silent) return;
  const int saved_errno = errno;
  Line whole;
  whole << "gpumemtrace: " << line.text() << "\n";
  [[maybe_unused]] const ssize_t ignored = write(2, whole.text().data(), whole.size());
  errno = saved_errno;
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
