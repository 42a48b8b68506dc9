// SPDX-License-Identifier: Apache-2.0
#include "preload/ring/thread_state.hpp"

namespace gpumemtrace::preload {

constinit thread_local ThreadState thread_state [[gnu::tls_model("initial-exec")]];

}  // namespace gpumemtrace::preload
