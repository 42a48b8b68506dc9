// SPDX-License-Identifier: Apache-2.0
#include "preload/base/own_file.hpp"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "preload/base/file_thread.hpp"
#include "preload/base/libc_compat.hpp"

namespace gpumemtrace::preload {
namespace {

constexpr int kFirstDescriptor = 500;

// Growing a file beyond the process's limit (RLIMIT_FSIZE) would raise SIGXFSZ, which ends the
// program.
bool is_beyond_size_limit(std::uint64_t end) noexcept {
  rlimit limit;
  return getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
         end > limit.rlim_cur;
}

}  // namespace

int OwnFile::create(const char* path) noexcept {
  return file_thread::run([&]() noexcept { return create_here(path); });
}

int OwnFile::create_here(const char* path) noexcept {
  const int low = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (low < 0) return errno;
  descriptor_ = low;
  if (const int high = gpumemtrace_libc_fcntl(low, F_DUPFD_CLOEXEC, kFirstDescriptor); high >= 0) {
    ::close(low);
    descriptor_ = high;
  }
  if (identify(descriptor_, identity_)) return 0;
  ::close(descriptor_);
  descriptor_ = -1;
  unlink(path);
  return EIO;
}

void OwnFile::close() noexcept {
  file_thread::run([&]() noexcept {
    if (is_ours()) ::close(descriptor_);
  });
  descriptor_ = -1;
}

int OwnFile::write_at(std::uint64_t offset, const void* data, std::size_t bytes) noexcept {
  return file_thread::run([&]() noexcept { return write_here(offset, data, bytes); });
}

int OwnFile::write_here(std::uint64_t offset, const void* data, std::size_t bytes) noexcept {
  if (is_beyond_size_limit(offset + bytes)) return EFBIG;
  const char* position = static_cast<const char*>(data);
  while (bytes > 0) {
    if (!is_ours()) return EBADF;
    const ssize_t written = pwrite(descriptor_, position, bytes, static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno;
    if (written == 0) return ENOSPC;
    position += written;
    offset += static_cast<std::uint64_t>(written);
    bytes -= static_cast<std::size_t>(written);
  }
  return 0;
}

int OwnFile::read_at(std::uint64_t offset, void* data, std::size_t bytes) const noexcept {
  return file_thread::run([&]() noexcept {
    return is_ours() ? preload::read_at(descriptor_, offset, data, bytes) : EBADF;
  });
}

int OwnFile::truncate(std::uint64_t bytes) noexcept {
  return file_thread::run([&]() noexcept {
    if (!is_ours()) return EBADF;
    return ftruncate(descriptor_, static_cast<off_t>(bytes)) == 0 ? 0 : errno;
  });
}

int OwnFile::allocate(std::uint64_t offset, std::uint64_t bytes) noexcept {
  return file_thread::run([&]() noexcept { return allocate_here(offset, bytes); });
}

// If the file system has no fallocate(), writes zeros instead.
int OwnFile::allocate_here(std::uint64_t offset, std::uint64_t bytes) noexcept {
  if (is_beyond_size_limit(offset + bytes)) return EFBIG;
  if (!is_ours()) return EBADF;
  if (fallocate(descriptor_, 0, static_cast<off_t>(offset), static_cast<off_t>(bytes)) == 0) {
    return 0;
  }
  // EPERM: a sandbox forbids fallocate.
  if (errno != EOPNOTSUPP && errno != ENOSYS && errno != EINTR && errno != EPERM) return errno;
  static constexpr char kZeros[4096] = {};
  for (std::uint64_t done = 0; done < bytes; done += sizeof kZeros) {
    if (const int error = write_here(offset + done, kZeros, sizeof kZeros); error != 0) {
      return error;
    }
  }
  return 0;
}

void OwnFile::release(std::uint64_t offset, std::uint64_t bytes) noexcept {
  file_thread::run([&]() noexcept {
    if (!is_ours()) return;
    fallocate(descriptor_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
              static_cast<off_t>(bytes));
  });
}

void* OwnFile::map(std::uint64_t bytes, int& error) noexcept {
  void* mapped = nullptr;
  error = EBADF;
  file_thread::run([&]() noexcept {
    if (!is_ours()) return;
    mapped = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor_, 0);
    error = mapped == MAP_FAILED ? errno : 0;
  });
  return error == 0 ? mapped : nullptr;
}

FileState OwnFile::state(std::uint64_t bytes) const noexcept {
  return file_thread::run(
      [&]() noexcept { return is_ours() ? state_of(descriptor_, bytes) : FileState::kWhole; });
}

void OwnFile::lock() noexcept {
  file_thread::run([&]() noexcept {
    if (!is_ours()) return;
    struct flock lock = {};
    lock.l_type = F_WRLCK;
    lock.l_whence = SEEK_SET;
    gpumemtrace_libc_fcntl(descriptor_, F_SETLK, &lock);
  });
}

// True if the descriptor still belongs to the file. Asks the kernel only if the program can close
// the descriptor.
bool OwnFile::is_ours() const noexcept {
  if (descriptor_ < 0 || file_thread::has_own_descriptors()) return descriptor_ >= 0;
  FileIdentity now;
  return identify(descriptor_, now) && now == identity_;
}

}  // namespace gpumemtrace::preload
