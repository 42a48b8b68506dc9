// SPDX-License-Identifier: Apache-2.0
// Uses graphs built node by node: nodes that allocate, copy, set and free; memory that outlives its
// launch; launches that free the memory of earlier ones. In the truth, a graph allocation lives
// from its launch to its free.
#include <cstddef>
#include <vector>

#include "tests/programs/support/program.hpp"
#include "tests/programs/support/truth.hpp"

namespace gpumemtrace::programs {
namespace {

constexpr std::size_t kBytes = std::size_t{4} << 20;

abi::CUgraphExec instantiate(abi::CUgraph graph, unsigned long long flags) {
  abi::CUgraphExec executable = nullptr;
  GPUMEMTRACE_CALL(cuGraphInstantiateWithFlags, &executable, graph, flags);
  return executable;
}

struct AllocationNode {
  abi::CUgraphNode node = nullptr;
  abi::CUdeviceptr address = 0;
};

AllocationNode add_allocation(abi::CUgraph graph) {
  abi::CUDA_MEM_ALLOC_NODE_PARAMS parameters{};
  parameters.poolProps.allocType = abi::CU_MEM_ALLOCATION_TYPE_PINNED;
  parameters.poolProps.location = {abi::CU_MEM_LOCATION_TYPE_DEVICE, 0};
  parameters.bytesize = kBytes;
  AllocationNode added;
  GPUMEMTRACE_CALL(cuGraphAddMemAllocNode, &added.node, graph, nullptr, 0, &parameters);
  added.address = parameters.dptr;
  return added;
}

abi::CUgraphNode add_set(abi::CUgraph graph, const AllocationNode& memory, abi::CUcontext context) {
  abi::CUDA_MEMSET_NODE_PARAMS parameters{};
  parameters.dst = memory.address;
  parameters.value = 7;
  parameters.elementSize = 1;
  parameters.width = kBytes;
  parameters.height = 1;
  abi::CUgraphNode node = nullptr;
  GPUMEMTRACE_CALL(cuGraphAddMemsetNode, &node, graph, &memory.node, 1, &parameters, context);
  return node;
}

abi::CUgraphNode add_copy(abi::CUgraph graph, abi::CUdeviceptr destination, abi::CUdeviceptr source,
                          abi::CUgraphNode after, abi::CUcontext context) {
  abi::CUDA_MEMCPY3D parameters{};
  parameters.srcMemoryType = abi::CU_MEMORYTYPE_DEVICE;
  parameters.srcDevice = source;
  parameters.dstMemoryType = abi::CU_MEMORYTYPE_DEVICE;
  parameters.dstDevice = destination;
  parameters.WidthInBytes = kBytes;
  parameters.Height = 1;
  parameters.Depth = 1;
  abi::CUgraphNode node = nullptr;
  GPUMEMTRACE_CALL(cuGraphAddMemcpyNode, &node, graph, &after, 1, &parameters, context);
  return node;
}

// A graph that allocates, sets, copies out and frees in every launch.
void launch_complete_graph(abi::CUcontext context, abi::CUstream stream) {
  const abi::CUdeviceptr result = allocate_device(kBytes);
  abi::CUgraph graph = nullptr;
  GPUMEMTRACE_CALL(cuGraphCreate, &graph, 0);
  const AllocationNode memory = add_allocation(graph);
  abi::CUgraphNode set = add_set(graph, memory, context);
  abi::CUgraphNode copied = add_copy(graph, result, memory.address, set, context);
  abi::CUgraphNode freed = nullptr;
  GPUMEMTRACE_CALL(cuGraphAddMemFreeNode, &freed, graph, &copied, 1, memory.address);
  abi::CUgraphExec executable = instantiate(graph, 0);
  constexpr int kLaunches = 3;
  for (int launch = 0; launch < kLaunches; ++launch) {
    GPUMEMTRACE_CALL(cuGraphLaunch, executable, stream);
    truth().allocated("driver", "graph", kBytes);
    truth().freed("driver", "graph", kBytes);
  }
  GPUMEMTRACE_CALL(cuStreamSynchronize, stream);
  std::vector<unsigned char> host(kBytes);
  GPUMEMTRACE_CALL(cuMemcpyDtoH_v2, host.data(), result, kBytes);
  truth().copied("device_to_host", kBytes);
  require(host[0] == 7 && host[kBytes - 1] == 7, "the graph has copied what it has set");
  GPUMEMTRACE_CALL(cuGraphExecDestroy, executable);
  GPUMEMTRACE_CALL(cuGraphDestroy, graph);
  free_device(result, kBytes);
}

// An ordinary call frees the memory that a launch has allocated.
void free_outside_graph(abi::CUstream stream) {
  abi::CUgraph graph = nullptr;
  GPUMEMTRACE_CALL(cuGraphCreate, &graph, 0);
  const AllocationNode memory = add_allocation(graph);
  abi::CUgraphExec executable = instantiate(graph, 0);
  GPUMEMTRACE_CALL(cuGraphLaunch, executable, stream);
  truth().allocated("driver", "graph", kBytes);
  GPUMEMTRACE_CALL(cuMemFreeAsync, memory.address, stream);
  truth().freed("driver", "graph", kBytes);
  GPUMEMTRACE_CALL(cuStreamSynchronize, stream);
  GPUMEMTRACE_CALL(cuGraphExecDestroy, executable);
  GPUMEMTRACE_CALL(cuGraphDestroy, graph);
}

// Every launch first frees the memory that the launch before has left allocated.
void free_on_launch(abi::CUstream stream) {
  abi::CUgraph graph = nullptr;
  GPUMEMTRACE_CALL(cuGraphCreate, &graph, 0);
  const AllocationNode memory = add_allocation(graph);
  abi::CUgraphExec executable =
      instantiate(graph, abi::CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH);
  GPUMEMTRACE_CALL(cuGraphLaunch, executable, stream);
  truth().allocated("driver", "graph", kBytes);
  GPUMEMTRACE_CALL(cuGraphLaunch, executable, stream);
  truth().freed("driver", "graph", kBytes);
  truth().allocated("driver", "graph", kBytes);
  GPUMEMTRACE_CALL(cuMemFreeAsync, memory.address, stream);
  truth().freed("driver", "graph", kBytes);
  GPUMEMTRACE_CALL(cuStreamSynchronize, stream);
  GPUMEMTRACE_CALL(cuGraphExecDestroy, executable);
  GPUMEMTRACE_CALL(cuGraphDestroy, graph);
}

int run() {
  abi::CUcontext context = start_on_device();
  if (!has_symbol("cuGraphAddMemAllocNode") ||
      device_attribute(abi::CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED) == 0) {
    skip_program("graphs cannot allocate memory here");
  }
  abi::CUstream stream = nullptr;
  GPUMEMTRACE_CALL(cuStreamCreate, &stream, abi::CU_STREAM_NON_BLOCKING);
  launch_complete_graph(context, stream);
  free_outside_graph(stream);
  free_on_launch(stream);
  GPUMEMTRACE_CALL(cuDeviceGraphMemTrim, 0);
  GPUMEMTRACE_CALL(cuStreamDestroy_v2, stream);
  return finish("graphs");
}

}  // namespace
}  // namespace gpumemtrace::programs

int main() { return gpumemtrace::programs::run(); }
