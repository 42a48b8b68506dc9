// SPDX-License-Identifier: Apache-2.0
// Which of the samples of a folded time stay: of every source the first, the last and the highest.
#pragma once

#include <cstdint>

#include "preload/base/mapped_array.hpp"
#include "preload/checkpoint/kept_records.hpp"

namespace gpumemtrace::preload {

// A record that is the last and the highest at once is kept twice: then neither role needs to know
// of the other when it passes on.
class FoldSamples {
 public:
  // Keeps the record in the roles that it has, and drops who had them. Calls without a height have
  // no highest. False where there is no memory.
  [[nodiscard]] bool add(KeptRecords& kept, const trace::RecordHeader& record, std::uint64_t source,
                         std::uint64_t height = 0) noexcept {
    Roles* roles = find(record.kind, source);
    if (roles == nullptr) {
      const Roles first{record.kind, source, kept.keep(record), 0, 0, height};
      return first.first != 0 && roles_.push(first);
    }
    if (height > roles->height) {
      if (roles->highest != 0) kept.drop(roles->highest);
      roles->height = height;
      if ((roles->highest = kept.keep(record)) == 0) return false;
    }
    if (roles->last != 0) kept.drop(roles->last);
    return (roles->last = kept.keep(record)) != 0;
  }

 private:
  struct Roles {
    trace::RecordKind kind;
    std::uint64_t source;
    KeptId first;
    KeptId last;
    KeptId highest;
    std::uint64_t height;
  };

  Roles* find(trace::RecordKind kind, std::uint64_t source) noexcept {
    for (Roles& roles : roles_) {
      if (roles.kind == kind && roles.source == source) return &roles;
    }
    return nullptr;
  }

  MappedArray<Roles> roles_;
};

}  // namespace gpumemtrace::preload
