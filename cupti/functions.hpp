// SPDX-License-Identifier: Apache-2.0
// The functions of one loaded libcupti, by their names, and the functions of CUDA whose API records
// are collected to find the call that made a copy.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cupti/abi.hpp"
#include "trace/records.hpp"

namespace gpumemtrace::cupti {

// A libcupti's functions; a member is nullptr if this version of CUPTI lacks the function.
struct Functions {
#define GPUMEMTRACE_CUPTI_CALLED(symbol, parameters) Result(*symbol) parameters = nullptr;
#include "cupti/functions.def"

  // True if this version of CUPTI has all functions that a collection cannot do without.
  [[nodiscard]] bool complete() const noexcept {
    return cuptiActivityRegisterCallbacks != nullptr && cuptiActivityEnable != nullptr &&
           cuptiActivityDisable != nullptr && cuptiActivityFlushAll != nullptr &&
           cuptiActivityGetNextRecord != nullptr && cuptiGetVersion != nullptr &&
           cuptiGetTimestamp != nullptr;
  }
};

// Fills all members by `find(name)`.
template <class Find>
void load(Functions& functions, Find&& find) noexcept {
#define GPUMEMTRACE_CUPTI_CALLED(symbol, parameters) \
  functions.symbol = reinterpret_cast<decltype(functions.symbol)>(find(#symbol));
#include "cupti/functions.def"
}

struct CopyFunction {
  trace::ActivityDomain domain;
  CallbackId id;
};

inline constexpr CopyFunction kCopyFunctions[] = {
#define GPUMEMTRACE_CUPTI_FUNCTION(domain, id, name) {trace::ActivityDomain::domain, id},
#include "cupti/copy_functions.inc"
#undef GPUMEMTRACE_CUPTI_FUNCTION
};

// The most functions of a domain (runtime, driver) that are distinguished; CUDA 13.0: 525 and 803.
inline constexpr CallbackId kMostFunctions = 1024;

// A set of CUDA functions, one bit for each function.
class FunctionSet {
 public:
  constexpr FunctionSet() noexcept = default;
  constexpr explicit FunctionSet(trace::ActivityDomain domain) noexcept {
    for (const CopyFunction& function : kCopyFunctions) {
      if (function.domain == domain) words_[function.id / 64] |= 1ull << (function.id % 64);
    }
  }
  [[nodiscard]] constexpr bool contains(CallbackId id) const noexcept {
    return id < kMostFunctions && (words_[id / 64] >> (id % 64) & 1) != 0;
  }

 private:
  std::uint64_t words_[kMostFunctions / 64] = {};
};

inline constexpr FunctionSet kDriverCopies{trace::ActivityDomain::kDriver};
inline constexpr FunctionSet kRuntimeCopies{trace::ActivityDomain::kRuntime};

// One record of a completed buffer. A record ends where CUPTI's own function finds the next one, so
// it has all members, those that a newer version of CUPTI added as well.
struct RawRecord {
  const std::uint8_t* bytes = nullptr;
  std::size_t size = 0;
};

class Walk {
 public:
  Walk(const Functions& functions, std::uint8_t* buffer, std::size_t valid_bytes) noexcept
      : next_record_(functions.cuptiActivityGetNextRecord),
        buffer_(buffer),
        valid_bytes_(valid_bytes) {
    advance();
  }

  // False at the end, and if the rest cannot be read.
  [[nodiscard]] bool next(RawRecord& record) noexcept {
    if (following_ == nullptr) return false;
    const std::uint8_t* const begin = following_;
    advance();
    const std::uint8_t* const end = following_ == nullptr ? buffer_ + valid_bytes_ : following_;
    record = {begin, static_cast<std::size_t>(end - begin)};
    return true;
  }

 private:
  // CUPTI replaces a record's address by that of the next record; nullptr asks for the first one.
  void advance() noexcept {
    std::uint8_t* record = following_;
    const bool found = valid_bytes_ != 0 &&
                       next_record_(buffer_, valid_bytes_, &record) == kSuccess &&
                       record >= buffer_ && record < buffer_ + valid_bytes_ &&
                       (following_ == nullptr || record > following_);
    following_ = found ? record : nullptr;
  }

  Result (*next_record_)(std::uint8_t*, std::size_t, std::uint8_t**);
  std::uint8_t* buffer_;
  std::size_t valid_bytes_;
  std::uint8_t* following_ = nullptr;
};

}  // namespace gpumemtrace::cupti
