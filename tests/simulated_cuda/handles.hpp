// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/simulated_cuda/cuda_abi.hpp"
#include "tests/simulated_cuda/free_ranges.hpp"

// The objects behind the opaque handles of the CUDA driver ABI. Their type names are the tags that
// preload/driver/cuda_types.hpp declares, so that handles need no casts.

namespace gpumemtrace::cuda_abi::simulated {

struct Device;

using Work = std::function<CUresult()>;

// The state of a stream in stream capture.
struct Capture {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  std::uint64_t id = 0;
  bool began_here = false;     // the capture must end on this stream
  bool graph_is_ours = false;  // cuStreamBeginCapture made the graph
  std::uint64_t thread = 0;
  CUgraph graph = nullptr;
  std::vector<CUgraphNode> last_nodes;
};

struct PoolSegment {
  std::uint64_t bytes = 0;
  std::uint64_t live_bytes = 0;
};

}  // namespace gpumemtrace::cuda_abi::simulated

namespace gpumemtrace::cuda_abi {

struct CUctx_st {
  simulated::Device* device = nullptr;
  bool is_primary = false;
  bool alive = true;  // destroyed contexts are kept: context stacks may hold them
  unsigned int flags = 0;
  unsigned int api_version = 0;
  unsigned int attach_count = 1;
  std::uint64_t id = 0;
  std::map<int, std::size_t> limits;
  std::map<int, std::uint64_t> limit_bytes;  // device memory taken for each limit
  std::uint64_t executable_graphs = 0;
  std::uint64_t executable_graph_bytes = 0;  // kept for later executable graphs
  std::vector<CUcontext> peers;
};

struct CUstream_st {
  CUcontext context = nullptr;
  unsigned int flags = 0;
  int priority = 0;
  std::uint64_t id = 0;
  simulated::Capture capture;
};

struct CUevent_st {
  CUcontext context = nullptr;
  unsigned int flags = 0;
  bool recorded = false;
  std::uint64_t time_ns = 0;
  simulated::Capture capture;  // capture state of the stream that recorded the event
};

struct CUmemPoolHandle_st {
  simulated::Device* device = nullptr;
  CUmemPoolProps properties{};
  bool is_default = false;
  bool is_imported = false;
  bool destroyed = false;  // a destroyed pool ends when its last allocation is freed
  std::map<int, std::uint64_t> settings;
  std::uint64_t release_threshold_bytes = 0;
  std::uint64_t used_bytes = 0;
  std::uint64_t used_high_bytes = 0;
  std::uint64_t reserved_bytes = 0;
  std::uint64_t reserved_high_bytes = 0;
  simulated::FreeRanges free;
  std::map<std::uint64_t, simulated::PoolSegment> segments;
};

struct CUarray_st {
  CUcontext context = nullptr;
  CUDA_ARRAY3D_DESCRIPTOR descriptor{};
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;
  std::uint64_t row_bytes = 0;
  std::uint64_t rows = 0;
  bool is_level = false;  // a level of a mipmapped array, which owns the memory
};

struct CUmipmappedArray_st {
  CUcontext context = nullptr;
  std::vector<CUarray> levels;
};

struct CUextMemory_st {
  int file = -1;
  std::uint64_t bytes = 0;
};

struct CUgraphNode_st {
  CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
  std::vector<CUgraphNode> dependencies;
  simulated::Work work;
  CUDA_MEM_ALLOC_NODE_PARAMS allocation{};
};

struct CUgraph_st {
  std::vector<std::unique_ptr<CUgraphNode_st>> nodes;  // each node after all that it depends on
};

struct CUgraphExec_st {
  CUcontext context = nullptr;
  struct Step {
    CUgraphNode node = nullptr;
    CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
    simulated::Work work;
    CUdeviceptr allocated_address = 0;
  };
  std::vector<Step> steps;
  std::uint64_t flags = 0;
};

struct CUmod_st {
  std::map<std::string, std::unique_ptr<CUfunc_st>> functions;
};

struct CUfunc_st {
  std::string name;
};

struct CUkern_st {
  CUfunc_st function;
};

struct CUlib_st {
  std::map<std::string, std::unique_ptr<CUkern_st>> kernels;
};

}  // namespace gpumemtrace::cuda_abi
