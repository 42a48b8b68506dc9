// SPDX-License-Identifier: Apache-2.0
// Traces of the ranks of one training with data, tensor, pipeline and expert parallelism, which are
// numbered as in Megatron-LM. The same seed makes the same traces, and no two ranks have equal
// ones.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tests/support/training_trace.hpp"

namespace gpumemtrace::tests {

// A fault of one rank.
enum class RankFault : std::uint8_t {
  kNone,
  kFeatures,   // the rank keeps the features of every step in its last block
  kLogits,     // the rank holds the logits of all tensor ranks
  kExperts,    // one of the rank's experts gets all the tokens
  kEndsEarly,  // the rank is killed after half of the steps
};

struct RankJob {
  std::uint64_t ranks = 16;
  std::uint64_t tensor = 2;
  std::uint64_t pipeline = 4;
  std::uint64_t experts = 1;  // neighbouring ranks of a data group that share the experts
  std::uint64_t blocks = 2;   // transformer blocks in each stage
  std::uint64_t steps = 8;
  std::uint64_t seed = 1;
  std::uint64_t card_bytes = std::uint64_t{80} << 30;
  bool says_sizes = false;  // the command line gives the sizes of the parallel groups
  bool names_layers = false;
  RankFault fault = RankFault::kNone;
  std::uint64_t faulty_rank = 0;
};

class RankTrace {
  static constexpr std::uint64_t kMebibyte = 1 << 20;
  static constexpr std::uint64_t kFirstProcess = 1000;
  static constexpr std::uint64_t kStepNs = 200'000'000;
  static constexpr std::string_view kModules = "/lib/torch/nn/modules/module.py";

 public:
  RankTrace(const RankJob& job, std::uint64_t rank)
      : job_(job),
        rank_(rank),
        stage_(rank / (job.ranks / job.pipeline)),
        state_(job.seed * 1'000'003 + rank),
        trace_(kFirstProcess + 2 * rank, job.card_bytes / 2) {}

  // Writes the trace and returns its path.
  std::filesystem::path write(const std::filesystem::path& folder) {
    describe();
    make_parameters();
    const bool ends_early = has(RankFault::kEndsEarly);
    const std::uint64_t steps = ends_early ? job_.steps / 2 : job_.steps;
    for (std::uint64_t step = 0; step < steps; ++step) train(step);
    if (ends_early) {
      return trace_.builder().write(folder, Ending::kKilled);
    }
    return trace_.builder().write(folder);
  }

 private:
  struct Kept {
    std::uint64_t address = 0;
    std::uint64_t bytes = 0;
  };

  [[nodiscard]] bool has(RankFault fault) const {
    return job_.fault == fault && job_.faulty_rank == rank_;
  }
  [[nodiscard]] std::uint64_t data_rank() const {
    return rank_ / job_.tensor % (job_.ranks / job_.tensor / job_.pipeline);
  }
  // splitmix64 (Steele, Lea, Flood 2014): the same numbers with every standard library.
  std::uint64_t random(std::uint64_t limit) {
    state_ += 0x9e3779b97f4a7c15;
    std::uint64_t value = state_;
    value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9;
    value = (value ^ (value >> 27)) * 0x94d049bb133111eb;
    return (value ^ (value >> 31)) % limit;
  }
  // Returns `mebibytes` in bytes and up to a fiftieth more.
  std::uint64_t about(std::uint64_t mebibytes) {
    return mebibytes * kMebibyte + random(mebibytes * kMebibyte / 50 / 512 + 1) * 512;
  }

  void describe() {
    TraceBuilder& builder = trace_.builder();
    builder.text(trace::TextKey::kRank, std::to_string(rank_));
    builder.text(trace::TextKey::kLocalRank, std::to_string(rank_ % 8));
    builder.text(trace::TextKey::kWorldSize, std::to_string(job_.ranks));
    builder.text(trace::TextKey::kHost, "node-" + std::to_string(rank_ / 8));
    builder.text(trace::TextKey::kBootId, "boot-" + std::to_string(rank_ / 8));
    builder.device(0, 0x10000 + rank_, job_.card_bytes);
    std::string command{"python3\0train.py", 16};
    const auto add = [&](std::string_view option, std::uint64_t size) {
      command += '\0' + std::string(option) + '\0' + std::to_string(size);
    };
    if (job_.says_sizes) {
      add("--tensor-model-parallel-size", job_.tensor);
      add("--pipeline-model-parallel-size", job_.pipeline);
      if (job_.experts > 1) add("--expert-model-parallel-size", job_.experts);
    }
    builder.text(trace::TextKey::kCommandLine, command);
  }

