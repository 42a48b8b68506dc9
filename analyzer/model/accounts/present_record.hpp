// SPDX-License-Identifier: Apache-2.0
// The record that the model of a process is at; all parts of the model refer to the same object.
#pragma once

#include <cstdint>

#include "trace/ledger/call_site.hpp"
#include "trace/records.hpp"

namespace gpumemtrace::analyzer {

struct PresentRecord {
  // Model time: the ticks at which the record took effect, made strictly increasing so that no two
  // events share a time.
  std::uint64_t time = 0;
  std::uint32_t writer = 0;
  trace::StackId stack =
      // call stack of the record; BackwardStacks may have joined the stack of another thread to it
      trace::StackId::kNone;
  bool in_checkpoint = false;

  // The call site of the call that the record is about.
  [[nodiscard]] ledger::CallSite site_of(const trace::CallHeader& call) const {
    ledger::CallSite site = ledger::site_of(call);
    site.stack = stack;
    return site;
  }
};

}  // namespace gpumemtrace::analyzer
