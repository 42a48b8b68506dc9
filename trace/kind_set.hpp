// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bitset>

namespace gpumemtrace::trace {

// Kinds of records, by number.
using KindSet = std::bitset<256>;

}  // namespace gpumemtrace::trace
