// SPDX-License-Identifier: Apache-2.0
// Converts CUPTI's records to those of the trace. Reads the members that every version from CUDA
// 11.8 on has, and later members only if record and version have them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cupti/abi.hpp"
#include "cupti/functions.hpp"
#include "trace/records.hpp"

namespace gpumemtrace::cupti {

// The functions that cupti/ needs of the library that it is part of. Set once, before anything else
// is called.
struct Recorder {
  // The clock of all records. Any thread.
  std::uint64_t (*ticks)() = nullptr;
  // Writes a record, followed by the bytes of `tail`; false if there is no room. Only from within
  // calls that are marked as "the thread that records".
  bool (*write)(const void* record, std::size_t bytes, const char* tail,
                std::size_t tail_bytes) = nullptr;
  // Ends the pause of the thread that records. Any thread.
  void (*wake)() = nullptr;
};

// A set of kinds, one bit for each kind.
class KindSet {
 public:
  constexpr KindSet() noexcept = default;
  constexpr void add(Kind kind) noexcept { bits_ |= bit(kind); }
  [[nodiscard]] constexpr bool contains(Kind kind) const noexcept {
    return (bits_ & bit(kind)) != 0;
  }

 private:
  static constexpr std::uint64_t bit(Kind kind) noexcept {
    const auto number = static_cast<std::uint32_t>(kind);
    return number < 64 ? 1ull << number : 0;
  }
  std::uint64_t bits_ = 0;
};

[[nodiscard]] constexpr bool is_call(Kind kind) noexcept {
  return kind == Kind::kDriver || kind == Kind::kRuntime;
}
constexpr trace::ActivityDomain domain_of(Kind kind) noexcept {
  return kind == Kind::kDriver ? trace::ActivityDomain::kDriver : trace::ActivityDomain::kRuntime;
}

// The kind, which every record begins with.
Kind kind_of(const RawRecord& record) noexcept;
// The function of an API record (kDriver, kRuntime); 0 if the record is too short to have it.
CallbackId function_of(const RawRecord& record) noexcept;
// The begin of the activity, by CUPTI's clock; 0 if the record has no such time.
std::uint64_t start_of(const RawRecord& record) noexcept;
// The id that an API call and its activities share; 0 = none.
std::uint32_t correlation_of(const RawRecord& record) noexcept;
// CUPTI's number of the context; kNoContext if the record names none.
inline constexpr std::uint32_t kNoContext = ~std::uint32_t{0};
std::uint32_t context_of(const RawRecord& record) noexcept;

enum class Taken { kNotOurs, kWritten, kNoRoom };

struct TakeOver {
  KindSet kinds;              // kinds of which all records are collected
  bool calls = false;         // also collects API records of the functions that copy
  std::uint32_t version = 0;  // cuptiGetVersion()
  std::uint16_t library = 0;
};

// Writes the record into the trace if our collection wants it. For the thread that records.
Taken take_over(const RawRecord& record, const TakeOver& what, const Recorder& recorder) noexcept;

}  // namespace gpumemtrace::cupti