  std::uint32_t layer_stack(std::string_view function, std::uint32_t instruction) {
    return trace_.stack({{function, "model.py", instruction},
                         {"Module._call_impl", kModules, 2},
                         {"Model.forward", "model.py", 1},
                         {"Module._call_impl", kModules, 2},
                         {"main", "train.py", 3}});
  }

  void add_parameter(std::uint64_t mebibytes, const std::string& layer) {
    const std::uint64_t bytes = mebibytes * kMebibyte;
    const std::uint64_t address = trace_.take(bytes, trace_.move);
    trace_.upload(address, bytes, trace_.move);
    parameters_.push_back({address, bytes});
    if (!job_.names_layers) return;
    trace_.name(address, bytes, trace::TensorRole::kParameter, layer + ".weight", {}, layer);
  }

  // Makes the stage's parameters: the first stage has the embedding, the last one the head.
  void make_parameters() {
    if (stage_ == 0) add_parameter(400, "embedding");
    for (std::uint64_t i = 0; i < job_.blocks; ++i) {
      add_parameter(128, "blocks." + std::to_string(stage_ * job_.blocks + i));
    }
    if (stage_ + 1 == job_.pipeline) add_parameter(500, "head");
  }

  Kept hold(std::uint64_t bytes, std::uint32_t stack) { return {trace_.take(bytes, stack), bytes}; }
  void give_back(const std::vector<Kept>& list, std::uint32_t writer = TrainingTrace::kEngine) {
    for (const Kept& one : list) trace_.give_back(one.address, one.bytes, 0, writer);
  }

  // The MiB of tokens that the rank's expert gets: experts get different numbers of tokens, but the
  // replicas of an expert get equal ones.
  std::uint64_t expert_mebibytes() {
    constexpr std::uint64_t kLoads[] = {96, 240, 160, 480};
    if (has(RankFault::kExperts)) return 1400;
    return kLoads[data_rank() % job_.experts % std::size(kLoads)];
  }

  std::vector<Kept> forward(std::uint64_t microbatches) {
    std::vector<Kept> activations;
    for (std::uint64_t i = 0; i < microbatches; ++i) {
      for (std::uint64_t block = 0; block < job_.blocks; ++block) {
        activations.push_back(hold(about(48), block_));
        if (job_.experts > 1) activations.push_back(hold(about(expert_mebibytes() / 4), experts_));
      }
    }
    if (has(RankFault::kFeatures)) features_.push_back(hold(about(100), features_stack_));
    if (stage_ + 1 == job_.pipeline) {
      activations.push_back(hold(about(has(RankFault::kLogits) ? 1200 : 300), head_));
    } else if (has(RankFault::kLogits)) {
      activations.push_back(hold(about(900), head_));
    }
    return activations;
  }

  // Runs one step. A stage holds the activations of one microbatch for itself and for each later
  // stage.
  void train(std::uint64_t step) {
    TraceBuilder& builder = trace_.builder();
    builder.wait_until(TraceBuilder::kFirstTick + (step + 1) * kStepNs + random(1'000'000));
    const Kept input = hold(about(8), trace_.load);
    trace_.upload(input.address, input.bytes, trace_.load);
    const std::vector<Kept> activations = forward(job_.pipeline - stage_);
    const Kept loss = hold(512, trace_.loss);
    give_back(gradients_, TrainingTrace::kMain);
    gradients_.clear();
    for (const Kept& parameter : parameters_) {
      gradients_.push_back(
          {trace_.take(parameter.bytes, 0, TrainingTrace::kEngine), parameter.bytes});
    }
    give_back(activations);
    if (step == 0) {
      for (const Kept& parameter : parameters_) trace_.take(2 * parameter.bytes, trace_.optimize);
    }
    const Kept update = hold(kMebibyte, trace_.optimize);
    give_back({update, loss, input}, TrainingTrace::kMain);
  }

  RankJob job_;
  std::uint64_t rank_;
  std::uint64_t stage_;
  std::uint64_t state_;
  TrainingTrace trace_;
  const std::uint32_t block_ = layer_stack("Block.forward", 10);
  const std::uint32_t experts_ = layer_stack("Experts.forward", 20);
  const std::uint32_t head_ = layer_stack("Head.forward", 30);
  const std::uint32_t features_stack_ = layer_stack("Block.keep", 40);
  std::vector<Kept> parameters_;
  std::vector<Kept> gradients_;
  std::vector<Kept> features_;
};

// Writes a trace for each rank.
inline void write_rank_job(const RankJob& job, const std::filesystem::path& folder) {
  for (std::uint64_t rank = 0; rank < job.ranks; ++rank) RankTrace(job, rank).write(folder);
}

}  // namespace gpumemtrace::tests
