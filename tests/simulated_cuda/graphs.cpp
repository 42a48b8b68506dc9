// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <map>

#include "tests/simulated_cuda/box_copy.hpp"
#include "tests/simulated_cuda/capture.hpp"
#include "tests/simulated_cuda/fill.hpp"
#include "tests/simulated_cuda/graph_memory.hpp"
#include "tests/simulated_cuda/implementations.hpp"

namespace gpumemtrace::cuda_abi::simulated {
namespace {

CUresult do_nothing() { return CUDA_SUCCESS; }

Work copy_work(const CUDA_MEMCPY3D& parameters) {
  const BoxCopy box = box_of_3d(parameters);
  return [box] { return copy_box(box); };
}

template <typename Parameters>
Work set_work(const Parameters& from) {
  const Fill fill{from.dst, from.pitch, from.value, from.elementSize, from.width, from.height};
  return [fill] { return fill_now(fill); };
}

// The graph that a new node is added to, and the nodes that it depends on.
struct Place {
  CUgraphNode* node;
  CUgraph graph;
  const CUgraphNode* dependencies;
  std::size_t count;
};

CUresult add(const Place& place, CUgraphNodeType type, Work work) {
  if (place.node == nullptr || !state().graphs.has(place.graph) ||
      (place.count != 0 && place.dependencies == nullptr)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *place.node = add_node(place.graph, place.dependencies, place.count, type, std::move(work));
  return CUDA_SUCCESS;
}

template <typename Parameters>
CUresult add_allocation(const Place& place, Parameters* parameters) {
  if (parameters == nullptr || parameters->bytesize == 0) return CUDA_ERROR_INVALID_VALUE;
  Device* device = find_device(parameters->poolProps.location.id);
  if (device == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  parameters->dptr = reserve_graph_addresses(parameters->bytesize);
  if (parameters->dptr == 0) return CUDA_ERROR_OUT_OF_MEMORY;
  const CUresult result = add(place, CU_GRAPH_NODE_TYPE_MEM_ALLOC,
                              allocation_work(device, parameters->dptr, parameters->bytesize));
  if (result != CUDA_SUCCESS) return result;
  CUDA_MEM_ALLOC_NODE_PARAMS& kept = (*place.node)->allocation;
  kept.poolProps = parameters->poolProps;
  kept.bytesize = parameters->bytesize;
  kept.dptr = parameters->dptr;
  return CUDA_SUCCESS;
}

CUresult add_any(const Place& place, CUgraphNodeParams* parameters) {
  if (parameters == nullptr) return CUDA_ERROR_INVALID_VALUE;
  switch (parameters->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
    case CU_GRAPH_NODE_TYPE_EMPTY:
      return add(place, parameters->type, do_nothing);
    case CU_GRAPH_NODE_TYPE_MEMCPY:
      return add(place, parameters->type, copy_work(parameters->memcpy.copyParams));
    case CU_GRAPH_NODE_TYPE_MEMSET:
      return add(place, parameters->type, set_work(parameters->memset));
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
      return add_allocation(place, &parameters->alloc);
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
      return add(place, parameters->type, free_work(parameters->free.dptr));
    default:
      return CUDA_ERROR_NOT_SUPPORTED;
  }
}

CUresult replace_work(CUgraphExec executable, CUgraphNode node, const Work& work) {
  if (!state().executable_graphs.has(executable)) return CUDA_ERROR_INVALID_VALUE;
  for (CUgraphExec_st::Step& step : executable->steps) {
    if (step.node != node) continue;
    step.work = work;
    return CUDA_SUCCESS;
  }
  return CUDA_ERROR_INVALID_VALUE;
}

std::uint64_t* memory_counter(Device* device, CUgraphMem_attribute attribute) {
  switch (attribute) {
    case CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT:
      return &device->graph_used_bytes;
    case CU_GRAPH_MEM_ATTR_USED_MEM_HIGH:
      return &device->graph_used_high_bytes;
    case CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT:
      return &device->graph_reserved_bytes;
    case CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH:
      return &device->graph_reserved_high_bytes;
  }
  return nullptr;
}

// With CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH, a launch first frees what an earlier launch
// left allocated.
void free_leftovers(CUgraphExec executable) {
  if ((executable->flags & CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH) == 0) return;
  for (const CUgraphExec_st::Step& step : executable->steps) {
    if (step.allocated_address == 0) continue;
    const Allocation* left = find_allocation_start(step.allocated_address);
    if (left != nullptr && left->kind == Kind::kGraph) release_allocation(left->address);
  }
}

// Charges device memory for one more executable graph; memory that destroyed executable graphs left
// to the context is used first.
bool take_for_executable(CUcontext context) {
  const std::uint64_t wanted = (context->executable_graphs + 1) * state().settings.graph_bytes;
  if (wanted > context->executable_graph_bytes) {
    if (!charge(context->device, wanted - context->executable_graph_bytes)) return false;
    context->executable_graph_bytes = wanted;
  }
  ++context->executable_graphs;
  return true;
}

}  // namespace

CUresult graph_create(CUgraph* graph, unsigned int flags) {
  if (graph == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  *graph = state().graphs.create();
  return CUDA_SUCCESS;
}

CUresult graph_clone(CUgraph* clone, CUgraph original) {
  if (clone == nullptr || !state().graphs.has(original)) return CUDA_ERROR_INVALID_VALUE;
  *clone = state().graphs.create();
  std::map<CUgraphNode, CUgraphNode> copies;
  for (const auto& node : original->nodes) {
    CUgraphNode copy = add_node(*clone, nullptr, 0, node->type, node->work);
    copy->allocation = node->allocation;
    for (CUgraphNode dependency : node->dependencies) {
      copy->dependencies.push_back(copies.at(dependency));
    }
    copies[node.get()] = copy;
  }
  return CUDA_SUCCESS;
}

CUresult graph_destroy(CUgraph graph) {
  if (!state().graphs.has(graph)) return CUDA_ERROR_INVALID_VALUE;
  state().graphs.destroy(graph);
  return CUDA_SUCCESS;
}

CUresult graph_add_node(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies,
                        std::size_t count, CUgraphNodeParams* parameters) {
  return add_any({node, graph, dependencies, count}, parameters);
}

CUresult graph_add_node_v2(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies,
                           const CUgraphEdgeData*, std::size_t count,
                           CUgraphNodeParams* parameters) {
  return add_any({node, graph, dependencies, count}, parameters);
}

CUresult graph_add_mem_alloc_node(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies,
                                  std::size_t count, CUDA_MEM_ALLOC_NODE_PARAMS* parameters) {
  return add_allocation({node, graph, dependencies, count}, parameters);
}

CUresult graph_add_mem_free_node(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies,
                                 std::size_t count, CUdeviceptr address) {
  return add({node, graph, dependencies, count}, CU_GRAPH_NODE_TYPE_MEM_FREE, free_work(address));
}

CUresult graph_add_memcpy_node(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies,
                               std::size_t count, const CUDA_MEMCPY3D* parameters, CUcontext) {
  if (parameters == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return add({node, graph, dependencies, count}, CU_GRAPH_NODE_TYPE_MEMCPY, copy_work(*parameters));
}

CUresult graph_add_memset_node(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies,
                               std::size_t count, const CUDA_MEMSET_NODE_PARAMS* parameters,
                               CUcontext) {
  if (parameters == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return add({node, graph, dependencies, count}, CU_GRAPH_NODE_TYPE_MEMSET, set_work(*parameters));
}

CUresult graph_add_kernel_node(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies,
                               std::size_t count, const CUDA_KERNEL_NODE_PARAMS* parameters) {
  if (parameters == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return add({node, graph, dependencies, count}, CU_GRAPH_NODE_TYPE_KERNEL, do_nothing);
}

CUresult graph_add_kernel_node_v1(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies,
                                  std::size_t count, const CUDA_KERNEL_NODE_PARAMS_v1* parameters) {
  if (parameters == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return add({node, graph, dependencies, count}, CU_GRAPH_NODE_TYPE_KERNEL, do_nothing);
}

CUresult graph_add_empty_node(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies,
                              std::size_t count) {
  return add({node, graph, dependencies, count}, CU_GRAPH_NODE_TYPE_EMPTY, do_nothing);
}

CUresult graph_get_nodes(CUgraph graph, CUgraphNode* nodes, std::size_t* count) {
  if (count == nullptr || !state().graphs.has(graph)) return CUDA_ERROR_INVALID_VALUE;
  if (nodes != nullptr) {
    const std::size_t most = std::min(*count, graph->nodes.size());
    for (std::size_t index = 0; index < most; ++index) nodes[index] = graph->nodes[index].get();
  }
  *count = graph->nodes.size();
  return CUDA_SUCCESS;
}

CUresult graph_node_get_type(CUgraphNode node, CUgraphNodeType* type) {
  if (node == nullptr || type == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *type = node->type;
  return CUDA_SUCCESS;
}

CUresult graph_mem_alloc_node_get_parameters(CUgraphNode node,
                                             CUDA_MEM_ALLOC_NODE_PARAMS* parameters) {
  if (node == nullptr || parameters == nullptr || node->type != CU_GRAPH_NODE_TYPE_MEM_ALLOC) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *parameters = node->allocation;
  return CUDA_SUCCESS;
}

CUresult graph_memcpy_node_set_parameters(CUgraphNode node, const CUDA_MEMCPY3D* parameters) {
  if (node == nullptr || parameters == nullptr) return CUDA_ERROR_INVALID_VALUE;
  node->work = copy_work(*parameters);
  return CUDA_SUCCESS;
}

CUresult graph_memset_node_set_parameters(CUgraphNode node,
                                          const CUDA_MEMSET_NODE_PARAMS* parameters) {
  if (node == nullptr || parameters == nullptr) return CUDA_ERROR_INVALID_VALUE;
  node->work = set_work(*parameters);
  return CUDA_SUCCESS;
}

CUresult executable_memcpy_node_set_parameters(CUgraphExec executable, CUgraphNode node,
                                               const CUDA_MEMCPY3D* parameters, CUcontext) {
  if (parameters == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return replace_work(executable, node, copy_work(*parameters));
}

CUresult executable_memset_node_set_parameters(CUgraphExec executable, CUgraphNode node,
                                               const CUDA_MEMSET_NODE_PARAMS* parameters,
                                               CUcontext) {
  if (parameters == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return replace_work(executable, node, set_work(*parameters));
}

CUresult graph_instantiate_with_flags(CUgraphExec* executable, CUgraph graph,
                                      unsigned long long flags) {
  if (executable == nullptr || !state().graphs.has(graph)) return CUDA_ERROR_INVALID_VALUE;
  if (!take_for_executable(current_context())) return CUDA_ERROR_OUT_OF_MEMORY;
  *executable = state().executable_graphs.create();
  (*executable)->context = current_context();
  (*executable)->flags = flags;
  for (const auto& node : graph->nodes) {
    (*executable)->steps.push_back({node.get(), node->type, node->work, node->allocation.dptr});
  }
  return CUDA_SUCCESS;
}

CUresult graph_instantiate(CUgraphExec* executable, CUgraph graph, CUgraphNode* error_node,
                           char* log, std::size_t log_bytes) {
  if (error_node != nullptr) *error_node = nullptr;
  if (log != nullptr && log_bytes != 0) *log = '\0';
  return graph_instantiate_with_flags(executable, graph, 0);
}

CUresult graph_instantiate_with_parameters(CUgraphExec* executable, CUgraph graph,
                                           CUDA_GRAPH_INSTANTIATE_PARAMS* parameters) {
  if (parameters == nullptr) return CUDA_ERROR_INVALID_VALUE;
  parameters->hErrNode_out = nullptr;
  parameters->result_out = CUDA_GRAPH_INSTANTIATE_SUCCESS;
  return graph_instantiate_with_flags(executable, graph, parameters->flags);
}

CUresult graph_launch(CUgraphExec executable, CUstream handle) {
  if (!state().executable_graphs.has(executable)) return CUDA_ERROR_INVALID_VALUE;
  CUstream stream = nullptr;
  const CUresult found = find_stream(handle, &stream);
  if (found != CUDA_SUCCESS) return found;
  if (stream->capture.status != CU_STREAM_CAPTURE_STATUS_NONE) return CUDA_ERROR_NOT_SUPPORTED;
  free_leftovers(executable);
  for (const CUgraphExec_st::Step& step : executable->steps) {
    const CUresult result = step.work();
    if (result != CUDA_SUCCESS) return result;
  }
  return CUDA_SUCCESS;
}

CUresult graph_upload(CUgraphExec executable, CUstream handle) {
  CUstream stream = nullptr;
  if (!state().executable_graphs.has(executable)) return CUDA_ERROR_INVALID_VALUE;
  return find_stream(handle, &stream);
}

CUresult executable_destroy(CUgraphExec executable) {
  if (!state().executable_graphs.has(executable)) return CUDA_ERROR_INVALID_VALUE;
  // The context may have ended before its executable graph, which set the context's count to 0.
  if (executable->context->executable_graphs != 0) --executable->context->executable_graphs;
  state().executable_graphs.destroy(executable);
  return CUDA_SUCCESS;
}

CUresult device_graph_mem_trim(CUdevice ordinal) {
  Device* device = find_device(ordinal);
  if (device == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  trim_graph_memory(device);
  return CUDA_SUCCESS;
}

CUresult device_get_graph_mem_attribute(CUdevice ordinal, CUgraphMem_attribute attribute,
                                        void* value) {
  Device* device = find_device(ordinal);
  if (device == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  const std::uint64_t* counter = memory_counter(device, attribute);
  if (counter == nullptr || value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::memcpy(value, counter, sizeof *counter);
  return CUDA_SUCCESS;
}

// Only the high-water marks of graph memory can be set, and only to the current value.
CUresult device_set_graph_mem_attribute(CUdevice ordinal, CUgraphMem_attribute attribute, void*) {
  Device* device = find_device(ordinal);
  if (device == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  if (attribute == CU_GRAPH_MEM_ATTR_USED_MEM_HIGH) {
    device->graph_used_high_bytes = device->graph_used_bytes;
  } else if (attribute == CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH) {
    device->graph_reserved_high_bytes = device->graph_reserved_bytes;
  } else {
    return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}

}  // namespace gpumemtrace::cuda_abi::simulated
