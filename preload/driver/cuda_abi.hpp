// SPDX-License-Identifier: Apache-2.0
#pragma once

// Our own declaration of the CUDA driver ABI, so that neither building nor testing needs a toolkit.
#include "preload/driver/cuda_enums.hpp"
#include "preload/driver/cuda_prototypes.hpp"
#include "preload/driver/cuda_types.hpp"
