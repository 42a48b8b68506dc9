// SPDX-License-Identifier: Apache-2.0
// Uses arrays and mipmapped arrays. Expected sizes are computed from the descriptors; a driver may
// take more.
#include <cstddef>

#include "tests/programs/support/program.hpp"
#include "tests/programs/support/truth.hpp"

namespace gpumemtrace::programs {
namespace {

void use_plane() {
  abi::CUDA_ARRAY_DESCRIPTOR descriptor{};
  descriptor.Width = 256;
  descriptor.Height = 128;
  descriptor.Format = abi::CU_AD_FORMAT_FLOAT;
  descriptor.NumChannels = 4;
  constexpr std::size_t kBytes = std::size_t{256} * 128 * 4 * 4;
  abi::CUarray array = nullptr;
  GPUMEMTRACE_CALL(cuArrayCreate_v2, &array, &descriptor);
  truth().allocated("driver", "array", kBytes);
  GPUMEMTRACE_CALL(cuArrayDestroy, array);
  truth().freed("driver", "array", kBytes);
}

void use_box() {
  abi::CUDA_ARRAY3D_DESCRIPTOR descriptor{};
  descriptor.Width = 64;
  descriptor.Height = 32;
  descriptor.Depth = 16;
  descriptor.Format = abi::CU_AD_FORMAT_UNSIGNED_INT16;
  descriptor.NumChannels = 2;
  constexpr std::size_t kBytes = std::size_t{64} * 32 * 16 * 2 * 2;
  abi::CUarray array = nullptr;
  GPUMEMTRACE_CALL(cuArray3DCreate_v2, &array, &descriptor);
  truth().allocated("driver", "array", kBytes);
  GPUMEMTRACE_CALL(cuArrayDestroy, array);
  truth().freed("driver", "array", kBytes);
}

void use_mipmaps() {
  abi::CUDA_ARRAY3D_DESCRIPTOR descriptor{};
  descriptor.Width = 64;
  descriptor.Height = 64;
  descriptor.Format = abi::CU_AD_FORMAT_UNSIGNED_INT8;
  descriptor.NumChannels = 4;
  constexpr std::size_t kBytes = std::size_t{64 * 64 + 32 * 32 + 16 * 16} * 4;
  abi::CUmipmappedArray mipmaps = nullptr;
  GPUMEMTRACE_CALL(cuMipmappedArrayCreate, &mipmaps, &descriptor, 3);
  truth().allocated("driver", "array", kBytes);
  abi::CUarray level = nullptr;
  GPUMEMTRACE_CALL(cuMipmappedArrayGetLevel, &level, mipmaps, 1);
  GPUMEMTRACE_CALL(cuMipmappedArrayDestroy, mipmaps);
  truth().freed("driver", "array", kBytes);
}

void leak_row() {
  abi::CUDA_ARRAY_DESCRIPTOR descriptor{};
  descriptor.Width = 1000;
  descriptor.Format = abi::CU_AD_FORMAT_SIGNED_INT32;
  descriptor.NumChannels = 1;
  abi::CUarray array = nullptr;
  GPUMEMTRACE_CALL(cuArrayCreate_v2, &array, &descriptor);
  truth().allocated("driver", "array", 4000);
}

int run() {
  start_on_device();
  use_plane();
  use_box();
  use_mipmaps();
  leak_row();
  return finish("arrays");
}

}  // namespace
}  // namespace gpumemtrace::programs

int main() { return gpumemtrace::programs::run(); }
