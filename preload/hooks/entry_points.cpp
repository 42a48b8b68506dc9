// SPDX-License-Identifier: Apache-2.0
// Makes the wrappers of the driver functions in apis.def: for each row the exported symbol, and one
// function with the driver's prototype for each way by which a caller reaches us (driver::Entry).
#include <cstdint>
#include <string_view>

#include "preload/driver/apis.hpp"
#include "preload/driver/cuda_abi.hpp"
#include "preload/driver/driver.hpp"
#include "preload/driver/tracking.hpp"
#include "preload/effects/allocations.hpp"
#include "preload/effects/contexts.hpp"
#include "preload/effects/copies.hpp"
#include "preload/effects/graphs.hpp"
#include "preload/effects/other_calls.hpp"
#include "preload/effects/virtual_memory.hpp"
#include "preload/python/python_interpreter.hpp"
#include "preload/ring/recorder.hpp"
#include "preload/session/content_hash.hpp"
#include "preload/session/context_records.hpp"
#include "preload/session/session.hpp"
#include "preload/stacks/stacks.hpp"

namespace gpumemtrace::preload {
namespace {

// The wrappers of cuGetProcAddress, through which CUDA runtimes get their pointers to the driver's
// functions: a result that is the address of a function that we wrap is replaced by the wrapper.

// Records `caller` as an address in a CUDA runtime's code if it asks for cuGetProcAddress itself or
// for an empty name: a CUDA runtime does so right before it fetches its table of driver functions.
inline void recognize_runtime(const char* name, const void* caller) noexcept {
  if (name == nullptr) return;
  const std::string_view asked_for(name);
  if (asked_for.empty() || asked_for == "cuGetProcAddress") driver::record_runtime_caller(caller);
}

template <class Function, driver::Entry kEntry>
Function* real_or_stand_in(int version) noexcept {
  void* function = driver::real_get_proc_address(version, kEntry);
  if (function == nullptr) {
    function = driver::stand_in(get_proc_address_versions()[version - 1], kEntry);
  }
  return reinterpret_cast<Function*>(function);
}

template <driver::Entry kEntry>
cuda_abi::CUresult get_proc_address_v1(const char* name, void** function, int version,
                                       std::uint64_t flags) {
  auto* const real = real_or_stand_in<cuda_abi::cuGetProcAddress_t, kEntry>(/*version=*/1);
  if (real == nullptr) return cuda_abi::CUDA_ERROR_NOT_INITIALIZED;
  recognize_runtime(name, __builtin_return_address(0));
  const cuda_abi::CUresult result = real(name, function, version, flags);
  if (result == cuda_abi::CUDA_SUCCESS && function != nullptr)
    *function = driver::wrap(*function, name);
  return result;
}

template <driver::Entry kEntry>
cuda_abi::CUresult get_proc_address_v2(const char* name, void** function, int version,
                                       std::uint64_t flags,
                                       cuda_abi::CUdriverProcAddressQueryResult* status) {
  auto* const real = real_or_stand_in<cuda_abi::cuGetProcAddress_v2_t, kEntry>(2);
  if (real == nullptr) return cuda_abi::CUDA_ERROR_NOT_INITIALIZED;
  recognize_runtime(name, __builtin_return_address(0));
  const cuda_abi::CUresult result = real(name, function, version, flags, status);
  if (result == cuda_abi::CUDA_SUCCESS && function != nullptr)
    *function = driver::wrap(*function, name);
  return result;
}

using cuda_abi::CUresult;
using driver::Entry;

// The row of a driver function in apis.def, as types.
template <ApiId kApi>
struct Row;

namespace rows {
using namespace effects;
using trace::ContextOperation;
using trace::EndType;
using trace::GraphOperation;
using trace::ImportOperation;
using trace::MappingOperation;
using trace::MemoryKind;
using trace::PoolOperation;
using trace::RangeOperation;
#define GPUMEMTRACE_API(symbol, runtime, ...) using effect_of_##symbol = __VA_ARGS__;
#include "preload/driver/apis.def"
}  // namespace rows

#define GPUMEMTRACE_API(symbol, runtime, ...)          \
  template <>                                          \
  struct Row<ApiId::symbol> {                          \
    using Signature = cuda_abi::symbol##_t;            \
    using Effect = rows::effect_of_##symbol;           \
    static constexpr std::string_view kName = #symbol; \
  };
#include "preload/driver/apis.def"

template <class Effect>
constexpr bool is_recorded() {
  if constexpr (requires { Effect::kRecorded; }) {
    return Effect::kRecorded;
  } else {
    return true;
  }
}

constexpr std::uint16_t flags_of(std::string_view name, Entry entry) {
  std::uint16_t flags = 0;
  if (entry == Entry::kPointer) flags |= trace::kFlagByPointer;
  if (name.find("Async") != name.npos) flags |= trace::kFlagAsynchronous;
  if (name.ends_with("_ptsz") || name.ends_with("_ptds")) flags |= trace::kFlagPerThreadStream;
  return flags;
}

// A recording begins with the first context, allocation or copy, not with a mere cuInit or a
// module load.
template <class Record>
constexpr bool may_start_recording() {
  return !std::is_same_v<Record, trace::OtherCall>;
}

// Selects how a call's stack is recorded. Stream-ordered allocations get cheaper stacks, as blocks
// of a framework do, because they are as frequent: with PyTorch's cudaMallocAsync backend each
// tensor is one such call.
template <class Record>
constexpr StackUse stack_use_of(std::uint16_t flags) {
  if ((flags & trace::kFlagAsynchronous) != 0) {
    if (std::is_same_v<Record, trace::Allocation>) return StackUse::kBlock;
    if (std::is_same_v<Record, trace::Free>) return StackUse::kRelease;
  }
  return StackUse::kCall;
}

// Asynchronous calls on a capturing stream become graph nodes instead of being carried out.
template <class Record>
void mark_captured(Record& record) noexcept {
  if constexpr (requires { record.stream; }) {
    if (!tracking::captures_open()) return;
    const bool per_thread = (record.call.record.flags & trace::kFlagPerThreadStream) != 0;
    if (driver::stream_is_capturing(record.stream, per_thread)) {
      record.call.record.flags |= trace::kFlagCaptured;
    }
  }
}

// A thread on which no context is current can allocate stream-ordered memory: the allocation's
// context is then that of its stream.
template <class Record>
void set_context_of_stream(Record& record) noexcept {
  if constexpr (std::is_same_v<Record, trace::Allocation>) {
    trace::CallHeader& call = record.call;
    if (call.context != trace::ContextId::kNone || (call.record.flags & trace::kFlagCaptured) != 0)
      return;
    call.context = tracking::context_id(driver::context_of_stream(record.stream));
  }
}

template <class Record>
void mark_collected(Record& record) noexcept {
  if constexpr (std::is_same_v<Record, trace::Free>) {
    if (python::in_garbage_collection()) record.call.record.flags |= trace::kFlagCollected;
  }
}

template <class Record>
void mark_content(Record& record) noexcept {
  if constexpr (std::is_same_v<Record, trace::Copy>) {
    if (hashes_contents()) [[unlikely]]
      record.content = hash_of_source(record);
  }
}

template <ApiId kApi, Entry kEntry, class Signature = typename Row<kApi>::Signature>
struct Wrapper;

template <ApiId kApi, Entry kEntry, class... Arguments>
struct Wrapper<kApi, kEntry, CUresult(Arguments...)> {
  using Effect = typename Row<kApi>::Effect;
  using Record = typename Effect::Record;
  using Function = CUresult(Arguments...);
  static constexpr std::uint16_t kFlags = flags_of(Row<kApi>::kName, kEntry);
  static constexpr StackUse kStackUse = stack_use_of<Record>(kFlags);

