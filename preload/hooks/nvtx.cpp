// SPDX-License-Identifier: Apache-2.0
// NVTX's ranges and marks become annotations. The NVTX inside a program loads the library that
// NVTX_INJECTION64_PATH names at the first use of NVTX and calls its InitializeInjectionNvtx2;
// every library of the process with NVTX in it does so for itself.
//
// - Another tool that had the variable is named in GPUMEMTRACE_NVTX_CHAIN. It is initialised first;
//   its callbacks are called after ours, its handles, range ids and nesting levels are what the
//   program gets.
// - Tools give the same functions to every NVTX of a process, so one set is remembered.
// - In a process that did not preload us nothing is recorded: only the other tool is started.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "preload/base/config.hpp"
#include "preload/base/errno_keeper.hpp"
#include "preload/base/message.hpp"
#include "preload/hooks/nvtx_abi.hpp"
#include "preload/hooks/nvtx_handles.hpp"
#include "preload/loader/lazy_symbols.hpp"
#include "preload/loader/real_dlsym.hpp"
#include "preload/session/annotations.hpp"

extern "C" [[gnu::visibility("default")]] int InitializeInjectionNvtx2(
    gpumemtrace::preload::nvtx::GetExportTable get_export_table);

namespace gpumemtrace::preload::nvtx {
namespace {

using trace::AnnotationOperation;

enum class Hook : std::size_t {
  kMarkEx,
  kMarkA,
  kMarkW,
  kRangeStartEx,
  kRangeStartA,
  kRangeStartW,
  kRangeEnd,
  kRangePushEx,
  kRangePushA,
  kRangePushW,
  kRangePop,
  kDomainMarkEx,
  kDomainRangeStartEx,
  kDomainRangeEnd,
  kDomainRangePushEx,
  kDomainRangePop,
  kDomainRegisterStringA,
  kDomainRegisterStringW,
  kDomainCreateA,
  kDomainCreateW,
  kCount,
};
constexpr std::size_t kHookCount = static_cast<std::size_t>(Hook::kCount);

// The other tool's functions.
constinit std::atomic<Function> chained[kHookCount] = {};

template <class Result, class... A>
Result call_chained(Hook hook, Result otherwise, A... a) noexcept {
  // Relaxed: the pointer is all there is.
  const Function function = chained[static_cast<std::size_t>(hook)].load(std::memory_order_relaxed);
  if (function == nullptr) return otherwise;
  return reinterpret_cast<Result (*)(A...)>(function)(a...);
}

template <class... A>
void call_chained_void(Hook hook, A... a) noexcept {
  const Function function = chained[static_cast<std::size_t>(hook)].load(std::memory_order_relaxed);
  if (function != nullptr) reinterpret_cast<void (*)(A...)>(function)(a...);
}

// A message of whichever form, as UTF-8.
class MessageText {
 public:
  explicit MessageText(const char* text) noexcept { take(text); }
  explicit MessageText(const wchar_t* text) noexcept { convert(text); }
  explicit MessageText(const EventAttributes* event) noexcept {
    if (event == nullptr || event->size < sizeof *event) return;
    switch (event->message_type) {
      case Message::kAscii:
        take(static_cast<const char*>(event->message));
        break;
      case Message::kUnicode:
        convert(static_cast<const wchar_t*>(event->message));
        break;
      case Message::kRegistered:
        text_ = text_of_handle(event->message);
        break;
      case Message::kNone:
        break;
    }
  }

  std::string_view text() const noexcept {
    return converted_bytes_ == 0 ? text_ : std::string_view(converted_, converted_bytes_);
  }

