// SPDX-License-Identifier: Apache-2.0
// A file descriptor that is closed with its owner.
#pragma once

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace gpumemtrace::trace {

// The owner of a file descriptor. Several threads may read through one at once.
class OwnDescriptor {
 public:
  explicit OwnDescriptor(int number = -1) : number_(number) {}
  ~OwnDescriptor() {
    if (number_ >= 0) close(number_);
  }
  OwnDescriptor(OwnDescriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  OwnDescriptor& operator=(OwnDescriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }

  [[nodiscard]] bool is_open() const { return number_ >= 0; }
  int number() const { return number_; }

  // Bytes of the whole file; 0 if fstat() tells no size.
  std::uint64_t bytes() const {
    struct stat status;
    if (fstat(number_, &status) != 0 || status.st_size < 0) return 0;
    return static_cast<std::uint64_t>(status.st_size);
  }

  // Reads exactly `bytes` at `offset`; false at the end of the file or on an error.
  [[nodiscard]] bool read_at(std::uint64_t offset, void* out, std::size_t bytes) const {
    auto* position = static_cast<char*>(out);
    while (bytes > 0) {
      const ssize_t got = pread(number_, position, bytes, static_cast<off_t>(offset));
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) return false;
      position += got;
      offset += static_cast<std::uint64_t>(got);
      bytes -= static_cast<std::size_t>(got);
    }
    return true;
  }

  // Writes exactly `bytes` at `offset`; false on an error.
  [[nodiscard]] bool write_at(std::uint64_t offset, const void* data, std::size_t bytes) const {
    const auto* position = static_cast<const char*>(data);
    while (bytes > 0) {
      const ssize_t put = pwrite(number_, position, bytes, static_cast<off_t>(offset));
      if (put < 0 && errno == EINTR) continue;
      if (put <= 0) return false;
      position += put;
      offset += static_cast<std::uint64_t>(put);
      bytes -= static_cast<std::size_t>(put);
    }
    return true;
  }

 private:
  int number_;
};

}  // namespace gpumemtrace::trace
