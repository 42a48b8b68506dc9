// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <utility>

#include "tests/simulated_cuda/state.hpp"

// Stream capture: work submitted to a capturing stream becomes a node of a graph.

namespace gpumemtrace::cuda_abi::simulated {

// Resolves a stream handle, including the two predefined ones (legacy and per-thread).
CUresult find_stream(CUstream handle, CUstream* stream);

// The result of a call that synchronises or allocates: an error if a stream capture forbids such a
// call to the calling thread. The call then invalidates that capture, as in the real driver.
CUresult forbid_during_capture();

// Sets the calling thread's capture mode and returns the previous one.
CUstreamCaptureMode exchange_capture_mode(CUstreamCaptureMode mode);

// Adds a graph node that depends on the last nodes of the stream's capture.
CUgraphNode capture_node(CUstream stream, CUgraphNodeType type, Work work);

// Adds a node to a graph; the node depends on the `count` nodes in `dependencies`.
CUgraphNode add_node(CUgraph graph, const CUgraphNode* dependencies, std::size_t count,
                     CUgraphNodeType type, Work work);

// Runs the work now, since simulated streams are always idle, or adds a node for it to the graph if
// the stream is capturing.
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
