// SPDX-License-Identifier: Apache-2.0
// Compares our declarations of the driver's ABI, the recorder's and the simulated driver's, with
// the toolkit's own cuda.h, at compile time. Without a toolkit of CUDA 13.0 or later this file is
// empty: the headers of older ones lack some of the functions.
#include "tests/simulated_cuda/cuda_abi.hpp"

#if __has_include(<cuda.h>)
// Makes cuda.h declare every exported symbol under its own name, legacy ones included.
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>
#endif

#if defined(CUDA_VERSION) && CUDA_VERSION >= 13000

#include <cstddef>
#include <type_traits>

namespace {

namespace ours = gpumemtrace::cuda_abi;

template <typename T>
constexpr bool kIsNumber = std::is_integral_v<T> || std::is_enum_v<T>;

// True if two pointers point to numbers of one size; structures have checks of their own.
template <typename Ours, typename Theirs>
constexpr bool pointee_alike() {
  using OurTarget = std::remove_pointer_t<Ours>;
  using TheirTarget = std::remove_pointer_t<Theirs>;
  if constexpr (kIsNumber<OurTarget> && kIsNumber<TheirTarget>) {
    return sizeof(OurTarget) == sizeof(TheirTarget);
  }
  return kIsNumber<OurTarget> == kIsNumber<TheirTarget>;
}

template <typename Ours, typename Theirs>
constexpr bool kPassedAlike =
    sizeof(Ours) == sizeof(Theirs) &&
    std::is_pointer_v<Ours> == std::is_pointer_v<Theirs>&& kIsNumber<Ours> ==
        kIsNumber<Theirs>&& std::is_class_v<Ours> == std::is_class_v<Theirs> &&
    (!std::is_pointer_v<Ours> || pointee_alike<Ours, Theirs>());

template <typename Ours, typename Theirs>
struct SameFunction : std::false_type {};

template <typename OurResult, typename... Ours, typename TheirResult, typename... Theirs>
requires(sizeof...(Ours) ==
         sizeof...(Theirs)) struct SameFunction<OurResult(Ours...), TheirResult(Theirs...)>
    : std::bool_constant<kPassedAlike<OurResult, TheirResult> &&
                         (kPassedAlike<Ours, Theirs> && ...)> {
};

#define GPUMEMTRACE_EXPORT(count, name, version, needs, implementation)                   \
  static_assert(SameFunction<ours::name##_t, std::remove_pointer_t<decltype(&::name)>>(), \
                "the prototype of " #name " differs from cuda.h");
#include "tests/simulated_cuda/exports.inc"
#define GPUMEMTRACE_STRUCT(type)                                                                \
  static_assert(sizeof(ours::type) == sizeof(::type) && alignof(ours::type) == alignof(::type), \
                "the size of " #type " differs from cuda.h");
#define GPUMEMTRACE_FIELD(type, field)                                    \
  static_assert(offsetof(ours::type, field) == offsetof(::type, field) && \
                    sizeof(ours::type::field) == sizeof(::type::field),   \
                "the field " #field " of " #type " differs from cuda.h");
#define GPUMEMTRACE_ENUMERATOR(name)                                      \
  static_assert(static_cast<int>(ours::name) == static_cast<int>(::name), \
                "the value of " #name " differs from cuda.h");
#include "tests/unit/cuda_abi_list.inc"

}  // namespace

#endif
