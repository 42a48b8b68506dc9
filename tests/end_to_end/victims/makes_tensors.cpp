// SPDX-License-Identifier: Apache-2.0
// Makes tensors by PyTorch's functions, on an allocator that follows PyTorch's rules for requests
// of 10 MiB and more: each gets its own segment. An argument that arrives changed, or a result that
// does not come back, ends the program with code 3. With an argument it makes only tensors whose
// sizes the recorder learns from a call.
#include <array>
#include <stdexcept>
#include <string>

#include "tests/end_to_end/victims/driver_calls.hpp"
#include "tests/end_to_end/victims/tensor_functions.hpp"

namespace c10 {
struct Device {
  std::int8_t type;
  std::int8_t index;
};
// The recorder defines this function; null without the recorder.
[[gnu::weak]] void reportMemoryUsageToProfiler(void* address, std::int64_t bytes,
                                               std::size_t allocated, std::size_t reserved,
                                               Device device);
}  // namespace c10

namespace gpumemtrace::victims {
namespace {

constexpr std::size_t kMib = std::size_t{1} << 20;

std::size_t rounded(std::size_t bytes, std::size_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

class DeviceAllocator : public c10::Allocator {
 public:
  void* allocate(std::size_t bytes) override {
    if (refuses) throw std::runtime_error("out of memory");
    void* const block = hand_out(bytes);
    if (hands_out_twice) hand_out(bytes);
    return block;
  }

  bool refuses = false;
  bool hands_out_twice = false;

 private:
  void* hand_out(std::size_t bytes) {
    const std::size_t asked = rounded(bytes, 512);
    const std::size_t segment = rounded(asked, 2 * kMib);
    const std::size_t block = segment - asked > kMib ? asked : segment;
    const abi::CUdeviceptr address = victims::allocate(segment);
    reserved_ += segment;
    allocated_ += block;
    auto* const pointer = reinterpret_cast<void*>(static_cast<std::uintptr_t>(address));
    if (c10::reportMemoryUsageToProfiler != nullptr) {
      c10::reportMemoryUsageToProfiler(pointer, static_cast<std::int64_t>(block), allocated_,
                                       reserved_, c10::Device{1, 0});
    }
    return pointer;
  }

  std::size_t allocated_ = 0;
  std::size_t reserved_ = 0;
};

struct HostAllocator : c10::Allocator {
  void* allocate(std::size_t) override { return this; }
};

using Sizes = std::array<std::int64_t, 2>;

c10::ArrayRef<std::int64_t> all_of(const Sizes& sizes) { return {sizes.data(), sizes.size()}; }

void require_call(const Sizes& sizes, const Sizes* strides, c10::DispatchKeySet keys,
                  c10::ScalarType type, std::optional<c10::MemoryFormat> format) {
  const TensorCall& call = last_tensor_call();
  require(call.sizes == sizes.data() && call.dimensions == sizes.size(), "sizes arrive changed");
  require(call.strides == (strides == nullptr ? nullptr : strides->data()), "strides likewise");
  require(call.keys == keys.bits && call.type == type && call.format == format, "keys or type");
}

void make_by_every_function(DeviceAllocator& gpu) {
  const Sizes sizes{46, 65536};
  const auto type = c10::ScalarType::kFloat;
  const at::TensorBase plain = at::detail::empty_generic(all_of(sizes), &gpu, c10::kCuda, type,
                                                         std::optional<c10::MemoryFormat>());
  require(plain.data != nullptr, "no tensor comes back");
  require_call(sizes, nullptr, c10::kCuda, type, std::nullopt);

  const auto last = c10::MemoryFormat::kChannelsLast;
  const at::TensorBase older = at::detail::empty_generic(all_of(sizes), &gpu, c10::kCuda, type,
                                                         c10::optional<c10::MemoryFormat>(last));
  require(older.data != nullptr && older.data != plain.data, "no tensor of c10::optional");
  require_call(sizes, nullptr, c10::kCuda, type, last);

  const Sizes rows{2048, 2500};
  const Sizes strides{3000, 1};
  const at::TensorBase strided = at::detail::empty_strided_generic(
      all_of(rows), all_of(strides), &gpu, c10::kCuda, c10::ScalarType::kHalf);
  require(strided.data != nullptr, "no strided tensor comes back");
  require_call(rows, &strides, c10::kCuda, c10::ScalarType::kHalf, std::nullopt);

  c10::StorageImpl storage{&gpu, nullptr};
  at::native::resize_bytes_cuda(&storage, 11 * kMib + 1);
  require(storage.data != nullptr, "the storage is not resized");
}

void leave_by_exception(DeviceAllocator& gpu) {
  const Sizes sizes{43, 262144};  // 10.75 MiB
  gpu.refuses = true;
  try {
    const at::TensorBase none =
        at::detail::empty_generic(all_of(sizes), &gpu, c10::kCuda, c10::ScalarType::kByte,
                                  std::optional<c10::MemoryFormat>());
    give_up("the exception is lost");
  } catch (const std::runtime_error& error) {
    require(error.what() == std::string("out of memory"), "another exception arrives");
  }
  gpu.refuses = false;
}

}  // namespace
}  // namespace gpumemtrace::victims

int main(int count, char**) {
  using namespace gpumemtrace::victims;
  start_driver();
  DeviceAllocator gpu;
  make_by_every_function(gpu);
  if (count > 1) return 0;

  // Allocations for which no call tells the recorder a tensor's size: a workspace, also after a
  // call that ended by an exception, and an element type that the recorder does not know.
  leave_by_exception(gpu);
  gpu.allocate(12 * kMib);
  const Sizes sizes{13, 1 << 20};
  const auto none = std::optional<c10::MemoryFormat>();
  HostAllocator host;
  const at::TensorBase on_host =
      at::detail::empty_generic(all_of(sizes), &host, c10::kCpu, c10::ScalarType::kByte, none);
  require(on_host.data == &host, "no tensor of the host comes back");
  const at::TensorBase strange =
      at::detail::empty_generic(all_of(sizes), &gpu, c10::kCuda, c10::ScalarType::kUInt1, none);
  gpu.hands_out_twice = true;
  const at::TensorBase twice =
      at::detail::empty_generic(all_of(sizes), &gpu, c10::kCuda, c10::ScalarType::kByte, none);
  return 0;
}
