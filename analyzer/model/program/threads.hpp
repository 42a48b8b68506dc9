// SPDX-License-Identifier: Apache-2.0
// Names of threads, and the thread on which each stack was first met.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "trace/records.hpp"

namespace gpumemtrace::analyzer {

struct ThreadName {
  std::uint64_t id = 0;  // the kernel's; 0 = not known
  std::string name;      // empty = it has none
};

class Threads {
 public:
  void add(const trace::Thread& record, std::string_view name, std::uint32_t writer) {
    ThreadName& thread = by_writer_[writer];
    thread = {record.thread_id, std::string(name)};
    by_id_[record.thread_id] = thread.name;
  }
  void add_stack(trace::StackId stack, std::uint32_t writer) {
    const auto thread = by_writer_.find(writer);
    if (thread != by_writer_.end()) stacks_.try_emplace(stack, thread->second.id);
  }
  [[nodiscard]] ThreadName of_stack(trace::StackId stack) const {
    const auto found = stacks_.find(stack);
    return found == stacks_.end() ? ThreadName() : of_id(found->second);
  }
  [[nodiscard]] ThreadName of_id(std::uint64_t id) const {
    const auto found = by_id_.find(id);
    return {id, found == by_id_.end() ? std::string() : found->second};
  }

 private:
  std::map<std::uint32_t, ThreadName> by_writer_;
  std::map<std::uint64_t, std::string> by_id_;
  std::map<trace::StackId, std::uint64_t> stacks_;  // to thread ids
};

}  // namespace gpumemtrace::analyzer
