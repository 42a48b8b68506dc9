#pragma once

// Our own declaration of the CUDA driver ABI, so that neither building nor testing needs a toolkit.
#include "preload/cuda_enums.hpp"
#include "preload/cuda_prototypes.hpp"
#include "preload/cuda_types.hpp"
