// SPDX-License-Identifier: Apache-2.0
// A small job that behaves like training: weights that stay, activations that come and go, batches
// copied up from pageable memory and a loss copied down in every step. It has three faults to find:
// a buffer of metrics leaks now and then, long-lived scraps between short-lived blocks fragment a
// memory segment, and the loss is read back in many tiny copies.
// Usage: training_like [STEPS [STEPS_PER_LEAK]]
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "tests/programs/support/program.hpp"
#include "tests/programs/support/truth.hpp"

namespace gpumemtrace::programs {
namespace {

constexpr std::size_t kMegabyte = std::size_t{1} << 20;
constexpr int kLayers = 8;
constexpr std::size_t kWeightBytes = 6 * kMegabyte;
constexpr std::size_t kBatchBytes = 3 * kMegabyte;
constexpr std::size_t kMetricsBytes = 768 * 1024;
constexpr std::size_t kScrapBytes = 192 * 1024;
constexpr int kLossReads = 32;

struct Block {
  abi::CUdeviceptr address = 0;
  std::size_t bytes = 0;
};

// Adds an allocation to the truth. Each part of the job allocates by itself, because a report names
// the innermost function of the program, which would always be a common helper's.
void count_allocation(const Block& block) { truth().allocated("driver", "device", block.bytes); }

void release(const Block& block) {
  GPUMEMTRACE_CALL(cuMemFree_v2, block.address);
  truth().freed("driver", "device", block.bytes);
}

void clear(const Block& block) {
  GPUMEMTRACE_CALL(cuMemsetD8_v2, block.address, 0, block.bytes);
  truth().set(block.bytes);
}

// Weights, gradients and two optimizer moments for each layer.
class Model {
 public:
  Model() {
    for (int layer = 0; layer < kLayers; ++layer) {
      for (int tensor = 0; tensor < 4; ++tensor) add_tensor();
    }
    for (const Block& tensor : tensors_) clear(tensor);
  }
  ~Model() {
    for (const Block& tensor : tensors_) release(tensor);
  }
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

 private:
  void add_tensor() {
    Block tensor{0, kWeightBytes};
    GPUMEMTRACE_CALL(cuMemAlloc_v2, &tensor.address, tensor.bytes);
    count_allocation(tensor);
    tensors_.push_back(tensor);
  }

  std::vector<Block> tensors_;
};

Block load_batch(const std::vector<unsigned char>& samples) {
  Block batch{0, kBatchBytes};
  GPUMEMTRACE_CALL(cuMemAlloc_v2, &batch.address, batch.bytes);
  count_allocation(batch);
  GPUMEMTRACE_CALL(cuMemcpyHtoD_v2, batch.address, samples.data(), kBatchBytes);
  truth().copied("host_to_device", kBatchBytes);
  return batch;
}

// Allocates activations: later layers have smaller ones; every fifth step has longer sequences.
std::vector<Block> run_forward(int step) {
  const std::size_t factor = step % 5 == 4 ? 2 : 1;
  std::vector<Block> activations;
  for (int layer = 0; layer < kLayers; ++layer) {
    Block activation{0, factor * static_cast<std::size_t>(kLayers - layer) * kMegabyte};
    GPUMEMTRACE_CALL(cuMemAlloc_v2, &activation.address, activation.bytes);
    count_allocation(activation);
    activations.push_back(activation);
  }
  return activations;
}

void run_backward(std::vector<Block>* activations) {
  while (!activations->empty()) {
    release(activations->back());
    activations->pop_back();
  }
}

void read_loss(const Block& batch) {
  float loss = 0;
  for (int read = 0; read < kLossReads; ++read) {
    GPUMEMTRACE_CALL(cuMemcpyDtoH_v2, &loss, batch.address, sizeof loss);
    truth().copied("device_to_host", sizeof loss);
  }
}

// The leak: the address of the buffer is lost.
void log_metrics() {
  Block metrics{0, kMetricsBytes};
  GPUMEMTRACE_CALL(cuMemAlloc_v2, &metrics.address, metrics.bytes);
  count_allocation(metrics);
  clear(metrics);
}

// Leaves long-lived scraps between freed blocks: much free space in sum, but in small pieces.
std::vector<Block> fragment() {
  std::vector<Block> all;
  for (int index = 0; index < 64; ++index) {
    Block scrap{0, kScrapBytes};
    GPUMEMTRACE_CALL(cuMemAlloc_v2, &scrap.address, scrap.bytes);
    count_allocation(scrap);
    all.push_back(scrap);
  }
  std::vector<Block> kept;
  for (std::size_t index = 0; index < all.size(); ++index) {
    if (index % 8 == 0) {
      kept.push_back(all[index]);
    } else {
      release(all[index]);
    }
  }
  return kept;
}

void run_steps(int steps, int steps_per_leak) {
  const std::vector<unsigned char> samples(kBatchBytes, 1);
  for (int step = 0; step < steps; ++step) {
    const Block batch = load_batch(samples);
    std::vector<Block> activations = run_forward(step);
    run_backward(&activations);
    read_loss(batch);
    if (step % steps_per_leak == steps_per_leak - 1) log_metrics();
    release(batch);
    if (step % 10 == 9) std::fprintf(stderr, "step %d of %d\n", step + 1, steps);
  }
}

void train(int steps, int steps_per_leak) {
  const Model model;
  const std::vector<Block> scraps = fragment();
  run_steps(steps, steps_per_leak);
  for (const Block& scrap : scraps) release(scrap);
}

int run(int count, char** arguments) {
  const int steps = count > 1 ? std::atoi(arguments[1]) : 100;
  const int steps_per_leak = count > 2 ? std::atoi(arguments[2]) : 10;
  require(steps > 0 && steps_per_leak > 0, "the numbers of steps are positive numbers");
  start_on_device();
  train(steps, steps_per_leak);
  GPUMEMTRACE_CALL(cuCtxSynchronize);
  return finish("training_like");
}

}  // namespace
}  // namespace gpumemtrace::programs

int main(int count, char** arguments) { return gpumemtrace::programs::run(count, arguments); }
