// SPDX-License-Identifier: Apache-2.0
#include "tests/simulated_cuda/activity.hpp"

#include <atomic>

#include "tests/simulated_cuda/state.hpp"

namespace gpumemtrace::cuda_abi::simulated {
namespace {

std::atomic<const ActivityListener*> current{nullptr};
thread_local int depth = 0;

}  // namespace

bool somebody_listens() { return current.load() != nullptr; }

void announce_call_begin(const char* symbol) {
  const ActivityListener* listener = current.load();
  if (depth++ == 0 && listener != nullptr) listener->call_begins(symbol);
}

void announce_call_end(const char* symbol, CUresult result) {
  const ActivityListener* listener = current.load();
  if (--depth == 0 && listener != nullptr) listener->call_ended(symbol, result);
}

void announce_copy(std::uint64_t bytes, std::uint64_t source, std::uint64_t destination) {
  const ActivityListener* listener = current.load();
  if (listener == nullptr) return;
  const auto is_device = [](std::uint64_t address) { return state().backing.contains(address); };
  listener->copied(bytes, is_device(source), is_device(destination));
}

void announce_set(std::uint64_t bytes, std::uint32_t value) {
  const ActivityListener* listener = current.load();
  if (listener != nullptr) listener->set(bytes, value);
}

}  // namespace gpumemtrace::cuda_abi::simulated

namespace simulated = gpumemtrace::cuda_abi::simulated;

extern "C" __attribute__((visibility("default"))) int cuSimulatedListen(
    const simulated::ActivityListener* listener) {
  if (listener == nullptr) {
    simulated::current.store(nullptr);
    return 0;
  }
  const simulated::ActivityListener* none = nullptr;
  return simulated::current.compare_exchange_strong(none, listener) || none == listener ? 0 : 1;
}

extern "C" __attribute__((visibility("default"))) void cuSimulatedRuntimeBegins(
    const char* symbol) {
  simulated::announce_call_begin(symbol);
}

extern "C" __attribute__((visibility("default"))) void cuSimulatedRuntimeEnded(const char* symbol) {
  simulated::announce_call_end(symbol, gpumemtrace::cuda_abi::CUDA_SUCCESS);
}
