// SPDX-License-Identifier: Apache-2.0
#include "tests/simulated_cuda/card.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>

namespace gpumemtrace::cuda_abi::simulated {
namespace {

// In a new file all entries are zero: they belong to no process.
void* map_file(const char* path) {
  const int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (file == -1) return MAP_FAILED;
  void* memory = MAP_FAILED;
  if (ftruncate(file, sizeof(Card)) == 0) {
    memory = mmap(nullptr, sizeof(Card), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  }
  close(file);
  return memory;
}

bool is_gone(std::int32_t process) { return kill(process, 0) != 0 && errno == ESRCH; }

}  // namespace

Card* open_card(const char* path) {
  void* memory = MAP_FAILED;
  if (path != nullptr && *path != '\0') {
    memory = map_file(path);
    if (memory == MAP_FAILED) {
      std::fprintf(stderr, "simulated CUDA driver: the card %s cannot be opened\n", path);
    }
  }
  if (memory == MAP_FAILED) {
    memory =
        mmap(nullptr, sizeof(Card), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  }
  if (memory == MAP_FAILED) std::abort();
  return static_cast<Card*>(memory);
}

Card::Process* enter_card(Card* card) {
  const std::int32_t self = getpid();
  for (Card::Process& process : card->processes) {
    std::int32_t holder = process.id.load();
    if (holder != 0 && holder != self && !is_gone(holder)) continue;
    if (!process.id.compare_exchange_strong(holder, self)) continue;
    for (Card::Use& use : process.devices) {
      use.bytes = 0;
      use.contexts = 0;
    }
    return &process;
  }
  return nullptr;
}

std::uint64_t bytes_of_others(const Card& card, int device) {
  std::uint64_t bytes = 0;
  for (const Card::Process& process : card.processes) {
    const std::int32_t id = process.id.load();
    if (id != 0 && id != getpid() && !is_gone(id)) bytes += process.devices[device].bytes.load();
  }
  return bytes;
}

}  // namespace gpumemtrace::cuda_abi::simulated
