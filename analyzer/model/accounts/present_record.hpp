// SPDX-License-Identifier: Apache-2.0
// The record that the model of a process has come to; all of its parts refer to the same one.
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
      trace::StackId::kNone;  // the event's; joined (BackwardStacks) if that was needed
  bool in_checkpoint = false;

  // The call site of the call that the record is about.
  [[nodiscard]] ledger::CallSite site_of(const trace::CallHeader& call) const {
    ledger::CallSite site = ledger::site_of(call);
    site.stack = stack;
    return site;
  }
};

}  // namespace gpumemtrace::analyzer
