// SPDX-License-Identifier: Apache-2.0
// Copies whose time on the GPU is known from CUDA events, and graphs, sets and small copies whose
// number is known from the program's own arithmetic. Linked with libcupti, so that a collector
// finds it loaded. Output is the same in every run.
//
// Why events and CUPTI's records can be compared: each timed copy stands alone between its two
// events on an idle stream, so the events' distance is the copy and what it takes to start one,
// some microseconds beside more than a millisecond. A copy from or to pageable memory is staged
// through the driver's own buffers while the call runs. CUPTI reports it as one record that
// includes the staging, or as several; from the first one's start to the last one's end it is what
// the events enclose.

#include <cuda_runtime.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "truth.hpp"

namespace {

using gpumemtrace::gpu_tests::Truth;

constexpr std::size_t kTimedBytes = std::size_t{64} << 20;
constexpr int kTimedCopies = 10;
constexpr int kSmallCopies = 1000;
constexpr std::size_t kSmallBytes = 256;
constexpr int kSets = 20;
constexpr int kLaunches = 5;
constexpr std::size_t kGraphBytes = 1 << 20;
// Largest relative difference between the sum of the events' times and that of the records' times.
constexpr double kLargestDifference = 0.03;

void check(cudaError_t result, const char* what) {
  if (result == cudaSuccess) return;
  std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorName(result));
  std::exit(1);
}

struct Timed {
  const char* direction;
  const char* source_memory;
  const char* destination_memory;
  double event_ns = 0;
};

class Program {
 public:
  Program() {
    check(cudaStreamCreate(&stream_), "cudaStreamCreate");
    check(cudaEventCreate(&before_), "cudaEventCreate");
    check(cudaEventCreate(&after_), "cudaEventCreate");
    check(cudaMalloc(&device_, kTimedBytes), "cudaMalloc");
    check(cudaMallocHost(&pinned_, kTimedBytes), "cudaMallocHost");
    pageable_ = std::malloc(kTimedBytes);
    std::memset(pinned_, 1, kTimedBytes);
    std::memset(pageable_, 2, kTimedBytes);
    // These copies are in another function than the timed ones, so the report has separate rows.
    for (void* host : {pinned_, pageable_}) {
      check(cudaMemcpy(device_, host, kTimedBytes, cudaMemcpyHostToDevice), "warm-up");
      check(cudaMemcpy(host, device_, kTimedBytes, cudaMemcpyDeviceToHost), "warm-up");
      copies_ += 2;
    }
  }

