// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/simulated_cuda/activity.hpp"

namespace gpumemtrace::simulated_cupti {

// Makes records of what the driver says.
const cuda_abi::simulated::ActivityListener& listener();

}  // namespace gpumemtrace::simulated_cupti
