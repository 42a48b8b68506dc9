// SPDX-License-Identifier: Apache-2.0
// Thrust: a vector is filled, sorted and summed.
#include <thrust/device_vector.h>
#include <thrust/functional.h>
#include <thrust/reduce.h>
#include <thrust/sequence.h>
#include <thrust/sort.h>

#include <memory>

#include "endings.hpp"

namespace {

constexpr int kValues = 1 << 16;

std::unique_ptr<thrust::device_vector<int>> values;

void clean_up() { values.reset(); }

}  // namespace

int main(int argument_count, char** arguments) {
  if (argument_count != 2) return 2;
  values = std::make_unique<thrust::device_vector<int>>(kValues);
  thrust::sequence(values->begin(), values->end());
  thrust::sort(values->begin(), values->end(), thrust::greater<int>());
  const long long sum = thrust::reduce(values->begin(), values->end(), 0LL);
  if (sum != static_cast<long long>(kValues) * (kValues - 1) / 2) return 1;
  return gpumemtrace::gpu_tests::end_program(arguments[1], clean_up);
}
