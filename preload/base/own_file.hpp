// SPDX-License-Identifier: Apache-2.0
// A file that the recorder made and keeps open, in a process whose program may close any descriptor
// and open a file of its own under that number: the file thread has the descriptor.
#pragma once

#include <cstddef>
#include <cstdint>

#include "preload/base/files.hpp"

namespace gpumemtrace::preload {

// - Every function runs on the file thread while the caller waits (file_thread::run()): a caller
//   that needs several in a row calls them all in one run().
// - If the file thread has no descriptors of its own, it asks the kernel first whether the
//   descriptor is still that of the file; if not, the function touches nothing and returns EBADF
//   if it returns errors.
//   Question and access are two system calls: a program that puts another file under the number
//   between them is not protected (docs/internals/reliability.md).
// - All functions with an int return 0 or an errno value; nothing here prints.
class OwnFile {
 public:
  // Makes a new file for reading and writing, mode 0600, closed on exec, at a high number out of
  // the way of programs that expect low ones. Fails if the file exists.
  [[nodiscard]] int create(const char* path) noexcept;
  // Closes the descriptor. The file stays.
  void close() noexcept;

  [[nodiscard]] int write_at(std::uint64_t offset, const void* data, std::size_t bytes) noexcept;
  // Reads exactly `bytes` bytes; EIO if the file ends before.
  [[nodiscard]] int read_at(std::uint64_t offset, void* data, std::size_t bytes) const noexcept;
  [[nodiscard]] int truncate(std::uint64_t bytes) noexcept;
  // Allocates the bytes on disk: later stores through a mapping cannot fail for want of space.
  // The bytes must never have been written, because they are zero afterwards if the file system has
  // no fallocate(). `bytes` is a multiple of 4096.
  [[nodiscard]] int allocate(std::uint64_t offset, std::uint64_t bytes) noexcept;
  // Gives the disk space of the bytes back, if the file system can.
  void release(std::uint64_t offset, std::uint64_t bytes) noexcept;
  // Maps the file's first bytes, shared; they may lie past its end. On failure returns nullptr and
  // sets `error`.
  [[nodiscard]] void* map(std::uint64_t bytes, int& error) noexcept;
  // The state of the file, as state_of() tells it; kWhole if the descriptor is no longer ours.
  [[nodiscard]] FileState state(std::uint64_t bytes) const noexcept;
  // Takes the lock that tells readers the trace is being written.
  void lock() noexcept;

  const FileIdentity& identity() const noexcept { return identity_; }

 private:
  // The following functions run on the file thread.
  [[nodiscard]] int create_here(const char* path) noexcept;
  [[nodiscard]] int write_here(std::uint64_t offset, const void* data, std::size_t bytes) noexcept;
  [[nodiscard]] int allocate_here(std::uint64_t offset, std::uint64_t bytes) noexcept;
  [[nodiscard]] bool is_ours() const noexcept;

  int descriptor_ = -1;
  FileIdentity identity_;
};

}  // namespace gpumemtrace::preload
