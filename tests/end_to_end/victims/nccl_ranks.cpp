// SPDX-License-Identifier: Apache-2.0
// The process of one rank: makes two communicators and splits the first, uses the second before the
// first, and destroys them. Its argument is the path of the simulated NCCL.
#include <initializer_list>

#include "tests/end_to_end/victims/driver_calls.hpp"
#include "tests/end_to_end/victims/nccl.hpp"

namespace {

template <class Function>
Function* nccl(const char* path, const char* symbol) {
  static void* const library = dlopen(path, RTLD_NOW);
  gpumemtrace::victims::require(library != nullptr, "there is no NCCL");
  void* const found = dlsym(library, symbol);
  gpumemtrace::victims::require(found != nullptr, symbol);
  return reinterpret_cast<Function*>(found);
}

}  // namespace

int main(int argc, char** argv) {
  using namespace gpumemtrace::victims;
  require(argc == 2, "usage: nccl_ranks LIBRARY");
  start_driver();
  auto* const init = nccl<ncclCommInitRankConfig_t>(argv[1], "ncclCommInitRankConfig");
  auto* const split = nccl<ncclCommSplit_t>(argv[1], "ncclCommSplit");
  auto* const reduce = nccl<ncclAllReduce_t>(argv[1], "ncclAllReduce");
  auto* const destroy = nccl<ncclCommDestroy_t>(argv[1], "ncclCommDestroy");
  SimulatedCommunicator* const world = init(8, 3);
  SimulatedCommunicator* const pair = init(2, 1);
  SimulatedCommunicator* const half = split(world, 4, 1);
  reduce(pair);
  reduce(world);
  free_memory(allocate(1 << 20));  // memory that is not NCCL's
  for (SimulatedCommunicator* const communicator : {half, pair, world}) destroy(communicator);
  return 0;
}