  static CUresult call(Arguments... arguments) {
    auto* const real = reinterpret_cast<Function*>(driver::real(kApi, kEntry));
    if (real == nullptr) [[unlikely]]
      return call_stand_in(arguments...);
    const CallGuard guard;
    if constexpr (requires { Effect::prepare(arguments...); }) Effect::prepare(arguments...);
    if constexpr (is_recorded<Effect>()) {
      if (guard.outermost() && recording(may_start_recording<Record>())) [[likely]] {
        return record(guard, real, native::caller_of_this_function(), arguments...);
      }
    }
    const CUresult result = real(arguments...);
    track(result, arguments...);
    return result;
  }

 private:
  // Calls a library that stands in for the driver, in a process without one. The call is not
  // recorded: it has nothing to do with a device.
  [[gnu::cold, gnu::noinline]] static CUresult call_stand_in(Arguments... arguments) {
    const ApiInfo& api = apis()[static_cast<std::size_t>(kApi)];
    auto* const function = reinterpret_cast<Function*>(driver::stand_in(api, kEntry));
    return function == nullptr ? cuda_abi::CUDA_ERROR_NOT_INITIALIZED : function(arguments...);
  }

  static void track(CUresult result, Arguments... arguments) noexcept {
    if constexpr (requires { Effect::track(result, arguments...); }) {
      Effect::track(result, arguments...);
    }
  }

