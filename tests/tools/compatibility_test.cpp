// SPDX-License-Identifier: Apache-2.0
#include "tools/traces/compatibility.hpp"

#include "tests/catch.hpp"

namespace gpumemtrace::tools {
namespace {

TEST_CASE("a machine without a GPU is tried by what ran on the simulated driver", "[unit]") {
  const Compatibility found = compare_with_tried({{MachinePart::kArchitecture, "x86_64"},
                                                  {MachinePart::kGlibc, "2.36"},
                                                  {MachinePart::kPython, "3.11"}});
  CHECK(found.is_tried);
  CHECK(found.text == "tried: architecture x86_64, glibc 2.36, CPython 3.11");
}

TEST_CASE("on a machine with a GPU the simulated driver is not enough", "[unit]") {
  const Compatibility found = compare_with_tried({{MachinePart::kPython, "3.11"},
                                                  {MachinePart::kDriver, "580"},
                                                  {MachinePart::kGpu, "NVIDIA H200"}});
  CHECK_FALSE(found.is_tried);
  CHECK(found.text ==
        "tried on the simulated driver alone: CPython 3.11; tried: driver 580, GPU NVIDIA H200");
}

TEST_CASE("what never ran is named first, with its version", "[unit]") {
  const Compatibility found = compare_with_tried({{MachinePart::kArchitecture, "aarch64"},
                                                  {MachinePart::kTorch, "2.11.0+cu126"},
                                                  {MachinePart::kTorch, "2.9.1"}});
  CHECK_FALSE(found.is_tried);
  CHECK(found.text ==
        "not tried: architecture aarch64, PyTorch 2.9.1; tried: PyTorch 2.11.0+cu126");
}

}  // namespace
}  // namespace gpumemtrace::tools
