// SPDX-License-Identifier: Apache-2.0
// The sizes that PyTorch asks its allocator for. Tensors on a GPU are made by functions of
// libtorch_cpu that libtorch_cuda calls, and resized by a function of libtorch_cuda. Our functions
// interpose on them, put the size into requested_bytes, where the hook of the allocator's reports
// (preload/hooks/pytorch.cpp) finds it, and pass the call on.
//
// - Sizes are arithmetic on the arguments; nothing of PyTorch or CUDA is called for them.
// - Tensors that are not on a GPU are passed on at once.
// - The size is cleared when the call returns, and when an exception or the end of the thread
//   unwinds the call. This library is not linked to a C++ runtime, so it gives the unwinder a
//   personality routine of its own.
// - Direct requests to the allocator (workspaces of cuDNN and cuBLAS) are not seen: their blocks
//   have no requested size.
//
// Sources: aten/src/ATen/EmptyTensor.{h,cpp}, aten/src/ATen/cuda/EmptyTensor.cpp,
// aten/src/ATen/native/cuda/Resize.cpp, c10/core/{ScalarType,DispatchKey}.h of PyTorch 1.12 to
// 2.11.

#include <array>
#include <cstddef>
#include <cstdint>

#include "preload/base/sections.hpp"
#include "preload/hooks/requested_bytes.hpp"
#include "preload/loader/function_behind.hpp"

namespace gpumemtrace::preload {

constinit thread_local std::uint64_t requested_bytes [[gnu::tls_model("initial-exec")]] = 0;

// Has the layout of c10::ArrayRef<int64_t>.
struct Integers {
  const std::int64_t* data;
  std::size_t count;
};
// Stands for at::TensorBase. It is not trivial, so that the caller passes the address at which the
// function makes its result.
struct Tensor {
  void* implementation;
  ~Tensor() {}  // NOLINT(modernize-use-equals-default): with a body it is not trivial
};

namespace {

// The bit of a c10::DispatchKeySet that means CUDA; ROCm builds of PyTorch use it, too.
constexpr std::uint64_t kCudaKey = 2;

// Bytes of a tensor's element, by c10::ScalarType; 0 = not known, or several elements share a byte.
constexpr auto kItemBytes = std::to_array<std::uint8_t>({
    1, 1, 2,  4, 8,                             // Byte, Char, Short, Int, Long
    2, 4, 8,                                    // Half, Float, Double
    4, 8, 16,                                   // ComplexHalf, ComplexFloat, ComplexDouble
    1,                                          // Bool
    1, 1, 4,                                    // QInt8, QUInt8, QInt32
    2,                                          // BFloat16
    0, 0, 0,  0, 0, 0, 0,                       // QUInt4x2 to Bits16
    1, 1, 1,  1,                                // Float8: e5m2, e4m3fn, e5m2fnuz, e4m3fnuz
    2, 4, 8,                                    // UInt16, UInt32, UInt64
    0, 0, 0,  0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,  // UInt1 to Int7
    1, 1,                                       // Float8_e8m0fnu, Float4_e2m1fn_x2
});

std::uint64_t item_bytes(std::uint64_t scalar_type) noexcept {
  // The caller passes a one-byte enum: the register's other bits are undefined.
  const std::size_t type = scalar_type & 0xff;
  return type < kItemBytes.size() ? kItemBytes[type] : 0;
}

// Does not check the sizes: if PyTorch refuses them (negative, too large), it allocates no block
// and the result is not used.
std::uint64_t bytes_of(const Integers& sizes, std::uint64_t scalar_type) noexcept {
  std::uint64_t items = 1;
  for (std::size_t i = 0; i < sizes.count; ++i) items *= static_cast<std::uint64_t>(sizes.data[i]);
  return items * item_bytes(scalar_type);
}

// Bytes from the first to the last element of a tensor with strides.
std::uint64_t bytes_of(const Integers& sizes, const Integers& strides,
                       std::uint64_t scalar_type) noexcept {
  if (sizes.count != strides.count) return 0;
  std::uint64_t items = 1;
  for (std::size_t i = 0; i < sizes.count; ++i) {
    if (sizes.data[i] == 0) return 0;
    items +=
        static_cast<std::uint64_t>(sizes.data[i] - 1) * static_cast<std::uint64_t>(strides.data[i]);
  }
  return items * item_bytes(scalar_type);
}

class Request {
 public:
  explicit Request(std::uint64_t bytes) noexcept { requested_bytes = bytes; }
  Request(const Request&) = delete;
  Request& operator=(const Request&) = delete;
  ~Request() { requested_bytes = 0; }
};

// Constants of the unwinder's interface (Itanium C++ ABI: Exception Handling, level I).
constexpr int kCleanupPhase = 2;
constexpr int kContinueUnwind = 8;

}  // namespace
}  // namespace gpumemtrace::preload

