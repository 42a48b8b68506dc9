// SPDX-License-Identifier: Apache-2.0
// A library with the functions of PyTorch that make tensors. They ask the allocator for the size
// that PyTorch computes, and the allocator may throw.
#include "tests/end_to_end/victims/tensor_functions.hpp"

namespace {

TensorCall last;

std::size_t item_bytes(c10::ScalarType type) {
  return type == c10::ScalarType::kHalf ? 2 : type == c10::ScalarType::kFloat ? 4 : 1;
}

at::TensorBase make(c10::ArrayRef<std::int64_t> sizes, c10::Allocator* allocator,
                    c10::DispatchKeySet keys, c10::ScalarType type,
                    std::optional<c10::MemoryFormat> format) {
  last = {sizes.data, sizes.size, nullptr, keys.bits, type, format};
  std::size_t items = 1;
  for (std::size_t i = 0; i < sizes.size; ++i) items *= static_cast<std::size_t>(sizes.data[i]);
  return at::TensorBase(allocator->allocate(items * item_bytes(type)));
}

}  // namespace

namespace at::detail {

TensorBase empty_generic(c10::ArrayRef<std::int64_t> sizes, c10::Allocator* allocator,
                         c10::DispatchKeySet keys, c10::ScalarType type,
                         std::optional<c10::MemoryFormat> format) {
  return make(sizes, allocator, keys, type, format);
}

TensorBase empty_generic(c10::ArrayRef<std::int64_t> sizes, c10::Allocator* allocator,
                         c10::DispatchKeySet keys, c10::ScalarType type,
                         c10::optional<c10::MemoryFormat> format) {
  return make(sizes, allocator, keys, type,
              format.has_value ? std::optional(format.value) : std::nullopt);
}

TensorBase empty_strided_generic(c10::ArrayRef<std::int64_t> sizes,
                                 c10::ArrayRef<std::int64_t> strides, c10::Allocator* allocator,
                                 c10::DispatchKeySet keys, c10::ScalarType type) {
  last = {sizes.data, sizes.size, strides.data, keys.bits, type, std::nullopt};
  std::int64_t items = 1;
  for (std::size_t i = 0; i < sizes.size; ++i) items += (sizes.data[i] - 1) * strides.data[i];
  return TensorBase(allocator->allocate(static_cast<std::size_t>(items) * item_bytes(type)));
}

}  // namespace at::detail

namespace at::native {
void resize_bytes_cuda(c10::StorageImpl* storage, std::size_t bytes) {
  storage->data = storage->allocator->allocate(bytes);
}
}  // namespace at::native

const TensorCall& last_tensor_call() { return last; }