 private:
  void take(const char* text) noexcept {
    if (text != nullptr) text_ = {text, __builtin_strlen(text)};
  }
  void convert(const wchar_t* text) noexcept {
    for (; text != nullptr && *text != 0 && converted_bytes_ + 4 <= sizeof converted_; ++text) {
      append(static_cast<std::uint32_t>(*text));
    }
  }
  void append(std::uint32_t code_point) noexcept {
    const auto put = [this](std::uint32_t byte) noexcept {
      converted_[converted_bytes_++] = static_cast<char>(byte);
    };
    if (code_point < 0x80) {
      put(code_point);
    } else if (code_point < 0x800) {
      put(0xc0 | code_point >> 6);
      put(0x80 | (code_point & 0x3f));
    } else if (code_point < 0x10000) {
      put(0xe0 | code_point >> 12);
      put(0x80 | (code_point >> 6 & 0x3f));
      put(0x80 | (code_point & 0x3f));
    } else if (code_point < 0x110000) {
      put(0xf0 | code_point >> 18);
      put(0x80 | (code_point >> 12 & 0x3f));
      put(0x80 | (code_point >> 6 & 0x3f));
      put(0x80 | (code_point & 0x3f));
    }
  }

  std::string_view text_;
  std::size_t converted_bytes_ = 0;
  char converted_[kMaxNameBytes];
};

void record(AnnotationOperation operation, std::string_view name, const void* domain = nullptr,
            std::uint64_t value = 0) noexcept {
  Annotation annotation;
  annotation.operation = operation;
  annotation.source = trace::AnnotationSource::kNvtx;
  annotation.value = value;
  annotation.name = name;
  annotation.domain = text_of_handle(domain);
  annotate(annotation);
}

// How deep the calling thread's ranges are nested in each domain that it used first.
struct Nesting {
  const void* domain = nullptr;
  int depth = 0;
};
constinit thread_local Nesting nestings[4];

Nesting* nesting_of(const void* domain) noexcept {
  for (Nesting& nesting : nestings) {
    if (nesting.domain == domain) return &nesting;
    if (nesting.domain == nullptr && &nesting != nestings) {  // the first is the default domain's
      nesting.domain = domain;
      return &nesting;
    }
  }
  return nullptr;
}

// The level of the range that begins, 0 for an outermost one.
int enter(const void* domain) noexcept {
  Nesting* const nesting = nesting_of(domain);
  return nesting == nullptr ? kNoPushPopTracking : nesting->depth++;
}

// The level of the range that ends; negative where none is open.
int leave(const void* domain) noexcept {
  Nesting* const nesting = nesting_of(domain);
  if (nesting == nullptr) return kNoPushPopTracking;
  return nesting->depth == 0 ? -1 : --nesting->depth;
}

std::uint64_t next_range_id() noexcept {
  static constinit std::atomic<std::uint64_t> last = 0;
  return last.fetch_add(1, std::memory_order_relaxed) + 1;  // a number, nothing to order
}

// --- The callbacks

template <Hook kHook, class Text>
void mark(Text text) {
  record(AnnotationOperation::kMark, MessageText(text).text());
  call_chained_void(kHook, text);
}

template <Hook kHook, class Text>
std::uint64_t range_start(Text text) {
  const std::uint64_t theirs = call_chained<std::uint64_t>(kHook, 0, text);
  const std::uint64_t id = theirs == 0 ? next_range_id() : theirs;
  record(AnnotationOperation::kStart, MessageText(text).text(), nullptr, id);
  return id;
}

void range_end(std::uint64_t id) {
  record(AnnotationOperation::kEnd, {}, nullptr, id);
  call_chained_void(Hook::kRangeEnd, id);
}

template <Hook kHook, class Text>
int range_push(Text text) {
  record(AnnotationOperation::kPush, MessageText(text).text());
  return call_chained(kHook, enter(nullptr), text);
}

int range_pop() {
  record(AnnotationOperation::kPop, {});
  return call_chained(Hook::kRangePop, leave(nullptr));
}

void domain_mark(const void* domain, const EventAttributes* event) {
  record(AnnotationOperation::kMark, MessageText(event).text(), domain);
  call_chained_void(Hook::kDomainMarkEx, domain, event);
}

std::uint64_t domain_range_start(const void* domain, const EventAttributes* event) {
  const auto theirs = call_chained<std::uint64_t>(Hook::kDomainRangeStartEx, 0, domain, event);
  const std::uint64_t id = theirs == 0 ? next_range_id() : theirs;
  record(AnnotationOperation::kStart, MessageText(event).text(), domain, id);
  return id;
}

void domain_range_end(const void* domain, std::uint64_t id) {
  record(AnnotationOperation::kEnd, {}, domain, id);
  call_chained_void(Hook::kDomainRangeEnd, domain, id);
}

int domain_range_push(const void* domain, const EventAttributes* event) {
  record(AnnotationOperation::kPush, MessageText(event).text(), domain);
  return call_chained(Hook::kDomainRangePushEx, enter(domain), domain, event);
}

int domain_range_pop(const void* domain) {
  record(AnnotationOperation::kPop, {}, domain);
  return call_chained(Hook::kDomainRangePop, leave(domain), domain);
}

template <Hook kHook, class Text>
const void* domain_create(Text name) {
  const void* const theirs = call_chained<const void*>(kHook, nullptr, name);
  return remember_text(theirs, MessageText(name).text());
}

template <Hook kHook, class Text>
const void* register_string(const void* domain, Text text) {
  const void* const theirs = call_chained<const void*>(kHook, nullptr, domain, text);
  return remember_text(theirs, MessageText(text).text());
}

// --- Setting them

// The callbacks of one NVTX in the process. Its tables may be shorter than ours where it is older.
class Instance {
 public:
  explicit Instance(GetExportTable get_export_table) noexcept
      : get_export_table_(get_export_table) {
    const auto* const callbacks = static_cast<const Callbacks*>(get_export_table(kCallbacksTable));
    if (callbacks == nullptr || callbacks->struct_size < sizeof *callbacks) return;
    find_table(*callbacks, Module::kCore, core_);
    find_table(*callbacks, Module::kCore2, core2_);
  }

