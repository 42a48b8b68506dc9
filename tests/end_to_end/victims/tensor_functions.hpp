// SPDX-License-Identifier: Apache-2.0
// The functions of PyTorch that make and resize tensors, with the types that give them PyTorch's
// symbols and its calling convention.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#pragma GCC visibility push(default)

namespace c10 {

enum class ScalarType : std::int8_t { kByte = 0, kHalf = 5, kFloat = 6, kUInt1 = 30 };
enum class MemoryFormat : std::int8_t { kContiguous, kPreserve, kChannelsLast };

template <class Value>
struct ArrayRef {
  const Value* data;
  std::size_t size;
};

// PyTorch's own optional, from before it used std::optional. Not trivially copyable here, so that
// it is passed by address.
template <class Value>
struct optional {
  optional(Value given) : has_value(true), value(given) {}  // NOLINT(google-explicit-constructor)
  optional(const optional& other) : has_value(other.has_value), value(other.value) {}
  optional& operator=(const optional&) = delete;
  bool has_value;
  Value value;
};

struct DispatchKeySet {
  std::uint64_t bits;
};
inline constexpr DispatchKeySet kCpu{1};
inline constexpr DispatchKeySet kCuda{std::uint64_t{1} << 36 | 2};

struct Allocator {
  virtual ~Allocator() = default;
  virtual void* allocate(std::size_t bytes) = 0;
};

struct StorageImpl {
  Allocator* allocator;
  void* data;
};

}  // namespace c10

namespace at {

struct TensorBase {
  explicit TensorBase(void* block) : data(block) {}
  TensorBase(TensorBase&& other) noexcept : data(other.data) { other.data = nullptr; }
  TensorBase& operator=(TensorBase&&) = delete;
  ~TensorBase() { data = nullptr; }
  void* data;
};

namespace detail {
TensorBase empty_generic(c10::ArrayRef<std::int64_t> sizes, c10::Allocator* allocator,
                         c10::DispatchKeySet keys, c10::ScalarType type,
                         std::optional<c10::MemoryFormat> format);
TensorBase empty_generic(c10::ArrayRef<std::int64_t> sizes, c10::Allocator* allocator,
                         c10::DispatchKeySet keys, c10::ScalarType type,
                         c10::optional<c10::MemoryFormat> format);
TensorBase empty_strided_generic(c10::ArrayRef<std::int64_t> sizes,
                                 c10::ArrayRef<std::int64_t> strides, c10::Allocator* allocator,
                                 c10::DispatchKeySet keys, c10::ScalarType type);
}  // namespace detail
namespace native {
void resize_bytes_cuda(c10::StorageImpl* storage, std::size_t bytes);
}  // namespace native
}  // namespace at

// The arguments of the last call of one of these functions.
struct TensorCall {
  const std::int64_t* sizes = nullptr;
  std::size_t dimensions = 0;
  const std::int64_t* strides = nullptr;
  std::uint64_t keys = 0;
  c10::ScalarType type{};
  std::optional<c10::MemoryFormat> format;
};
const TensorCall& last_tensor_call();

#pragma GCC visibility pop
