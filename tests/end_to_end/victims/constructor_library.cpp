// SPDX-License-Identifier: Apache-2.0
// A library whose constructor calls a function of the program while the library is being opened.
extern "C" void constructor_runs();

namespace {

[[gnu::constructor]] void begin() { constructor_runs(); }

}  // namespace
