// Copies records into the program's buffers and completes them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cupti/client.hpp"
#include "cupti/walk.hpp"

namespace gpumemtrace::cupti {

// One completed buffer's worth, on the thread that CUPTI completes it on. The program's callbacks
// are called with no lock held; a buffer is asked for when the first record comes.
class Delivery {
 public:
  Delivery(const Callbacks& callbacks, Context context, std::uint32_t stream) noexcept
      : callbacks_(callbacks), context_(context), stream_(stream) {}
  Delivery(const Delivery&) = delete;
  Delivery& operator=(const Delivery&) = delete;

  void add(const RawRecord& record) noexcept;
  void finish() noexcept;
  // Records for which the program had no room.
  std::uint64_t dropped() const noexcept { return dropped_; }

 private:
  bool has_room(std::size_t bytes) const noexcept;

  Callbacks callbacks_;
  Context context_;
  std::uint32_t stream_;
  std::uint8_t* buffer_ = nullptr;
  std::size_t bytes_ = 0;
  std::size_t used_bytes_ = 0;
  std::size_t most_records_ = 0;  // 0: as many as fit
  std::size_t records_ = 0;
  std::uint64_t dropped_ = 0;
};

}  // namespace gpumemtrace::cupti
