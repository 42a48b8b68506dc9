// SPDX-License-Identifier: Apache-2.0
// The effect of calls on memory that is not simply allocated and freed by address: virtual memory
// management, pools, and memory of other processes.
#pragma once

#include "analyzer/model/memory/process_memory.hpp"

namespace gpumemtrace::analyzer {

class MappingCalls {
 public:
  explicit MappingCalls(ProcessMemory& memory) : memory_(memory) {}

  void apply(const trace::Mapping& call);
  void apply(const trace::Import& call);
  void apply(const trace::Pool& call);
  void apply(const trace::PoolSample& sample);

 private:
  void reserve(const trace::Mapping& call);
  void free_reservation(const trace::Mapping& call);
  void map(const trace::Mapping& call);
  void import_handle(const trace::Mapping& call);
  void open_import(const trace::Import& call);
  void release_import(std::uint64_t key_address, const trace::CallHeader& call);

  ProcessMemory& memory_;
};

}  // namespace gpumemtrace::analyzer
