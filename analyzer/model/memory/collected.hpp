// SPDX-License-Identifier: Apache-2.0
// Memory that Python's cycle collector freed, by the group that had allocated it.
#pragma once

#include <cstdint>
#include <map>

#include "analyzer/model/accounts/accounts.hpp"

namespace gpumemtrace::analyzer {

// Blocks of one group that collections freed.
struct Collected {
  std::uint64_t count = 0;
  std::uint64_t bytes = 0;
  std::uint64_t collections = 0;    // that freed any of it
  std::uint64_t largest_bytes = 0;  // most that one of them freed
  std::uint64_t largest_time = 0;   // model time, when that one began
};

// - One collection is all frees of a thread in collections until it allocates or frees otherwise.
//   Two without such an event between them count as one.
// - Allocations that a checkpoint replaced are not in it.
class CollectedMemory {
 public:
  // The writer's thread freed the entry in a collection.
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
  // The writer's thread allocated, or freed outside of collections.
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
    std::uint64_t collection = 0;  // the last one that freed any
    std::uint64_t bytes = 0;       // that it freed
  };

  std::map<std::uint32_t, Course> groups_;
  std::uint64_t collection_ = 0;
  std::uint64_t began_ = 0;
  std::uint32_t writer_ = kNobody;  // the writer whose collection runs
};

}  // namespace gpumemtrace::analyzer
