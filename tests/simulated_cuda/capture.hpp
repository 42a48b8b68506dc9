// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <utility>

#include "tests/simulated_cuda/state.hpp"

// Stream capture: work submitted to a capturing stream becomes a node of a graph.

namespace gpumemtrace::cuda_abi::simulated {

// Resolves a stream handle, the two predefined streams included.
CUresult find_stream(CUstream handle, CUstream* stream);

// The result for a call that synchronises or allocates while a capture forbids that to the calling
// thread. The capture is invalidated by it, as the real driver does.
CUresult forbid_during_capture();

// The calling thread's capture mode.
CUstreamCaptureMode exchange_capture_mode(CUstreamCaptureMode mode);

// Adds a node that depends on everything that the stream's capture has seen last.
CUgraphNode capture_node(CUstream stream, CUgraphNodeType type, Work work);

// Adds a node to a graph, after `dependencies`.
CUgraphNode add_node(CUgraph graph, const CUgraphNode* dependencies, std::size_t count,
                     CUgraphNodeType type, Work work);

// Does the work now, since simulated streams are always idle, or captures it.
template <typename Function>
CUresult submit(CUstream handle, CUgraphNodeType type, Function work) {
  CUstream stream = nullptr;
  const CUresult found = find_stream(handle, &stream);
  if (found != CUDA_SUCCESS) return found;
  if (stream->capture.status == CU_STREAM_CAPTURE_STATUS_NONE) return work();
  if (stream->capture.status == CU_STREAM_CAPTURE_STATUS_INVALIDATED) {
    return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  }
  capture_node(stream, type, std::move(work));
  return CUDA_SUCCESS;
}

}  // namespace gpumemtrace::cuda_abi::simulated