  [[gnu::always_inline]] static inline CUresult record(const CallGuard& guard, Function* real,
                                                       const native::Caller& above,
                                                       Arguments... arguments) {
    const trace::StackId stack = current_stack(guard, above, kStackUse);
    const auto* const caller = reinterpret_cast<const void*>(above.return_address);
    Slot<Record> slot(guard, static_cast<std::uint16_t>(kApi), kFlags, caller, stack,
                      current_context(), [&](Record& record) noexcept {
                        Effect::before(record, arguments...);
                        if constexpr ((kFlags & trace::kFlagAsynchronous) != 0) {
                          mark_captured(record);
                        }
                        mark_collected(record);
                        mark_content(record);
                      });
    const CUresult result = real(arguments...);
    const std::uint64_t end = ticks();
    track(result, arguments...);
    if (!slot) [[unlikely]]
      return result;
    if (result == cuda_abi::CUDA_SUCCESS) {
      if constexpr (requires { Effect::after(slot.record(), arguments...); }) {
        Effect::after(slot.record(), arguments...);
      }
      if constexpr (kStackUse == StackUse::kBlock) set_context_of_stream(slot.record());
    } else if (result == cuda_abi::CUDA_ERROR_OUT_OF_MEMORY) {
      request_sample();
    }
    const std::uint64_t begin = slot.record().call.record.time;
    slot.complete(result, end);
    if constexpr (requires { Effect::parts(arguments...); }) {
      if (result == cuda_abi::CUDA_SUCCESS) {
        record_parts(guard, caller, stack, begin, end, arguments...);
      }
    }
    return result;
  }