  bool usable() const noexcept { return core_.functions != nullptr; }

  // What is in the places now is NVTX's own, before any tool.
  void remember_initial() noexcept {
    for_each_hook([&](std::size_t hook, Function* place, Function) { initial_[hook] = *place; });
  }
  void restore_initial() noexcept {
    for_each_hook([&](std::size_t hook, Function* place, Function) { *place = initial_[hook]; });
  }
  // What has changed since remember_initial() is the other tool's.
  void install() noexcept {
    for_each_hook([&](std::size_t hook, Function* place, Function ours) {
      if (*place != initial_[hook] && *place != ours) {
        chained[hook].store(*place, std::memory_order_relaxed);  // the pointer is all there is
      }
      *place = ours;
    });
    const auto* const version = static_cast<const VersionInfo*>(get_export_table_(kVersionTable));
    if (version != nullptr && version->struct_size >= sizeof *version &&
        version->set_injection_version != nullptr) {
      version->set_injection_version(kVersion);
    }
  }

 private:
  struct Table {
    FunctionTable functions = nullptr;
    unsigned size = 0;
  };

  static void find_table(const Callbacks& callbacks, Module module, Table& table) noexcept {
    if (callbacks.get_module_function_table(module, &table.functions, &table.size) == 0) table = {};
  }
  static Function* place_in(const Table& table, unsigned id) noexcept {
    return table.functions == nullptr || id >= table.size ? nullptr : table.functions[id];
  }

