// SPDX-License-Identifier: Apache-2.0
#include "tests/simulated_cupti/records.hpp"

#include <pthread.h>
#include <unistd.h>

#include <cstring>
#include <string>
#include <string_view>

#include "cupti/abi.hpp"
#include "tests/simulated_cupti/state.hpp"

namespace gpumemtrace::simulated_cupti {
namespace {

namespace layouts = cupti::layouts;

struct Function {
  ActivityDomain domain;
  CallbackId id;
  const char* name;
};
constexpr Function kFunctions[] = {
#define GPUMEMTRACE_CUPTI_FUNCTION(domain, id, name) {ActivityDomain::domain, id, #name},
#include "cupti/copy_functions.inc"
#undef GPUMEMTRACE_CUPTI_FUNCTION
    {ActivityDomain::kDriver, 17, "cuCtxSynchronize"},
    {ActivityDomain::kDriver, 243, "cuMemAlloc_v2"},
    {ActivityDomain::kDriver, 245, "cuMemFree_v2"},
    {ActivityDomain::kRuntime, 20, "cudaMalloc_v3020"},
    {ActivityDomain::kRuntime, 22, "cudaFree_v3020"},
};

const Function* find(std::string_view name) {
  for (const Function& function : kFunctions) {
    if (name == function.name) return &function;
  }
  return nullptr;
}

// The API call that the thread is making.
struct Call {
  std::uint32_t correlation = 0;
  std::uint64_t start = 0;
};
thread_local Call call;

class Record {
 public:
  Record(std::size_t bytes, Kind kind) : bytes_(bytes, 0) {
    put(0, static_cast<std::uint32_t>(kind));
  }
  template <class Value>
  Record& put(std::size_t offset, Value value) {
    std::memcpy(bytes_.data() + offset, &value, sizeof value);
    return *this;
  }
  const std::vector<std::uint8_t>& bytes() const { return bytes_; }

 private:
  std::vector<std::uint8_t> bytes_;
};

// Record sizes changed with CUPTI 12.8 (version 26); the simulated versions begin with 11.8 (18).
bool is_new() { return state().settings.version >= 26; }

constexpr std::uint32_t kContext = 1;
constexpr std::uint32_t kStream = 7;

bool records(Kind kind) { return state().kinds.count(static_cast<std::uint32_t>(kind)) != 0; }

void call_begins(const char*) {
  call.correlation = state().correlations.fetch_add(1) + 1;
  call.start = timestamp();
}

void call_ended(const char* symbol, cuda_abi::CUresult result) {
  State& cupti = state();
  const std::uint64_t end = timestamp();
  std::unique_lock lock(cupti.mutex);
  const std::string_view name(symbol);
  if (name.find("CtxCreate") != name.npos || name == "cuDevicePrimaryCtxRetain") {
    cupti.context_exists = true;
  }
  const Function* const function = find(name);
  if (function == nullptr) return;
  const bool is_driver = function->domain == ActivityDomain::kDriver;
  if (!(is_driver ? cupti.driver : cupti.runtime).contains(function->id)) return;
  Record record(layouts::Call::kBytes, is_driver ? Kind::kDriver : Kind::kRuntime);
  record.put(layouts::Call::kFunction, function->id)
      .put(layouts::Call::kStart, call.start)
      .put(layouts::Call::kEnd, end)
      .put(layouts::Call::kEnd + 8, static_cast<std::uint32_t>(getpid()))
      .put(layouts::Call::kThread, static_cast<std::uint32_t>(pthread_self()))
      .put(layouts::Call::kCorrelation, call.correlation)
      .put(layouts::Call::kReturned, static_cast<std::uint32_t>(result));
  append(lock, cupti.call_buffers[std::this_thread::get_id()], record.bytes());
}

template <class Layout>
void put_place(Record& record) {
  const std::uint64_t start = timestamp() + state().settings.late_ns;
  record.put(Layout::kStart, start)
      .put(Layout::kEnd, start + 1000)
      .put(Layout::kDevice, std::uint32_t{0})
      .put(Layout::kContext, kContext)
      .put(Layout::kStream, kStream)
      .put(Layout::kCorrelation, call.correlation);
}

void copied(std::uint64_t bytes, bool from_device, bool to_device) {
  State& cupti = state();
  if (!from_device && !to_device) return;
  std::unique_lock lock(cupti.mutex);
  if (!records(Kind::kMemcpy)) return;
  constexpr std::uint8_t kHost = 1;  // CUPTI_ACTIVITY_MEMORY_KIND_PAGEABLE
  constexpr std::uint8_t kDevice = 3;
  Record record(is_new() ? 96 : 88, Kind::kMemcpy);
  put_place<layouts::Memcpy>(record);
  const std::uint8_t kind = from_device ? (to_device ? 8 : 2) : 1;  // CUpti_ActivityMemcpyKind
  record.put(layouts::Memcpy::kCopyKind, kind)
      .put(layouts::Memcpy::kSourceKind, from_device ? kDevice : kHost)
      .put(layouts::Memcpy::kDestinationKind, to_device ? kDevice : kHost)
      .put(layouts::Memcpy::kBytesCopied, bytes);
  if (is_new()) record.put(layouts::Memcpy::kCopyCount, std::uint64_t{1});
  append(lock, cupti.device_buffer, record.bytes());
}

void set(std::uint64_t bytes, std::uint32_t value) {
  State& cupti = state();
  std::unique_lock lock(cupti.mutex);
  if (!records(Kind::kMemset)) return;
  Record record(88, Kind::kMemset);
  put_place<layouts::Memset>(record);
  record.put(layouts::Memset::kBytesSet, bytes)
      .put(layouts::Memset::kValue, value)
      .put(layouts::Memset::kMemoryKind, std::uint16_t{3});
  append(lock, cupti.device_buffer, record.bytes());
}

}  // namespace

const cuda_abi::simulated::ActivityListener& listener() {
  static const cuda_abi::simulated::ActivityListener made = {call_begins, call_ended, copied, set};
  return made;
}

}  // namespace gpumemtrace::simulated_cupti