  // Writes a record for each further element of a batched call, with the times of the whole call.
  static void record_parts(const CallGuard& guard, const void* caller, trace::StackId stack,
                           std::uint64_t begin, std::uint64_t end,
                           Arguments... arguments) noexcept {
    const std::uint32_t parts = Effect::parts(arguments...);
    for (std::uint32_t part = 1; part < parts; ++part) {
      Slot<Record> slot(guard, static_cast<std::uint16_t>(kApi), kFlags, caller, stack,
                        current_context(), [&](Record& record) noexcept {
                          Effect::part(record, part, arguments...);
                          mark_captured(record);
                        });
      if (!slot) return;
      slot.record().call.record.time = begin;
      slot.complete(cuda_abi::CUDA_SUCCESS, end);
    }
  }
};

}  // namespace

// The exported symbols. C++ cannot define a function from a function type alone, so each symbol is
// a jump through a constant pointer to its wrapper. apis() uses the symbol's second, hidden name,
// because the loader would look exported names up in every process, which costs 11 us at each exec.
#if defined(__x86_64__)
#define GPUMEMTRACE_JUMP(symbol) "endbr64\n\tjmp *gpumemtrace_exported_" #symbol "(%rip)\n"
#elif defined(__aarch64__)
#define GPUMEMTRACE_JUMP(symbol)            \
  "adrp x16, gpumemtrace_exported_" #symbol \
  "\n\t"                                    \
  "ldr x16, [x16, #:lo12:gpumemtrace_exported_" #symbol "]\n\tbr x16\n"
#endif

#define GPUMEMTRACE_HIDDEN_NAME(symbol)                                          \
  ".globl gpumemtrace_symbol_" #symbol "\n\t.hidden gpumemtrace_symbol_" #symbol \
  "\ngpumemtrace_symbol_" #symbol ":\n\t"

#define GPUMEMTRACE_API(symbol, runtime, ...)                                                     \
  extern "C" {                                                                                    \
  [[gnu::visibility("hidden")]] extern cuda_abi::symbol##_t* const gpumemtrace_exported_##symbol; \
  [[gnu::used]] constinit cuda_abi::symbol##_t* const gpumemtrace_exported_##symbol =             \
      &Wrapper<ApiId::symbol, Entry::kExported>::call;                                            \
  [[gnu::visibility("hidden")]] void gpumemtrace_symbol_##symbol();                               \
  }                                                                                               \
  __asm__(".text\n\t.globl " #symbol "\n\t.type " #symbol ", %function\n\t.p2align 4\n" #symbol   \
          ":\n\t" GPUMEMTRACE_HIDDEN_NAME(symbol) GPUMEMTRACE_JUMP(symbol) "\t.size " #symbol     \
                                                                           ", .-" #symbol "\n");
#include "preload/driver/apis.def"

const std::array<ApiInfo, kApiCount>& apis() noexcept {
  // The compiler initializes the table, although not every compiler accepts a cast address as a
  // constant expression, which constinit would require.
  static const std::array<ApiInfo, kApiCount> table = {
      ApiInfo{},
#define GPUMEMTRACE_API(symbol, runtime, ...)                                      \
  ApiInfo{#symbol, runtime, reinterpret_cast<void*>(&gpumemtrace_symbol_##symbol), \
          reinterpret_cast<void*>(&Wrapper<ApiId::symbol, Entry::kPointer>::call), \
          trace::kind_of<rows::effect_of_##symbol::Record>()},
#include "preload/driver/apis.def"
  };
  return table;
}

// Second, hidden names of the exported functions: the loader need not look hidden names up.
extern "C" {
[[gnu::visibility("hidden")]] cuda_abi::cuGetProcAddress_t gpumemtrace_symbol_cuGetProcAddress;
[[gnu::visibility(
    "hidden")]] cuda_abi::cuGetProcAddress_v2_t gpumemtrace_symbol_cuGetProcAddress_v2;
}

const std::array<ApiInfo, kGetProcAddressVersions>& get_proc_address_versions() noexcept {
  static const std::array<ApiInfo, kGetProcAddressVersions> table = {
      ApiInfo{"cuGetProcAddress", "", reinterpret_cast<void*>(&gpumemtrace_symbol_cuGetProcAddress),
              reinterpret_cast<void*>(&get_proc_address_v1<Entry::kPointer>)},
      ApiInfo{"cuGetProcAddress_v2", "",
              reinterpret_cast<void*>(&gpumemtrace_symbol_cuGetProcAddress_v2),
              reinterpret_cast<void*>(&get_proc_address_v2<Entry::kPointer>)}};
  return table;
}

}  // namespace gpumemtrace::preload

extern "C" [[gnu::visibility("default")]] gpumemtrace::cuda_abi::CUresult cuGetProcAddress(
    const char* name, void** function, int version, std::uint64_t flags) {
  return gpumemtrace::preload::get_proc_address_v1<gpumemtrace::preload::driver::Entry::kExported>(
      name, function, version, flags);
}

extern "C" [[gnu::visibility("default")]] gpumemtrace::cuda_abi::CUresult cuGetProcAddress_v2(
    const char* name, void** function, int version, std::uint64_t flags,
    gpumemtrace::cuda_abi::CUdriverProcAddressQueryResult* status) {
  return gpumemtrace::preload::get_proc_address_v2<gpumemtrace::preload::driver::Entry::kExported>(
      name, function, version, flags, status);
}

extern "C" {
[[gnu::alias("cuGetProcAddress")]] gpumemtrace::cuda_abi::cuGetProcAddress_t
    gpumemtrace_symbol_cuGetProcAddress;
[[gnu::alias("cuGetProcAddress_v2")]] gpumemtrace::cuda_abi::cuGetProcAddress_v2_t
    gpumemtrace_symbol_cuGetProcAddress_v2;
}