  template <class Visit>
  void for_each_hook(Visit&& visit) noexcept {
    const auto one = [&](Hook hook, Function* place, auto* ours) {
      if (place != nullptr) {
        visit(static_cast<std::size_t>(hook), place, reinterpret_cast<Function>(ours));
      }
    };
    const auto core = [&](Hook hook, Core id, auto* ours) {
      one(hook, place_in(core_, static_cast<unsigned>(id)), ours);
    };
    const auto core2 = [&](Hook hook, Core2 id, auto* ours) {
      one(hook, place_in(core2_, static_cast<unsigned>(id)), ours);
    };
    using Event = const EventAttributes*;
    using Ascii = const char*;
    using Wide = const wchar_t*;
    core(Hook::kMarkEx, Core::kMarkEx, &mark<Hook::kMarkEx, Event>);
    core(Hook::kMarkA, Core::kMarkA, &mark<Hook::kMarkA, Ascii>);
    core(Hook::kMarkW, Core::kMarkW, &mark<Hook::kMarkW, Wide>);
    core(Hook::kRangeStartEx, Core::kRangeStartEx, &range_start<Hook::kRangeStartEx, Event>);
    core(Hook::kRangeStartA, Core::kRangeStartA, &range_start<Hook::kRangeStartA, Ascii>);
    core(Hook::kRangeStartW, Core::kRangeStartW, &range_start<Hook::kRangeStartW, Wide>);
    core(Hook::kRangeEnd, Core::kRangeEnd, &range_end);
    core(Hook::kRangePushEx, Core::kRangePushEx, &range_push<Hook::kRangePushEx, Event>);
    core(Hook::kRangePushA, Core::kRangePushA, &range_push<Hook::kRangePushA, Ascii>);
    core(Hook::kRangePushW, Core::kRangePushW, &range_push<Hook::kRangePushW, Wide>);
    core(Hook::kRangePop, Core::kRangePop, &range_pop);
    core2(Hook::kDomainMarkEx, Core2::kDomainMarkEx, &domain_mark);
    core2(Hook::kDomainRangeStartEx, Core2::kDomainRangeStartEx, &domain_range_start);
    core2(Hook::kDomainRangeEnd, Core2::kDomainRangeEnd, &domain_range_end);
    core2(Hook::kDomainRangePushEx, Core2::kDomainRangePushEx, &domain_range_push);
    core2(Hook::kDomainRangePop, Core2::kDomainRangePop, &domain_range_pop);
    core2(Hook::kDomainRegisterStringA, Core2::kDomainRegisterStringA,
          &register_string<Hook::kDomainRegisterStringA, Ascii>);
    core2(Hook::kDomainRegisterStringW, Core2::kDomainRegisterStringW,
          &register_string<Hook::kDomainRegisterStringW, Wide>);
    core2(Hook::kDomainCreateA, Core2::kDomainCreateA, &domain_create<Hook::kDomainCreateA, Ascii>);
    core2(Hook::kDomainCreateW, Core2::kDomainCreateW, &domain_create<Hook::kDomainCreateW, Wide>);
  }

  GetExportTable get_export_table_;
  Table core_;
  Table core2_;
  Function initial_[kHookCount] = {};
};

// A library that NVTX loads by path is no part of the process's own scope; a preloaded one is.
bool is_preloaded() noexcept {
  void* const program = libc_dlopen(nullptr, RTLD_LAZY);
  return program != nullptr && real_dlsym(program, "gpumemtrace_step") != nullptr;
}

// True where the other tool is there and wants to run.
bool start_other_tool(GetExportTable get_export_table) noexcept {
  const std::string_view path = environment("GPUMEMTRACE_NVTX_CHAIN");
  if (path.empty()) return false;
  static constinit std::atomic<bool> failure_said = false;
  void* const library = libc_dlopen(path.data(), RTLD_LAZY);
  void* const initialize =
      library == nullptr ? nullptr : real_dlsym(library, "InitializeInjectionNvtx2");
  if (initialize == nullptr) {
    if (!failure_said.exchange(true)) {
      message(
          Line() << "the NVTX tool " << path << " of GPUMEMTRACE_NVTX_CHAIN "
                 << (library == nullptr ? "cannot be loaded" : "has no InitializeInjectionNvtx2")
                 << "; it gets no ranges. Correct or unset the variable.");
    }
    return false;
  }
  const auto function = reinterpret_cast<InitializeInjection>(initialize);
  return function != &InitializeInjectionNvtx2 && function(get_export_table) != 0;
}

int initialize(GetExportTable get_export_table) noexcept {
  Instance instance(get_export_table);
  instance.remember_initial();
  const bool other = start_other_tool(get_export_table);
  if (!other) instance.restore_initial();
  const bool ours = instance.usable() && is_preloaded();
  if (ours) instance.install();
  return ours || other ? 1 : 0;
}

}  // namespace
}  // namespace gpumemtrace::preload::nvtx

int InitializeInjectionNvtx2(gpumemtrace::preload::nvtx::GetExportTable get_export_table) {
  const gpumemtrace::preload::ErrnoKeeper errno_keeper;
  return get_export_table == nullptr ? 0 : gpumemtrace::preload::nvtx::initialize(get_export_table);
}
