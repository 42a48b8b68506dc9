// SPDX-License-Identifier: Apache-2.0
// Effects of calls about CUDA graphs, the memory in them, and stream captures.
#pragma once

#include <cstdint>

#include "preload/driver/tracking.hpp"
#include "preload/effects/effect.hpp"
#include "preload/session/session.hpp"
#include "trace/records.hpp"

namespace gpumemtrace::preload::effects {

// Argument 4 points to CUDA_MEM_ALLOC_NODE_PARAMS, in which the driver stores the address.
struct AddsGraphAllocation {
  using Record = trace::Graph;
  template <class... A>
  static void before(Record& record, const A&... a) noexcept {
    record.operation = trace::GraphOperation::kAddAllocation;
    record.graph = input<1>(a...);
    const auto* parameters = argument<4>(a...);
    if (parameters == nullptr) return;
    record.bytes = parameters->bytesize;
    if (parameters->poolProps.location.type == CU_MEM_LOCATION_TYPE_DEVICE) {
      record.device = parameters->poolProps.location.id;
    }
  }
  template <class... A>
  static void after(Record& record, const A&... a) noexcept {
    if (argument<4>(a...) != nullptr) record.address = argument<4>(a...)->dptr;
  }
};

template <trace::GraphOperation kOperation, int kGraph, int kAddress = kNone, int kStream = kNone>
struct UsesGraph {
  using Record = trace::Graph;
  template <class... A>
  static void before(Record& record, const A&... a) noexcept {
    record.operation = kOperation;
    record.graph = input<kGraph>(a...);
    record.address = input<kAddress>(a...);
    record.stream = input<kStream>(a...);
  }
  template <class... A>
  static void track(CUresult result, const A&...) noexcept
      requires(kOperation == trace::GraphOperation::kUpload ||
               kOperation == trace::GraphOperation::kDestroyExecutable) {
    if (result == CUDA_SUCCESS) driver_memory_changed();
  }
  template <class... A>
  static void track(CUresult result, const A&...) noexcept
      requires(kOperation == trace::GraphOperation::kLaunch) {
    if (result == CUDA_SUCCESS && tracking::graph_launched()) [[unlikely]]
      driver_memory_changed();
  }
};

// A graph node of any type: argument kParameters points to CUgraphNodeParams.
template <int kParameters>
struct AddsGraphNode {
  using Record = trace::Graph;
  template <class... A>
  static void before(Record& record, const A&... a) noexcept {
    record.graph = input<1>(a...);
    describe(record, argument<kParameters>(a...));
  }
  template <class... A>
  static void after(Record& record, const A&... a) noexcept {
    describe(record, argument<kParameters>(a...));
  }

 private:
  static void describe(Record& record, const CUgraphNodeParams* parameters) noexcept;
};

std::uint64_t region_bytes(const CUDA_MEMCPY3D* copy) noexcept;

// A graph node that copies: argument kParameters points to the parameters of the copy.
template <trace::GraphOperation kOperation, int kGraph, int kParameters>
struct AddsGraphCopy {
  using Record = trace::Graph;
  template <class... A>
  static void before(Record& record, const A&... a) noexcept {
    record.operation = kOperation;
    record.graph = input<kGraph>(a...);
    record.bytes = region_bytes(argument<kParameters>(a...));
  }
};

template <trace::GraphOperation kOperation, int kGraph, int kParameters>
struct AddsGraphSet {
  using Record = trace::Graph;
  template <class... A>
  static void before(Record& record, const A&... a) noexcept {
    record.operation = kOperation;
    record.graph = input<kGraph>(a...);
    const auto* set = argument<kParameters>(a...);
    if (set == nullptr) return;
    record.address = set->dst;
    record.bytes = set->width * set->height * set->elementSize;
  }
};

// Arguments: (executable*, graph, ...).
struct InstantiatesGraph : Outputs<&trace::Graph::executable> {
  template <class... A>
  static void before(Record& record, const A&... a) noexcept {
    record.operation = trace::GraphOperation::kInstantiate;
    record.graph = input<1>(a...);
  }
  template <class... A>
  static void track(CUresult result, const A&...) noexcept {
    if (result != CUDA_SUCCESS) return;
    tracking::graph_instantiated();
    driver_memory_changed();
  }
};

// Arguments: (clone*, graph).
struct ClonesGraph : Outputs<&trace::Graph::executable> {
  template <class... A>
  static void before(Record& record, const A&... a) noexcept {
    record.operation = trace::GraphOperation::kClone;
    record.graph = input<1>(a...);
  }
};

template <int kStream>
struct BeginsCapture {
  using Record = trace::Graph;
  template <class... A>
  static void before(Record& record, const A&... a) noexcept {
    record.operation = trace::GraphOperation::kBeginCapture;
    record.stream = input<kStream>(a...);
  }
  template <class... A>
  static void track(CUresult result, const A&...) noexcept {
    if (result == CUDA_SUCCESS) tracking::capture_began();
  }
};

// Arguments: (stream, graph*).
struct EndsCapture : Outputs<&trace::Graph::graph, 1> {
  static void before(Record& record, CUstream stream, CUgraph*) noexcept {
    record.operation = trace::GraphOperation::kEndCapture;
    record.stream = bits(stream);
  }
  static void track(CUresult, CUstream, CUgraph*) noexcept { tracking::capture_ended(); }
};

struct TrimsGraphMemory {
  using Record = trace::Graph;
  static void before(Record& record, CUdevice device) noexcept {
    record.operation = trace::GraphOperation::kTrim;
    record.device = device;
  }
  static void track(CUresult result, CUdevice) noexcept {
    if (result == CUDA_SUCCESS) driver_memory_changed();
  }
};

}  // namespace gpumemtrace::preload::effects
