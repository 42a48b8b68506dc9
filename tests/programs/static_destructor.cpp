// SPDX-License-Identifier: Apache-2.0
// A static object frees device memory in its destructor, after main: no leak.
#include <cstddef>

#include "tests/programs/support/program.hpp"
#include "tests/programs/support/truth.hpp"

namespace gpumemtrace::programs {
namespace {

constexpr std::size_t kBytes = std::size_t{2} << 20;

class Cache {
 public:
  ~Cache() {
    if (address_ == 0) return;
    free_device(address_, kBytes);
    finish("static_destructor");
  }
  void fill() { address_ = allocate_device(kBytes); }

 private:
  abi::CUdeviceptr address_ = 0;
};

Cache cache;

int run() {
  start_on_device();
  cache.fill();
  return 0;
}

}  // namespace
}  // namespace gpumemtrace::programs

int main() { return gpumemtrace::programs::run(); }