  void time_copies(Timed& timed, void* to, const void* from, cudaMemcpyKind kind) {
    for (int i = 0; i < kTimedCopies; ++i) {
      check(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
      check(cudaEventRecord(before_, stream_), "cudaEventRecord");
      check(cudaMemcpyAsync(to, from, kTimedBytes, kind, stream_), "cudaMemcpyAsync");
      check(cudaEventRecord(after_, stream_), "cudaEventRecord");
      check(cudaEventSynchronize(after_), "cudaEventSynchronize");
      float milliseconds = 0;
      check(cudaEventElapsedTime(&milliseconds, before_, after_), "cudaEventElapsedTime");
      timed.event_ns += static_cast<double>(milliseconds) * 1e6;
      ++copies_;
    }
  }

  void time_all(Timed (&timed)[4]) {
    time_copies(timed[0], device_, pinned_, cudaMemcpyHostToDevice);
    time_copies(timed[1], pinned_, device_, cudaMemcpyDeviceToHost);
    time_copies(timed[2], device_, pageable_, cudaMemcpyHostToDevice);
    time_copies(timed[3], pageable_, device_, cudaMemcpyDeviceToHost);
  }

  void small_copies() {
    auto* bytes = static_cast<unsigned char*>(device_);
    for (int i = 0; i < kSmallCopies; ++i) {
      check(cudaMemcpyAsync(bytes + (i % 2 + 1) * 4096, bytes, kSmallBytes,
                            cudaMemcpyDeviceToDevice, stream_),
            "small copy");
      ++copies_;
    }
    for (int i = 0; i < kSets; ++i) {
      check(cudaMemsetAsync(device_, i, kSmallBytes, stream_), "cudaMemsetAsync");
    }
    check(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
  }

  void launch_graphs() {
    check(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeRelaxed), "cudaStreamBeginCapture");
    check(cudaMemcpyAsync(pinned_, device_, kGraphBytes, cudaMemcpyDeviceToHost, stream_),
          "captured copy");
    check(cudaMemsetAsync(device_, 7, kGraphBytes, stream_), "captured set");
    cudaGraph_t graph = nullptr;
    check(cudaStreamEndCapture(stream_, &graph), "cudaStreamEndCapture");
    cudaGraphExec_t executable = nullptr;
    check(cudaGraphInstantiate(&executable, graph, 0), "cudaGraphInstantiate");
    for (int i = 0; i < kLaunches; ++i) {
      check(cudaGraphLaunch(executable, stream_), "cudaGraphLaunch");
      ++copies_;
    }
    check(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
    check(cudaGraphExecDestroy(executable), "cudaGraphExecDestroy");
    check(cudaGraphDestroy(graph), "cudaGraphDestroy");
  }

  [[nodiscard]] std::uint64_t copies() const { return copies_; }

 private:
  cudaStream_t stream_ = nullptr;
  cudaEvent_t before_ = nullptr;
  cudaEvent_t after_ = nullptr;
  void* device_ = nullptr;
  void* pinned_ = nullptr;
  void* pageable_ = nullptr;
  std::uint64_t copies_ = 0;
};

void state_timed(Truth& truth, const Timed& timed) {
  const std::string name =
      std::string(timed.source_memory) + " to " + timed.destination_memory + ' ';
  const std::string where = std::string(R"(,"where":{"api":"cudaMemcpyAsync","direction":")") +
                            timed.direction + R"(","source_memory":")" + timed.source_memory +
                            R"(","destination_memory":")" + timed.destination_memory + "\"}";
  const auto field = [&](const char* key, std::uint64_t value, const std::string& more = "") {
    truth.check(name + key, "transfers.by_kind", value,
                where + R"(,"field":")" + key + "\"" + more);
  };
  const std::string near =
      R"(,"relation":"near","tolerance":)" + std::to_string(kLargestDifference);
  const std::uint64_t bytes = kTimedBytes * kTimedCopies;
  field("count", kTimedCopies);
  field("joined_count", kTimedCopies);
  field("joined_bytes", bytes);
  field("gpu_busy_ns", static_cast<std::uint64_t>(timed.event_ns), near);
  field("bandwidth_bytes_per_s",
        static_cast<std::uint64_t>(static_cast<double>(bytes) * 1e9 / timed.event_ns), near);
}

void state_rest(Truth& truth, std::uint64_t copies) {
  const std::string in_graph = R"(,"where":{"in_graph":true})";
  truth.check("copies in graphs", "transfers.by_kind", kLaunches, in_graph + R"(,"field":"count")");
  truth.check("bytes in graphs", "transfers.by_kind", kLaunches * kGraphBytes,
              in_graph + R"(,"field":"bytes")");
  truth.check("sets in graphs", "transfers.sets", kLaunches, in_graph + R"(,"field":"count")");
  truth.check("sets joined", "transfers.sets", kSets,
              R"(,"where":{"in_graph":false},"field":"joined_count")");
  truth.check("small copies joined", "transfers.by_kind", kSmallCopies,
              R"(,"where":{"direction":"device_to_device"},"field":"joined_count")");
  truth.check("copies of all streams", "transfers.streams", copies, R"(,"field":"count")");
  truth.check("nothing unjoined", "transfers", 0, R"(,"field":"unjoined")");
  truth.check("joined exactly", "processes", copies + kSets + kLaunches,
              R"(,"field":"cupti.join.joined_exact")");
  truth.check("inferred", "processes", 0, R"(,"field":"cupti.join.joined_inferred")");
  truth.check("clock error", "processes", 20'000,
              R"(,"field":"cupti.clock_error_ns","relation":"at_most")");
}

}  // namespace

int main() {
  check(cudaSetDevice(0), "cudaSetDevice");
  Program program;
  Timed timed[4] = {{"host_to_device", "pinned", "device"},
                    {"device_to_host", "device", "pinned"},
                    {"host_to_device", "pageable", "device"},
                    {"device_to_host", "device", "pageable"}};
  program.time_all(timed);
  program.small_copies();
  program.launch_graphs();
  std::printf("%d timed copies of each kind, %llu copies in all\n", kTimedCopies,
              static_cast<unsigned long long>(program.copies()));
  Truth truth("cupti_copies");
  for (const Timed& kind : timed) state_timed(truth, kind);
  state_rest(truth, program.copies());
  truth.write();
  return 0;
}
