// SPDX-License-Identifier: Apache-2.0
// Memory that Python's cycle collector freed, by the group of allocations to which it belonged.
#pragma once

#include <cstdint>
#include <map>

#include "analyzer/model/accounts/accounts.hpp"

namespace gpumemtrace::analyzer {

// Allocations of one group that runs of Python's cycle collector freed.
struct Collected {
  std::uint64_t count = 0;
  std::uint64_t bytes = 0;
  std::uint64_t collections = 0;    // runs of the collector that freed memory of the group
  std::uint64_t largest_bytes = 0;  // the most bytes that one run freed
  std::uint64_t largest_time = 0;   // model time at which that run began
};

// - A collection is all frees of a thread inside the cycle collector, until the thread allocates or
//   frees outside of it. Two collections without such an event between them count as one.
// - Allocations that a checkpoint replaced are not part of the sums.
class CollectedMemory {
 public:
  // Counts an allocation that the writer's thread freed in a collection.
  void free(std::uint32_t writer, const LiveAllocation& entry, std::uint64_t now) {
    if (writer != writer_) {
      writer_ = writer;
      ++collection_;
      began_ = now;
    }
    Course& course = groups_[entry.group];
    if (course.collection != collection_) {
      course.collection = collection_;
      course.bytes = 0;
      ++course.sums.collections;
    }
    course.bytes += entry.bytes;
    ++course.sums.count;
    course.sums.bytes += entry.bytes;
    if (course.bytes > course.sums.largest_bytes) {
      course.sums.largest_bytes = course.bytes;
      course.sums.largest_time = began_;
    }
  }
  // Called when the writer's thread allocates, or frees outside of collections.
  void end_collection(std::uint32_t writer) {
    if (writer == writer_) writer_ = kNobody;
  }

  template <class Visit>
  void for_each(Visit&& visit) const {
    for (const auto& [group, course] : groups_) visit(group, course.sums);
  }

 private:
  static constexpr std::uint32_t kNobody = ~std::uint32_t{0};

  struct Course {
    Collected sums;
    std::uint64_t collection = 0;  // number of the last collection that freed memory of the group
    std::uint64_t bytes = 0;       // bytes of the group that this collection freed
  };

  std::map<std::uint32_t, Course> groups_;
  std::uint64_t collection_ = 0;
  std::uint64_t began_ = 0;
  std::uint32_t writer_ = kNobody;  // writer in whose thread a collection runs
};

}  // namespace gpumemtrace::analyzer
