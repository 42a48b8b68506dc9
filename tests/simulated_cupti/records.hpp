// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/simulated_cuda/activity.hpp"

namespace gpumemtrace::simulated_cupti {

// The listener that makes activity records of the simulated driver's work.
const cuda_abi::simulated::ActivityListener& listener();

}  // namespace gpumemtrace::simulated_cupti
