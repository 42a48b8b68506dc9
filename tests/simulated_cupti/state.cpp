// SPDX-License-Identifier: Apache-2.0
#include "tests/simulated_cupti/state.hpp"

#include <dlfcn.h>
#include <pthread.h>

#include <cstdlib>
#include <cstring>
#include <ctime>
#include <utility>

#include "tests/simulated_cupti/records.hpp"

namespace gpumemtrace::simulated_cupti {
namespace {

std::uint64_t number(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

Settings read_settings() {
  Settings settings;
  settings.version =
      static_cast<std::uint32_t>(number("GPUMEMTRACE_SIMULATED_CUPTI_VERSION", settings.version));
  settings.held = number("GPUMEMTRACE_SIMULATED_CUPTI_HELD", 0) != 0;
  settings.late_ns = number("GPUMEMTRACE_SIMULATED_CUPTI_LATE_NS", 0);
  settings.most_records = number("GPUMEMTRACE_SIMULATED_CUPTI_MOST_RECORDS", 0);
  settings.calls_last = number("GPUMEMTRACE_SIMULATED_CUPTI_CALLS_LAST", 0) != 0;
  return settings;
}

// Completes buffers one after the other, without holding the lock, as CUPTI's own thread does.
void complete_buffers() {
  State& cupti = state();
  std::unique_lock lock(cupti.mutex);
  for (;;) {
    cupti.work_came.wait(lock, [&] { return !cupti.completed.empty(); });
    const Buffer buffer = cupti.completed.front();
    cupti.completed.pop_front();
    lock.unlock();
    buffer.callbacks.complete(nullptr, 0, buffer.bytes, buffer.size, buffer.used);
    lock.lock();
    ++cupti.completions_done;
    cupti.work_done.notify_all();
  }
}

void complete(Buffer& buffer) {
  State& cupti = state();
  if (buffer.bytes == nullptr) return;
  // The completing thread is never joined: it still waits when the process ends.
  if (!cupti.completer.joinable()) cupti.completer = std::thread(complete_buffers);
  Buffer done = std::exchange(buffer, {});
  // A buffer that an earlier client gave is completed by the present client's callback, if any.
  done.callbacks = cupti.callbacks.complete != nullptr ? cupti.callbacks : done.callbacks;
  cupti.completed.push_back(done);
  ++cupti.completions_wanted;
  cupti.work_came.notify_one();
}

}  // namespace

// Never destroyed: the driver and the completing thread may use the state until the process ends.
State& state() {
  static State* const made = [] {
    auto* fresh = new State;
    fresh->settings = read_settings();
    // A child of fork must not find the mutex held by a thread that the child does not have.
    pthread_atfork([] { state().mutex.lock(); }, [] { state().mutex.unlock(); },
                   [] { state().mutex.unlock(); });
    return fresh;
  }();
  return *made;
}

std::uint64_t timestamp() {
  if (TimestampFunction* clock = state().clock.load()) return clock();
  timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000u +
         static_cast<std::uint64_t>(now.tv_nsec);
}

void append(std::unique_lock<std::mutex>& lock, Buffer& buffer,
            const std::vector<std::uint8_t>& record) {
  State& cupti = state();
  if (!cupti.registered) return;
  const bool is_full = buffer.bytes != nullptr &&
                       (buffer.used + record.size() > buffer.size ||
                        (buffer.most_records != 0 && buffer.records == buffer.most_records));
  if (is_full) complete(buffer);
  if (buffer.bytes == nullptr) {
    Buffer fresh;
    fresh.callbacks = cupti.callbacks;
    lock.unlock();
    fresh.callbacks.request(&fresh.bytes, &fresh.size, &fresh.most_records);
    lock.lock();
    if (fresh.most_records == 0) fresh.most_records = cupti.settings.most_records;
    if (buffer.bytes != nullptr) complete(buffer);  // another thread has got a buffer meanwhile
    buffer = fresh;
  }
  if (buffer.bytes == nullptr || buffer.used + record.size() > buffer.size) {
    ++cupti.dropped;
    return;
  }
  std::memcpy(buffer.bytes + buffer.used, record.data(), record.size());
  buffer.used += record.size();
  ++buffer.records;
}

void complete_all(std::unique_lock<std::mutex>& lock) {
  State& cupti = state();
  if (cupti.settings.calls_last) complete(cupti.device_buffer);
  for (auto& [thread, buffer] : cupti.call_buffers) complete(buffer);
  complete(cupti.device_buffer);
  const std::uint64_t wanted = cupti.completions_wanted;
  cupti.work_done.wait(lock, [&] { return cupti.completions_done >= wanted; });
}

namespace {

int (*driver_listen)(const cuda_abi::simulated::ActivityListener*) = nullptr;

// True if the calling thread has a context, which may be older than the listener.
bool has_context(void* driver) {
  using GetCurrent = cuda_abi::CUresult(cuda_abi::CUcontext*);
  auto* const get_current = reinterpret_cast<GetCurrent*>(dlsym(driver, "cuCtxGetCurrent"));
  cuda_abi::CUcontext current = nullptr;
  return get_current != nullptr && get_current(&current) == cuda_abi::CUDA_SUCCESS &&
         current != nullptr;
}

}  // namespace

bool listen_to_driver() {
  if (driver_listen == nullptr) {
    void* const driver = dlopen("libcuda.so.1", RTLD_NOW);
    if (driver == nullptr) return false;
    driver_listen = reinterpret_cast<decltype(driver_listen)>(dlsym(driver, "cuSimulatedListen"));
    if (has_context(driver)) {
      const std::unique_lock lock(state().mutex);
      state().context_exists = true;
    }
  }
  return driver_listen != nullptr && driver_listen(&listener()) == 0;
}

void stop_listening() {
  if (driver_listen != nullptr) driver_listen(nullptr);
}

}  // namespace gpumemtrace::simulated_cupti
