// SPDX-License-Identifier: Apache-2.0
// When threads look at all code objects of their stacks again, by the background thread.
#pragma once

#include <cstdint>

namespace gpumemtrace::preload::python {

class Rounds {
 public:
  // Begins a new round where the present one has lasted, and looks at the collector where Python
  // stacks `are_recorded`.
  void begin_if_due(bool are_recorded) noexcept;

 private:
  std::uint64_t last_ns_ = 0;
};

}  // namespace gpumemtrace::preload::python