// A personality routine: the unwinder calls it for each frame of a function that names it.
extern "C" [[gnu::visibility("hidden"), gnu::used]] int gpumemtrace_leave_request(int, int actions,
                                                                                  std::uint64_t,
                                                                                  void*, void*) {
  using namespace gpumemtrace::preload;
  if ((actions & kCleanupPhase) != 0) requested_bytes = 0;
  return kContinueUnwind;
}

// Makes gpumemtrace_leave_request() the personality routine of the surrounding function. 0x1b
// (DW_EH_PE_pcrel | DW_EH_PE_sdata4): the table has the routine's address as a 4-byte offset.
#define GPUMEMTRACE_LEAVES_REQUEST() \
  __asm__ volatile(".cfi_personality 0x1b, gpumemtrace_leave_request")

using gpumemtrace::preload::bytes_of;
using gpumemtrace::preload::FunctionBehind;
using gpumemtrace::preload::Integers;
using gpumemtrace::preload::kCudaKey;
using gpumemtrace::preload::real_of;
using gpumemtrace::preload::Request;
using gpumemtrace::preload::Tensor;

// Wraps at::detail::empty_generic(sizes, allocator, keys, type, memory format). The optional memory
// format is passed on as it came: two bytes, or the address of two bytes.
#define GPUMEMTRACE_EMPTY_HOOK(function, symbol, data)                                             \
  [[gnu::visibility("default"), gnu::hot]] Tensor function(Integers sizes, void* allocator,        \
                                                           std::uint64_t keys, std::uint64_t type, \
                                                           std::uint64_t format) __asm__(symbol);  \
  Tensor function(Integers sizes, void* allocator, std::uint64_t keys, std::uint64_t type,         \
                  std::uint64_t format) {                                                          \
    GPUMEMTRACE_LEAVES_REQUEST();                                                                  \
    data static constinit FunctionBehind behind(symbol);                                           \
    auto* const real = real_of(behind, &function, symbol);                                         \
    if ((keys & kCudaKey) == 0) return real(sizes, allocator, keys, type, format);                 \
    const Request request(bytes_of(sizes, type));                                                  \
    return real(sizes, allocator, keys, type, format);                                             \
  }

// at::detail::empty_generic() has two mangled names: with std::optional from PyTorch 2.4 on, with
// c10::optional before.
GPUMEMTRACE_EMPTY_HOOK(empty_generic,
                       "_ZN2at6detail13empty_genericEN3c108ArrayRefIlEEPNS1_9AllocatorENS1_"
                       "14DispatchKeySetENS1_10ScalarTypeESt8optionalINS1_12MemoryFormatEE",
                       [[GPUMEMTRACE_HOT_DATA]])
GPUMEMTRACE_EMPTY_HOOK(empty_generic_of_c10,
                       "_ZN2at6detail13empty_genericEN3c108ArrayRefIlEEPNS1_9AllocatorENS1_"
                       "14DispatchKeySetENS1_10ScalarTypeENS1_8optionalINS1_12MemoryFormatEEE", )

#define GPUMEMTRACE_EMPTY_STRIDED                                                  \
  "_ZN2at6detail21empty_strided_genericEN3c108ArrayRefIlEES3_PNS1_9AllocatorENS1_" \
  "14DispatchKeySetENS1_10ScalarTypeE"

// Wraps at::detail::empty_strided_generic(sizes, strides, allocator, keys, type).
[[gnu::visibility("default"), gnu::hot]] Tensor empty_strided_generic(
    Integers sizes, Integers strides, void* allocator, std::uint64_t keys,
    std::uint64_t type) __asm__(GPUMEMTRACE_EMPTY_STRIDED);
Tensor empty_strided_generic(Integers sizes, Integers strides, void* allocator, std::uint64_t keys,
                             std::uint64_t type) {
  GPUMEMTRACE_LEAVES_REQUEST();
  [[GPUMEMTRACE_HOT_DATA]] static constinit FunctionBehind behind(GPUMEMTRACE_EMPTY_STRIDED);
  auto* const real = real_of(behind, &empty_strided_generic, GPUMEMTRACE_EMPTY_STRIDED);
  if ((keys & kCudaKey) == 0) return real(sizes, strides, allocator, keys, type);
  const Request request(bytes_of(sizes, strides, type));
  return real(sizes, strides, allocator, keys, type);
}

// Wraps at::native::resize_bytes_cuda(StorageImpl*, size_t).
#define GPUMEMTRACE_RESIZE "_ZN2at6native17resize_bytes_cudaEPN3c1011StorageImplEm"
[[gnu::visibility("default")]] void resize_bytes_cuda(void* storage, std::size_t bytes) __asm__(
    GPUMEMTRACE_RESIZE);
void resize_bytes_cuda(void* storage, std::size_t bytes) {
  GPUMEMTRACE_LEAVES_REQUEST();
  static constinit FunctionBehind behind(GPUMEMTRACE_RESIZE);
  auto* const real = real_of(behind, &resize_bytes_cuda, GPUMEMTRACE_RESIZE);
  const Request request(bytes);
  real(storage, bytes);
}
