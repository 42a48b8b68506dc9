#pragma once

#include <bitset>

namespace gpumemtrace::trace {

// Kinds of records, by number.
using KindSet = std::bitset<256>;

}  // namespace gpumemtrace::trace
