// SPDX-License-Identifier: Apache-2.0
// What becomes known of a process while it runs, as texts of the trace: versions, why stacks are
// not recorded, suppressions, and what the wrappers may miss.
#pragma once

#include <cstddef>
#include <cstdint>

#include "preload/python/python_interpreter.hpp"

namespace gpumemtrace::preload {

class CallGuard;
class LoaderList;

// The background thread's; it records.
class ProcessFacts {
 public:
  // Writes what is new since the last time.
  void write_new(const CallGuard& guard, const LoaderList& modules) noexcept;
  // The process ends. Names of tensors were asked for: says so where PyTorch ran and none came, in
  // the trace, and on stderr as far as that is `loud`.
  void write_missing_names(bool loud) noexcept;

 private:
  void write_driver_version() noexcept;
  void write_python_state() noexcept;
  void write_native_state() noexcept;
  void write_torch_version(const LoaderList& modules) noexcept;
  void write_suppressions() noexcept;
  void write_coverage(const CallGuard& guard) noexcept;

  bool driver_version_written_ = false;
  python::State python_state_written_ = python::State::kNotLooked;
  bool native_state_written_ = false;
  bool torch_version_written_ = false;
  bool missing_names_written_ = false;
  std::uint32_t torch_changes_seen_ = 0;  // of the modules, when PyTorch was looked for last
  std::size_t suppressions_written_ = 0;
  std::size_t runtime_callers_written_ = 0;
  std::size_t unwrapped_written_ = 0;
};

}  // namespace gpumemtrace::preload
