// SPDX-License-Identifier: Apache-2.0
// A library whose setCurrentCUDAStream is an indirect function (ifunc): a resolver chooses it when
// the symbol is bound.
#include <cstdint>

namespace {

std::int64_t stream_now = -1;

void set_stream(std::uint64_t, std::int64_t stream) { stream_now = stream; }

}  // namespace

extern "C" {
using SetStream = void(std::uint64_t, std::int64_t);
[[gnu::visibility("default")]] SetStream* choose_set_stream() { return &set_stream; }
[[gnu::visibility("default"), gnu::ifunc("choose_set_stream")]] void
_ZN3c104cuda20setCurrentCUDAStreamENS0_10CUDAStreamE(std::uint64_t device, std::int64_t stream);
[[gnu::visibility("default")]] std::int64_t stream_that_was_set() { return stream_now; }
}
