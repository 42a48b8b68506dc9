// SPDX-License-Identifier: Apache-2.0
// Writes the traces of a job of many ranks, no two of them equal:
//
//     bench_ranks FOLDER [NAME=NUMBER...]
//
// NAME is ranks, tensor, pipeline, experts, blocks, steps, seed, says_sizes or names_layers, or the
// fault of one rank: features, logits, expert_load or ends_early, with the rank as NUMBER.
#include <charconv>
#include <cstdio>
#include <cstring>
#include <exception>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <string_view>

#include "tests/support/rank_job.hpp"

namespace {

using gpumemtrace::tests::RankFault;
using gpumemtrace::tests::RankJob;

std::uint64_t number_of(std::string_view text) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) {
    throw std::runtime_error(std::string(text) + " is no number");
  }
  return number;
}

void set(RankJob& job, std::string_view name, std::uint64_t value) {
  const auto plant = [&](RankFault fault) {
    job.fault = fault;
    job.faulty_rank = value;
  };
  if (name == "ranks") return void(job.ranks = value);
  if (name == "tensor") return void(job.tensor = value);
  if (name == "pipeline") return void(job.pipeline = value);
  if (name == "experts") return void(job.experts = value);
  if (name == "blocks") return void(job.blocks = value);
  if (name == "steps") return void(job.steps = value);
  if (name == "seed") return void(job.seed = value);
  if (name == "says_sizes") return void(job.says_sizes = value != 0);
  if (name == "names_layers") return void(job.names_layers = value != 0);
  if (name == "features") return plant(RankFault::kFeatures);
  if (name == "logits") return plant(RankFault::kLogits);
  if (name == "expert_load") return plant(RankFault::kExperts);
  if (name == "ends_early") return plant(RankFault::kEndsEarly);
  throw std::runtime_error("there is no " + std::string(name));
}

}  // namespace

int main(int count, char** words) try {
  if (count < 2) throw std::runtime_error("usage: bench_ranks FOLDER [NAME=NUMBER...]");
  RankJob job;
  for (int i = 2; i < count; ++i) {
    const std::string_view word = words[i];
    const std::size_t sign = std::min(word.find('='), word.size());
    set(job, word.substr(0, sign), number_of(word.substr(std::min(sign + 1, word.size()))));
  }
  std::filesystem::create_directories(words[1]);
  gpumemtrace::tests::write_rank_job(job, words[1]);
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "bench_ranks: %s\n", error.what());
  return 1;
}
