// SPDX-License-Identifier: Apache-2.0
#include "preload/session/process_facts.hpp"

#include <string.h>

#include <string_view>

#include "preload/base/message.hpp"
#include "preload/driver/coverage.hpp"
#include "preload/loader/loader_list.hpp"
#include "preload/loader/torch_version.hpp"
#include "preload/python/python_collections.hpp"
#include "preload/ring/recorder.hpp"
#include "preload/session/annotations.hpp"
#include "preload/session/sampler.hpp"
#include "preload/session/suppressions.hpp"
#include "preload/stacks/stacks.hpp"

namespace gpumemtrace::preload {
namespace {

void write_text(trace::TextKey key, std::string_view text, std::uint32_t part = 0) noexcept {
  trace::Text record;
  record.key = key;
  record.part = part;
  (void)write_record(record, text);
}

}  // namespace

void ProcessFacts::write_new(const CallGuard& guard, const LoaderList& modules) noexcept {
  write_driver_version();
  write_python_state();
  write_native_state();
  write_torch_version(modules);
  write_suppressions();
  write_coverage(guard);
}

void ProcessFacts::write_driver_version() noexcept {
  if (driver_version_written_) return;
  driver_version_written_ = true;
  const int version = driver_version();
  if (version <= 0) return;
  Line text;
  text << static_cast<std::uint64_t>(version);
  write_text(trace::TextKey::kDriverVersion, text.text());
}

// Which interpreter runs here, and why its stacks are not recorded where they are not.
void ProcessFacts::write_python_state() noexcept {
  const python::State state = python::state();
  if (state == python_state_written_) return;
  python_state_written_ = state;
  if (const std::uint32_t version = python::version_hex(); version != 0) {
    Line text;
    text << (version >> 24) << "." << (version >> 16 & 0xff) << "." << (version >> 8 & 0xff);
    write_text(trace::TextKey::kPythonVersion, text.text());
  }
  if (state == python::State::kOff) {
    write_text(trace::TextKey::kPythonStacksOff, python::reason());
  } else if (state == python::State::kOn && !python_stacks_off().empty()) {
    write_text(trace::TextKey::kPythonStacksOff, python_stacks_off());
  } else if (state == python::State::kOn && !python::knows_collector()) {
    write_text(trace::TextKey::kNote,
               "What Python's cycle collector frees is not told apart: this interpreter keeps its "
               "state elsewhere.");
  }
}

void ProcessFacts::write_native_state() noexcept {
  if (native_state_written_) return;
  native_state_written_ = true;
  if (!native_stacks_off().empty()) {
    write_text(trace::TextKey::kNativeStacksOff, native_stacks_off());
  }
}

void ProcessFacts::write_torch_version(const LoaderList& modules) noexcept {
  if (torch_version_written_ || torch_changes_seen_ == modules.changes()) return;
  torch_changes_seen_ = modules.changes();
  char version[64];
  const std::size_t size = read_torch_version(modules, version, sizeof version);
  if (size == 0) return;
  write_text(trace::TextKey::kTorchVersion, {version, size});
  torch_version_written_ = true;
}

void ProcessFacts::write_missing_names(bool loud) noexcept {
  if (missing_names_written_ || !torch_version_written_ || storages_were_named()) return;
  missing_names_written_ = true;
  constexpr std::string_view kReason =
      "no tensor got a name although --torch-names asked for them: Python's options -I, -E and -S "
      "keep it out, or the program had no module and no optimizer of PyTorch";
  write_text(trace::TextKey::kNote, kReason);
  if (loud) message(Line() << kReason << ".");
}

void ProcessFacts::write_suppressions() noexcept {
  for (; suppressions_written_ < suppression_count(); ++suppressions_written_) {
    write_text(trace::TextKey::kSuppression, suppression_at(suppressions_written_),
               static_cast<std::uint32_t>(suppressions_written_));
  }
}

void ProcessFacts::write_coverage(const CallGuard& guard) noexcept {
  for (; runtime_callers_written_ < driver::runtime_caller_count(); ++runtime_callers_written_) {
    (void)write_event<trace::Requester>(guard, [&](trace::Requester& record) {
      record.caller =
          reinterpret_cast<std::uintptr_t>(driver::runtime_caller_at(runtime_callers_written_));
    });
  }
  for (; unwrapped_written_ < driver::unwrapped_count(); ++unwrapped_written_) {
    const driver::Unwrapped& function = driver::unwrapped_at(unwrapped_written_);
    trace::Unwrapped record;
    record.address = reinterpret_cast<std::uintptr_t>(function.address);
    (void)write_record(record, {function.name, strlen(function.name)});
  }
}

}  // namespace gpumemtrace::preload
