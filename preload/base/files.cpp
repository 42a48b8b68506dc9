// SPDX-License-Identifier: Apache-2.0
#include "preload/base/files.hpp"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "preload/base/file_thread.hpp"
#include "preload/base/libc_compat.hpp"
#include "preload/base/sections.hpp"

namespace gpumemtrace::preload {
namespace {

// Makes the stat system call by its number: the symbol version of fstat() is newer than the oldest
// glibc that we run on, and older sandboxes forbid statx.
[[GPUMEMTRACE_START_CODE]] bool describe(int folder, const char* path, int flags,
                                         struct stat& status) noexcept {
  return syscall(SYS_newfstatat, folder, path, &status, flags) == 0;
}

[[GPUMEMTRACE_START_CODE]] bool identify_at(int folder, const char* path, int flags,
                                            FileIdentity& identity) noexcept {
  struct stat status;
  if (!describe(folder, path, flags, status)) return false;
  identity.device = status.st_dev;
  identity.inode = status.st_ino;
  return true;
}

}  // namespace

int open_regular(const char* path, int flags) noexcept {
  struct stat status;
  const int follow = (flags & O_NOFOLLOW) != 0 ? AT_SYMLINK_NOFOLLOW : 0;
  // The file's type is asked before opening, because opening a device may do something, and after
  // opening, because the file may have been replaced.
  if (!describe(AT_FDCWD, path, follow, status) || !S_ISREG(status.st_mode)) return -1;
  const int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | flags);
  if (descriptor < 0) return -1;
  if (describe(descriptor, "", AT_EMPTY_PATH, status) && S_ISREG(status.st_mode)) return descriptor;
  close(descriptor);
  return -1;
}

bool is_locked_by_another(const char* path) noexcept {
  return file_thread::run([&]() noexcept {
    const int descriptor = open_regular(path, O_NOFOLLOW);
    if (descriptor < 0) return false;
    struct flock lock = {};
    lock.l_type = F_WRLCK;
    lock.l_whence = SEEK_SET;
    const bool is_locked =
        gpumemtrace_libc_fcntl(descriptor, F_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
    close(descriptor);
    return is_locked;
  });
}

int read_at(int descriptor, std::uint64_t offset, void* data, std::size_t bytes) noexcept {
  char* position = static_cast<char*>(data);
  while (bytes > 0) {
    const ssize_t got = pread(descriptor, position, bytes, static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return errno;
    if (got == 0) return EIO;
    position += got;
    offset += static_cast<std::uint64_t>(got);
    bytes -= static_cast<std::size_t>(got);
  }
  return 0;
}

void make_folders(const char* path) noexcept {
  char partial[4096];
  for (std::size_t i = 0; path[i] != '\0' && i + 1 < sizeof partial; ++i) {
    partial[i] = path[i];
    if (path[i] != '/' || i == 0) continue;
    partial[i] = '\0';
    mkdir(partial, 0700);
    partial[i] = '/';
  }
}

[[GPUMEMTRACE_START_CODE]] bool identify(int descriptor, FileIdentity& identity) noexcept {
  return identify_at(descriptor, "", AT_EMPTY_PATH, identity);
}

bool identify(const char* path, FileIdentity& identity) noexcept {
  return identify_at(AT_FDCWD, path, 0, identity);
}

FileState state_of(int descriptor, std::uint64_t bytes) noexcept {
  struct stat status;
  // kWhole also if the kernel does not describe the file.
  if (!describe(descriptor, "", AT_EMPTY_PATH, status)) return FileState::kWhole;
  if (status.st_nlink == 0) return FileState::kRemoved;
  return static_cast<std::uint64_t>(status.st_size) < bytes ? FileState::kCut : FileState::kWhole;
}

std::size_t read_small_file(const char* path, char* out, std::size_t capacity) noexcept {
  return file_thread::run([&]() noexcept {
    std::size_t size = 0;
    const int descriptor = open_regular(path);
    if (descriptor < 0) return size;
    while (size < capacity) {
      const ssize_t got = read(descriptor, out + size, capacity - size);
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) break;
      size += static_cast<std::size_t>(got);
    }
    close(descriptor);
    return size;
  });
}

}  // namespace gpumemtrace::preload
