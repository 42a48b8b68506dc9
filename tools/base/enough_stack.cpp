// SPDX-License-Identifier: Apache-2.0
#include "tools/base/enough_stack.hpp"

#include <pthread.h>
#include <sys/resource.h>

#include <csignal>
#include <cstddef>

namespace gpumemtrace::tools {
namespace {

constexpr std::size_t kEnoughBytes = std::size_t{2} << 20;
constexpr std::size_t kUsualBytes = std::size_t{8} << 20;

bool limit_is_small() {
  struct rlimit limit = {};
  return getrlimit(RLIMIT_STACK, &limit) == 0 && limit.rlim_cur < kEnoughBytes;
}

// The stack of threads whose attributes name no other.
bool set_usual_stack(std::size_t bytes) {
  pthread_attr_t attributes;
  if (pthread_attr_init(&attributes) != 0) return false;
  const bool is_set = pthread_attr_setstacksize(&attributes, bytes) == 0 &&
                      pthread_setattr_default_np(&attributes) == 0;
  pthread_attr_destroy(&attributes);
  return is_set;
}

struct Call {
  const std::function<int()>& work;
  int result = 0;
};

void* run_call(void* argument) {
  auto* const call = static_cast<Call*>(argument);
  call->result = call->work();
  return nullptr;
}

}  // namespace

int with_enough_stack(const std::function<int()>& work) {
  Call call{work};
  pthread_t thread = {};
  if (!limit_is_small() || !set_usual_stack(kUsualBytes) ||
      pthread_create(&thread, nullptr, run_call, &call) != 0) {
    return work();
  }
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);
  pthread_join(thread, nullptr);
  return call.result;
}

}  // namespace gpumemtrace::tools
