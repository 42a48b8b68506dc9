// SPDX-License-Identifier: Apache-2.0
#include "cupti/delivery.hpp"

#include <string.h>

namespace gpumemtrace::cupti {

void Delivery::ask() noexcept {
  if (buffer_.bytes != nullptr) return;
  callbacks_.request(&buffer_.bytes, &buffer_.size, &buffer_.most_records);
  if (buffer_.bytes == nullptr) buffer_ = {};
}

void Delivery::add(const RawRecord& record) noexcept {
  if (!buffer_.has_room(record.size)) {
    return_to_program();
    ask();
  }
  if (!buffer_.has_room(record.size)) {
    ++dropped_;
    return;
  }
  memcpy(buffer_.bytes + buffer_.used, record.bytes, record.size);
  buffer_.used += record.size;
  ++buffer_.records;
}

void Delivery::leave_open() noexcept {
  if (buffer_.bytes != nullptr && !open_.put(buffer_)) return_to_program();
  buffer_ = {};
}

void Delivery::give_back(bool also_empty) noexcept {
  if (buffer_.used != 0 || also_empty) return_to_program();
}

// Tells the program neither context nor stream: CUPTI does the same for a buffer with records of
// several contexts or streams.
void Delivery::return_to_program() noexcept {
  if (buffer_.bytes != nullptr) {
    callbacks_.complete(nullptr, 0, buffer_.bytes, buffer_.size, buffer_.used);
  }
  buffer_ = {};
}

}  // namespace gpumemtrace::cupti
