// SPDX-License-Identifier: Apache-2.0
// A library that runs code of the program while it is being opened.
extern "C" void constructor_runs();

namespace {

[[gnu::constructor]] void begin() { constructor_runs(); }

}  // namespace
