#include "cupti/delivery.hpp"

#include <string.h>

namespace gpumemtrace::cupti {

bool Delivery::has_room(std::size_t bytes) const noexcept {
  return buffer_ != nullptr && bytes <= bytes_ - used_bytes_ &&
         (most_records_ == 0 || records_ < most_records_);
}

void Delivery::add(const RawRecord& record) noexcept {
  if (!has_room(record.size)) {
    finish();
    callbacks_.request(&buffer_, &bytes_, &most_records_);
  }
  if (!has_room(record.size)) {
    ++dropped_;
    return;
  }
  memcpy(buffer_ + used_bytes_, record.bytes, record.size);
  used_bytes_ += record.size;
  ++records_;
}

void Delivery::finish() noexcept {
  if (buffer_ != nullptr) {
    callbacks_.complete(context_, stream_, buffer_, bytes_, used_bytes_);
  }
  buffer_ = nullptr;
  bytes_ = used_bytes_ = most_records_ = records_ = 0;
}

}  // namespace gpumemtrace::cupti
