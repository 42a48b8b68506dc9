// SPDX-License-Identifier: Apache-2.0
// CUPTI's activity records as bytes, and a function that walks them, for tests without CUPTI.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "cupti/abi.hpp"
#include "cupti/functions.hpp"

namespace gpumemtrace::test_support {

// A CUPTI record of `bytes` bytes, which are 0 until put() sets them.
class CuptiRecord {
 public:
  CuptiRecord(cupti::Kind kind, std::size_t bytes) : bytes_(bytes, 0) {
    put(0, static_cast<std::uint32_t>(kind));
  }
  template <class Value>
  CuptiRecord& put(std::size_t offset, Value value) {
    std::memcpy(bytes_.data() + offset, &value, sizeof value);
    return *this;
  }
  const std::vector<std::uint8_t>& bytes() const { return bytes_; }
  cupti::RawRecord raw() const { return {bytes_.data(), bytes_.size()}; }

 private:
  std::vector<std::uint8_t> bytes_;
};

inline CuptiRecord copy_record(std::uint32_t correlation, std::uint64_t start,
                               std::uint64_t bytes) {
  using Layout = cupti::layouts::Memcpy;
  return CuptiRecord(cupti::Kind::kMemcpy, 96)
      .put(Layout::kCorrelation, correlation)
      .put(Layout::kStart, start)
      .put(Layout::kBytesCopied, bytes);
}

inline CuptiRecord call_record(cupti::Kind domain, std::uint32_t correlation, std::uint64_t start,
                               std::uint32_t function) {
  using Layout = cupti::layouts::Call;
  return CuptiRecord(domain, Layout::kBytes)
      .put(Layout::kCorrelation, correlation)
      .put(Layout::kStart, start)
      .put(Layout::kFunction, function);
}

// The size of CUPTI 13.0's record of that kind; 0 for kinds that CUPTI 13.0 does not know.
inline std::size_t newest_size(std::uint32_t kind) {
  switch (static_cast<cupti::Kind>(kind)) {
    case cupti::Kind::kMemcpy:
    case cupti::Kind::kMemcpy2:
      return 96;
    case cupti::Kind::kMemset:
      return 88;
    case cupti::Kind::kDriver:
    case cupti::Kind::kRuntime:
      return 40;
    case cupti::Kind::kMemory2:
      return 128;
    case cupti::Kind::kMemoryPool:
      return 80;
    case cupti::Kind::kUnifiedMemoryCounter:
      return 104;
    case cupti::Kind::kOverhead:
      return 56;
    case cupti::Kind::kConcurrentKernel:
      return 216;
    default:
      return 0;
  }
}

// Stands in for cuptiActivityGetNextRecord, as functions.def declares it.
inline cupti::Result next_record(std::uint8_t* buffer, std::size_t valid_bytes,
                                 std::uint8_t** record) {
  constexpr cupti::Result kInvalidKind = 21;
  std::uint8_t* next = buffer;
  if (*record != nullptr) {
    std::uint32_t kind = 0;
    std::memcpy(&kind, *record, sizeof kind);
    if (newest_size(kind) == 0) return kInvalidKind;
    next = *record + newest_size(kind);
  }
  if (next >= buffer + valid_bytes) return cupti::kMaxLimitReached;
  *record = next;
  return cupti::kSuccess;
}

}  // namespace gpumemtrace::test_support
