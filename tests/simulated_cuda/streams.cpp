// SPDX-License-Identifier: Apache-2.0
#include <pthread.h>

#include <algorithm>
#include <chrono>

#include "tests/simulated_cuda/call.hpp"
#include "tests/simulated_cuda/capture.hpp"
#include "tests/simulated_cuda/implementations.hpp"
#include "tests/simulated_cuda/pool_memory.hpp"

namespace gpumemtrace::cuda_abi::simulated {
namespace {

std::uint64_t now_ns() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
}

// Waiting for a stream that is being captured is an error, and it invalidates the capture.
CUresult wait_for(CUstream handle) {
  CUstream stream = nullptr;
  const CUresult found = find_stream(handle, &stream);
  if (found != CUDA_SUCCESS) return found;
  if (stream->capture.status == CU_STREAM_CAPTURE_STATUS_NONE) return CUDA_SUCCESS;
  stream->capture.status = CU_STREAM_CAPTURE_STATUS_INVALIDATED;
  return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

CUresult begin(CUstream handle, CUgraph graph, const CUgraphNode* dependencies, std::size_t count,
               CUstreamCaptureMode mode) {
  State& driver = state();
  CUstream stream = nullptr;
  const CUresult found = find_stream(handle, &stream);
  if (found != CUDA_SUCCESS) return found;
  if (stream == driver.legacy_stream) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  if (stream->capture.status != CU_STREAM_CAPTURE_STATUS_NONE) return CUDA_ERROR_ILLEGAL_STATE;
  Capture capture;
  capture.status = CU_STREAM_CAPTURE_STATUS_ACTIVE;
  capture.mode = mode;
  capture.id = driver.next_id();
  capture.began_here = true;
  capture.graph_is_ours = graph == nullptr;
  capture.thread = static_cast<std::uint64_t>(pthread_self());
  capture.graph = graph == nullptr ? driver.graphs.create() : graph;
  if (count != 0) capture.last_nodes.assign(dependencies, dependencies + count);
  stream->capture = std::move(capture);
  driver.capturing.push_back(stream);
  return CUDA_SUCCESS;
}

}  // namespace

CUresult stream_create_with_priority(CUstream* stream, unsigned int flags, int priority) {
  if (stream == nullptr || flags > CU_STREAM_NON_BLOCKING) return CUDA_ERROR_INVALID_VALUE;
  *stream = state().streams.create();
  (*stream)->context = current_context();
  (*stream)->flags = flags;
  (*stream)->priority = priority;
  (*stream)->id = state().next_id();
  return CUDA_SUCCESS;
}

CUresult stream_create(CUstream* stream, unsigned int flags) {
  return stream_create_with_priority(stream, flags, 0);
}

CUresult stream_destroy(CUstream stream) {
  State& driver = state();
  if (!driver.streams.has(stream)) return CUDA_ERROR_INVALID_HANDLE;
  driver.capturing.erase(std::remove(driver.capturing.begin(), driver.capturing.end(), stream),
                         driver.capturing.end());
  driver.streams.destroy(stream);
  return CUDA_SUCCESS;
}

CUresult stream_synchronize(CUstream stream) {
  const CUresult result = wait_for(stream);
  if (result == CUDA_SUCCESS) trim_to_release_thresholds();
  return result;
}

CUresult stream_query(CUstream stream) { return wait_for(stream); }

CUresult stream_wait_event(CUstream handle, CUevent event, unsigned int) {
  CUstream stream = nullptr;
  const CUresult found = find_stream(handle, &stream);
  if (found != CUDA_SUCCESS) return found;
  if (!state().events.has(event)) return CUDA_ERROR_INVALID_HANDLE;
  if (event->capture.status != CU_STREAM_CAPTURE_STATUS_ACTIVE) return CUDA_SUCCESS;
  Capture& capture = stream->capture;
  if (capture.status == CU_STREAM_CAPTURE_STATUS_NONE) {
    capture = event->capture;
    capture.began_here = false;
    return CUDA_SUCCESS;
  }
  for (CUgraphNode node : event->capture.last_nodes) capture.last_nodes.push_back(node);
  return CUDA_SUCCESS;
}

CUresult stream_get_context(CUstream handle, CUcontext* context) {
  CUstream stream = nullptr;
  const CUresult found = find_stream(handle, &stream);
  if (found != CUDA_SUCCESS) return found;
  *context = stream->context == nullptr ? current_context() : stream->context;
  return *context == nullptr ? CUDA_ERROR_INVALID_CONTEXT : CUDA_SUCCESS;
}

CUresult stream_get_device(CUstream handle, CUdevice* device) {
  CUcontext context = nullptr;
  const CUresult found = stream_get_context(handle, &context);
  if (found == CUDA_SUCCESS) *device = context->device->ordinal;
  return found;
}

CUresult stream_get_priority(CUstream handle, int* priority) {
  CUstream stream = nullptr;
  const CUresult found = find_stream(handle, &stream);
  if (found == CUDA_SUCCESS) *priority = stream->priority;
  return found;
}

CUresult stream_get_flags(CUstream handle, unsigned int* flags) {
  CUstream stream = nullptr;
  const CUresult found = find_stream(handle, &stream);
  if (found == CUDA_SUCCESS) *flags = stream->flags;
  return found;
}

CUresult stream_get_id(CUstream handle, unsigned long long* id) {
  CUstream stream = nullptr;
  const CUresult found = find_stream(handle, &stream);
  if (found == CUDA_SUCCESS) *id = stream->id;
  return found;
}

CUresult stream_add_callback(CUstream handle, CUstreamCallback callback, void* data, unsigned int) {
  struct Bound {
    CUstreamCallback callback;
    CUstream stream;
    void* data;
  };
  if (callback == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const CUresult found = wait_for(handle);
  if (found != CUDA_SUCCESS) return found;
  const auto run = [](void* argument) {
    const std::unique_ptr<Bound> bound(static_cast<Bound*>(argument));
    bound->callback(bound->stream, CUDA_SUCCESS, bound->data);
  };
  defer_host_function(run, new Bound{callback, handle, data});
  return CUDA_SUCCESS;
}

CUresult launch_host_function(CUstream stream, CUhostFn function, void* data) {
  if (function == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return submit(stream, CU_GRAPH_NODE_TYPE_HOST, [function, data] {
    defer_host_function(function, data);
    return CUDA_SUCCESS;
  });
}

CUresult stream_begin_capture(CUstream stream, CUstreamCaptureMode mode) {
  return begin(stream, nullptr, nullptr, 0, mode);
}

CUresult stream_begin_capture_v1(CUstream stream) {
  return stream_begin_capture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
}

CUresult stream_begin_capture_to_graph(CUstream stream, CUgraph graph,
                                       const CUgraphNode* dependencies, const CUgraphEdgeData*,
                                       std::size_t count, CUstreamCaptureMode mode) {
  if (!state().graphs.has(graph)) return CUDA_ERROR_INVALID_VALUE;
  return begin(stream, graph, dependencies, count, mode);
}

CUresult stream_end_capture(CUstream handle, CUgraph* graph) {
  State& driver = state();
  CUstream stream = nullptr;
  const CUresult found = find_stream(handle, &stream);
  if (found != CUDA_SUCCESS) return found;
  const Capture capture = stream->capture;
  if (graph == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (capture.status == CU_STREAM_CAPTURE_STATUS_NONE) return CUDA_ERROR_ILLEGAL_STATE;
  if (!capture.began_here) return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
  driver.capturing.erase(std::remove(driver.capturing.begin(), driver.capturing.end(), stream),
                         driver.capturing.end());
  driver.streams.for_each([&](CUstream member) {
    if (member->capture.id == capture.id) member->capture = {};
  });
  driver.events.for_each([&](CUevent member) {
    if (member->capture.id == capture.id) member->capture = {};
  });
  *graph = capture.graph;
  if (capture.status == CU_STREAM_CAPTURE_STATUS_ACTIVE) return CUDA_SUCCESS;
  if (capture.graph_is_ours) driver.graphs.destroy(capture.graph);
  *graph = nullptr;
  return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
}

CUresult stream_is_capturing(CUstream handle, CUstreamCaptureStatus* status) {
  CUstream stream = nullptr;
  const CUresult found = find_stream(handle, &stream);
  if (found != CUDA_SUCCESS) return found;
  if (status == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *status = stream->capture.status;
  return CUDA_SUCCESS;
}

CUresult stream_get_capture_info(CUstream handle, CUstreamCaptureStatus* status,
                                 std::uint64_t* id) {
  const CUresult found = stream_is_capturing(handle, status);
  if (found != CUDA_SUCCESS || id == nullptr) return found;
  CUstream stream = nullptr;
  find_stream(handle, &stream);
  *id = stream->capture.id;
  return CUDA_SUCCESS;
}

CUresult stream_get_capture_info_v2(CUstream handle, CUstreamCaptureStatus* status,
                                    std::uint64_t* id, CUgraph* graph,
                                    const CUgraphNode** dependencies, std::size_t* count) {
  const CUresult found = stream_get_capture_info(handle, status, id);
  if (found != CUDA_SUCCESS) return found;
  CUstream stream = nullptr;
  find_stream(handle, &stream);
  const std::vector<CUgraphNode>& last = stream->capture.last_nodes;
  if (graph != nullptr) *graph = stream->capture.graph;
  if (dependencies != nullptr) *dependencies = last.data();
  if (count != nullptr) *count = last.size();
  return CUDA_SUCCESS;
}

CUresult stream_get_capture_info_v3(CUstream handle, CUstreamCaptureStatus* status,
                                    std::uint64_t* id, CUgraph* graph,
                                    const CUgraphNode** dependencies, const CUgraphEdgeData** edges,
                                    std::size_t* count) {
  if (edges != nullptr) *edges = nullptr;
  return stream_get_capture_info_v2(handle, status, id, graph, dependencies, count);
}

CUresult thread_exchange_capture_mode(CUstreamCaptureMode* mode) {
  if (mode == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *mode = exchange_capture_mode(*mode);
  return CUDA_SUCCESS;
}

CUresult event_create(CUevent* event, unsigned int flags) {
  if (event == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *event = state().events.create();
  (*event)->context = current_context();
  (*event)->flags = flags;
  return CUDA_SUCCESS;
}

CUresult event_destroy(CUevent event) {
  if (!state().events.has(event)) return CUDA_ERROR_INVALID_HANDLE;
  state().events.destroy(event);
  return CUDA_SUCCESS;
}

CUresult event_record(CUevent event, CUstream handle) {
  CUstream stream = nullptr;
  const CUresult found = find_stream(handle, &stream);
  if (found != CUDA_SUCCESS) return found;
  if (!state().events.has(event)) return CUDA_ERROR_INVALID_HANDLE;
  event->recorded = true;
  event->time_ns = now_ns();
  event->capture = stream->capture;
  return CUDA_SUCCESS;
}

CUresult event_record_with_flags(CUevent event, CUstream stream, unsigned int) {
  return event_record(event, stream);
}

CUresult event_query(CUevent event) {
  if (!state().events.has(event)) return CUDA_ERROR_INVALID_HANDLE;
  return event->capture.status == CU_STREAM_CAPTURE_STATUS_NONE ? CUDA_SUCCESS
                                                                : CUDA_ERROR_CAPTURED_EVENT;
}

CUresult event_synchronize(CUevent event) {
  const CUresult result = event_query(event);
  if (result == CUDA_SUCCESS) trim_to_release_thresholds();
  return result;
}

CUresult event_elapsed_time(float* milliseconds, CUevent start, CUevent end) {
  if (milliseconds == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (!state().events.has(start) || !state().events.has(end)) return CUDA_ERROR_INVALID_HANDLE;
  if (!start->recorded || !end->recorded) return CUDA_ERROR_INVALID_HANDLE;
  constexpr float kMillisecondsPerNanosecond = 1e-6F;
  const auto elapsed_ns =
      static_cast<float>(static_cast<std::int64_t>(end->time_ns - start->time_ns));
  *milliseconds = elapsed_ns * kMillisecondsPerNanosecond;
  return CUDA_SUCCESS;
}

}  // namespace gpumemtrace::cuda_abi::simulated
