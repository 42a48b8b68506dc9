// SPDX-License-Identifier: Apache-2.0
// A file that the recorder made and keeps open, in a process whose program may close any number and
// open a file of its own under it: the file thread has the number.
#pragma once

#include <cstddef>
#include <cstdint>

#include "preload/base/files.hpp"

namespace gpumemtrace::preload {

// - Every verb runs on the file thread and waits (file_thread::run()): a caller of several in a row
//   does them all in one run().
// - If that thread has no descriptors of its own, it asks the kernel first whether the number is
//   still that of the file; if not, the verb returns EBADF and touches nothing. Question and access
//   are two system calls: a program that exchanges the file between them is not protected
//   (docs/internals/reliability.md).
// - All return 0 or an errno value; nothing here prints.
class OwnFile {
 public:
  // Makes a new file for reading and writing, mode 0600, closed on exec, at a high number out of
  // the way of programs that expect low ones. Fails if the file exists.
  [[nodiscard]] int create(const char* path) noexcept;
  // Closes the number. The file stays.
  void close() noexcept;

  [[nodiscard]] int write_at(std::uint64_t offset, const void* data, std::size_t bytes) noexcept;
  // EIO if the file ends before.
  [[nodiscard]] int read_at(std::uint64_t offset, void* data, std::size_t bytes) const noexcept;
  [[nodiscard]] int truncate(std::uint64_t bytes) noexcept;
  // Allocates the bytes on disk: later stores through a mapping cannot fail for want of space.
  [[nodiscard]] int allocate(std::uint64_t offset, std::uint64_t bytes) noexcept;
  // Returns the disk space of the bytes, if the file system can.
  void release(std::uint64_t offset, std::uint64_t bytes) noexcept;
  // Maps the first bytes, shared; they may lie past the file's end. nullptr with `error` set.
  [[nodiscard]] void* map(std::uint64_t bytes, int& error) noexcept;
  // Changes that others have made to the file, which had so many bytes.
  [[nodiscard]] FileState state(std::uint64_t bytes) const noexcept;
  // Takes the lock that tells readers the trace is being written.
  void lock() noexcept;

  const FileIdentity& identity() const noexcept { return identity_; }

 private:
  // These run on the file thread.
  [[nodiscard]] int create_here(const char* path) noexcept;
  [[nodiscard]] int write_here(std::uint64_t offset, const void* data, std::size_t bytes) noexcept;
  [[nodiscard]] int allocate_here(std::uint64_t offset, std::uint64_t bytes) noexcept;
  [[nodiscard]] bool is_ours() const noexcept;

  int descriptor_ = -1;
  FileIdentity identity_;
};

}  // namespace gpumemtrace::preload
