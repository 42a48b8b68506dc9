// SPDX-License-Identifier: Apache-2.0
#include "tests/simulated_cuda/capture.hpp"

#include <pthread.h>

namespace gpumemtrace::cuda_abi::simulated {
namespace {

thread_local CUstream own_default_stream = nullptr;
thread_local CUstreamCaptureMode own_capture_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

}  // namespace

CUresult find_stream(CUstream handle, CUstream* stream) {
  State& driver = state();
  const auto value = reinterpret_cast<std::uintptr_t>(handle);
  if (value == 0 || value == CU_STREAM_LEGACY) {
    *stream = driver.legacy_stream;
    return CUDA_SUCCESS;
  }
  if (value == CU_STREAM_PER_THREAD) {
    if (own_default_stream == nullptr) {
      own_default_stream = driver.streams.create();
      own_default_stream->context = current_context();
      own_default_stream->id = driver.next_id();
    }
    *stream = own_default_stream;
    return CUDA_SUCCESS;
  }
  if (!driver.streams.has(handle)) return CUDA_ERROR_INVALID_HANDLE;
  *stream = handle;
  return CUDA_SUCCESS;
}

CUresult forbid_during_capture() {
  if (own_capture_mode == CU_STREAM_CAPTURE_MODE_RELAXED) return CUDA_SUCCESS;
  const auto thread = static_cast<std::uint64_t>(pthread_self());
  for (CUstream stream : state().capturing) {
    Capture& capture = stream->capture;
    if (capture.mode == CU_STREAM_CAPTURE_MODE_RELAXED) continue;
    const bool elsewhere = capture.thread != thread;
    const bool both_global = capture.mode == CU_STREAM_CAPTURE_MODE_GLOBAL &&
                             own_capture_mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
    if (elsewhere && !both_global) continue;
    capture.status = CU_STREAM_CAPTURE_STATUS_INVALIDATED;
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  return CUDA_SUCCESS;
}

CUstreamCaptureMode exchange_capture_mode(CUstreamCaptureMode mode) {
  return std::exchange(own_capture_mode, mode);
}

CUgraphNode capture_node(CUstream stream, CUgraphNodeType type, Work work) {
  Capture& capture = stream->capture;
  CUgraphNode node = add_node(capture.graph, capture.last_nodes.data(), capture.last_nodes.size(),
                              type, std::move(work));
  capture.last_nodes = {node};
  return node;
}

CUgraphNode add_node(CUgraph graph, const CUgraphNode* dependencies, std::size_t count,
                     CUgraphNodeType type, Work work) {
  auto node = std::make_unique<CUgraphNode_st>();
  node->type = type;
  node->work = std::move(work);
  if (count != 0) node->dependencies.assign(dependencies, dependencies + count);
  graph->nodes.push_back(std::move(node));
  return graph->nodes.back().get();
}

}  // namespace gpumemtrace::cuda_abi::simulated
