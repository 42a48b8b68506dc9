// SPDX-License-Identifier: Apache-2.0
#include "tests/simulated_cuda/call.hpp"

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

#include "tests/simulated_cuda/capture.hpp"
#include "tests/simulated_cuda/state.hpp"

namespace gpumemtrace::cuda_abi::simulated {
namespace {

struct DeferredHostFunction {
  CUhostFn function = nullptr;
  void* argument = nullptr;
};
// A plain pointer whose vector is never freed: the main thread's thread-local objects are gone when
// destructors of static objects still call the driver.
thread_local std::vector<DeferredHostFunction>* deferred = nullptr;

// After a fork the driver does not work in the child, as with the real driver.
std::atomic<bool> is_forked_child{false};

void mark_forked_child() { is_forked_child = state().initialized; }

int call_log_file() {
  static const int file = [] {
    const std::string& path = state().settings.call_log_path;
    if (path.empty()) return -1;
    const int opened = open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
    if (opened == -1) {
      std::fprintf(stderr, "simulated CUDA driver: the call log %s cannot be opened: %s\n",
                   path.c_str(), std::strerror(errno));
    }
    return opened;
  }();
  return file;
}

}  // namespace

CUresult begin_call(EntryPoint& entry) {
  // Relaxed: only the counter's value matters, no other memory is published with it.
  const std::uint64_t number = entry.calls.fetch_add(1, std::memory_order_relaxed) + 1;
  for (const InjectedFailure& failure : state().settings.failures) {
    if (failure.call != number || failure.symbol != entry.symbol) continue;
    if (failure.sticky) {
      const DriverLock lock;
      state().sticky_error = failure.result;
    }
    return failure.result;
  }
  return CUDA_SUCCESS;
}

CUresult check_needs(const EntryPoint& entry) {
  if (entry.needs == Needs::kNothing) return CUDA_SUCCESS;
  if (!state().initialized || is_forked_child) return CUDA_ERROR_NOT_INITIALIZED;
  if (entry.needs == Needs::kDriver) return CUDA_SUCCESS;
  CUcontext context = current_context();
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (!context->alive) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  if (state().sticky_error != CUDA_SUCCESS) return state().sticky_error;
  return entry.needs == Needs::kSynchronising ? forbid_during_capture() : CUDA_SUCCESS;
}

void defer_host_function(CUhostFn function, void* argument) {
  if (deferred == nullptr) deferred = new std::vector<DeferredHostFunction>;
  deferred->push_back({function, argument});
}

void run_deferred_host_functions() {
  if (deferred == nullptr || deferred->empty()) return;
  const std::vector<DeferredHostFunction> wanted = std::exchange(*deferred, {});
  for (const DeferredHostFunction& item : wanted) item.function(item.argument);
}

namespace {

// The driver's lock lies in memory that the kernel wipes in every child (MADV_WIPEONFORK): a child
// made by raw clone, which runs no handlers of pthread_atfork, finds the lock free.
std::mutex& driver_mutex() {
  static std::mutex* const mutex = [] {
    constexpr std::size_t kPageBytes = 65536;  // a whole number of pages of any size
    void* const page =
        mmap(nullptr, kPageBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED || madvise(page, kPageBytes, MADV_WIPEONFORK) != 0) std::abort();
    return new (page) std::mutex;
  }();
  return *mutex;
}

}  // namespace

DriverLock::DriverLock() {
  static const int registered = pthread_atfork(nullptr, nullptr, &mark_forked_child);
  static_cast<void>(registered);
  // A forked child does not lock: another thread may have held the lock at the fork, and every call
  // of the child only fails anyway.
  if (!is_forked_child) driver_mutex().lock();
}

DriverLock::~DriverLock() {
  if (!is_forked_child) driver_mutex().unlock();
}

bool call_log_wanted() { return call_log_file() != -1; }

void append_argument(std::string* line, std::uint64_t value) {
  // Values from this one on are addresses, printed as hexadecimal; counts and sizes are smaller.
  constexpr std::uint64_t kFirstAddress = std::uint64_t{1} << 40;
  char text[32];
  std::snprintf(text, sizeof text, value >= kFirstAddress ? "0x%" PRIx64 : "%" PRIu64, value);
  append_argument(line, text);
}

void append_argument(std::string* line, const char* text) {
  line->append(text);
  line->push_back(' ');
}

void write_call_log(const EntryPoint& entry, const std::string& arguments, CUresult result) {
  char line[512];
  const int length = std::snprintf(line, sizeof line, "%d %ld %s %s= %d\n", getpid(),
                                   syscall(SYS_gettid), entry.symbol, arguments.c_str(), result);
  const auto bytes = std::min(static_cast<std::size_t>(length), sizeof line - 1);
  // Each line of the call log is one write(), so that lines of several threads and processes do not
  // mix.
  if (write(call_log_file(), line, bytes) == -1) return;
}

}  // namespace gpumemtrace::cuda_abi::simulated
