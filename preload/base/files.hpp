// SPDX-License-Identifier: Apache-2.0
// The few file operations of the recorder. Errors are errno values; nothing here prints. Callers
// that open files run on the file thread.
#pragma once

#include <cstddef>
#include <cstdint>

namespace gpumemtrace::preload {

// Opens a regular file to read it; -1 for any other kind of file, which could block or do something
// when it is opened: a pipe, a device, a socket. `flags` are added to those of open().
[[nodiscard]] int open_regular(const char* path, int flags = 0) noexcept;

// True if another process holds a lock on the file (OwnFile::lock()). Not for a file that this
// process has locked: closing any descriptor of that file would give the lock up.
[[nodiscard]] bool is_locked_by_another(const char* path) noexcept;

// Reads exactly `bytes` at `offset`; 0 or an errno value, EIO if the file ends before.
[[nodiscard]] int read_at(int descriptor, std::uint64_t offset, void* data,
                          std::size_t bytes) noexcept;

// Makes all missing folders of `path`, but not its last part, accessible to the user alone.
void make_folders(const char* path) noexcept;

// Identity of an open file, to notice that the program closed our descriptor and that its number
// now belongs to another file.
struct FileIdentity {
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  friend bool operator==(const FileIdentity&, const FileIdentity&) = default;
};
[[nodiscard]] bool identify(int descriptor, FileIdentity& identity) noexcept;
[[nodiscard]] bool identify(const char* path, FileIdentity& identity) noexcept;

// The state of an open file to which we have written `bytes` bytes: whole, removed from its folder,
// or cut to fewer bytes.
enum class FileState { kWhole, kRemoved, kCut };
[[nodiscard]] FileState state_of(int descriptor, std::uint64_t bytes) noexcept;

// Reads a small file as a whole; returns the number of bytes, 0 on any error.
std::size_t read_small_file(const char* path, char* out, std::size_t capacity) noexcept;

}  // namespace gpumemtrace::preload
