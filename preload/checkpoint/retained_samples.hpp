// SPDX-License-Identifier: Apache-2.0
// Chooses which samples of a compacted time stay in the trace: the first, the last and the highest
// of every source.
#pragma once

#include <cstddef>
#include <cstdint>

#include "preload/checkpoint/retained_records.hpp"

namespace gpumemtrace::preload {

// A record can be the last and the highest at once; it stays until it is neither.
class RetainedSamples {
 public:
  // Retains the record as its source's last and perhaps highest, and drops records that have no
  // role any more. Records without a height have no highest. False if there is no memory.
  [[nodiscard]] bool add(RetainedRecords& records, const trace::RecordHeader& record,
                         std::uint64_t source, std::uint64_t height = 0) noexcept {
    Roles* roles = find(record.kind, source);
    if (roles == nullptr) {
      const Roles first{record.kind, source, records.retain(record), 0, 0, height};
      return first.first != 0 && roles_.push(first);
    }
    const RecordId older_last = roles->last;
    const RecordId older_highest = roles->highest;
    if ((roles->last = records.retain(record)) == 0) return false;
    if (height > roles->height) {
      roles->height = height;
      roles->highest = roles->last;
    }
    const bool is_same = older_last == older_highest;
    if (older_last != 0 && older_last != roles->highest) records.drop(older_last);
    const bool is_over = older_highest != 0 && older_highest != roles->highest;
    if (is_over && !is_same) records.drop(older_highest);
    return true;
  }

  [[nodiscard]] bool has(trace::RecordKind kind, std::uint64_t source) noexcept {
    return find(kind, source) != nullptr;
  }
  // The number of sources that have records of the kind.
  [[nodiscard]] std::size_t count_of(trace::RecordKind kind) const noexcept {
    std::size_t count = 0;
    for (const Roles& roles : roles_) count += roles.kind == kind ? 1 : 0;
    return count;
  }

 private:
  struct Roles {
    trace::RecordKind kind;
    std::uint64_t source;
    RecordId first;
    RecordId last;
    RecordId highest;
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
