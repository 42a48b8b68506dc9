// SPDX-License-Identifier: Apache-2.0
// Records NVTX's ranges and marks as annotations. NVTX is compiled into programs and libraries; at
// its first use, each copy loads the tool library that NVTX_INJECTION64_PATH names and calls its
// InitializeInjectionNvtx2; an NVTX extension calls InitializeInjectionNvtxExtension instead.
//
// - If another tool was set in that variable, GPUMEMTRACE_NVTX_CHAIN names it. That tool is
//   initialised first; its callbacks are called after ours, and the program gets its handles, range
//   ids and nesting levels.
// - A tool gives the same callbacks to every copy of NVTX, so one set is kept for the process.
// - In a process that did not preload us nothing is recorded: only the other tool is started.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "preload/base/config.hpp"
#include "preload/base/message.hpp"
#include "preload/base/thread_guards.hpp"
#include "preload/hooks/nvtx_abi.hpp"
#include "preload/hooks/nvtx_registered.hpp"
#include "preload/loader/lazy_symbols.hpp"
#include "preload/loader/real_dlsym.hpp"
#include "preload/session/annotations.hpp"

extern "C" [[gnu::visibility("default")]] int InitializeInjectionNvtx2(
    gpumemtrace::preload::nvtx::GetExportTable get_export_table);
extern "C" [[gnu::visibility("default")]] int InitializeInjectionNvtxExtension(
    gpumemtrace::preload::nvtx::ExtensionModule* module);

namespace gpumemtrace::preload::nvtx {
namespace {

using trace::AnnotationOperation;

// Index of an NVTX callback in our tables, by its module and its id.
constexpr std::size_t kMostIds = 16;
constexpr std::size_t kHookCount = 3 * kMostIds;
constexpr std::size_t index_of(Core id) noexcept { return static_cast<std::size_t>(id); }
constexpr std::size_t index_of(Core2 id) noexcept {
  return kMostIds + static_cast<std::size_t>(id);
}
constexpr std::size_t index_of(Payload id) noexcept {
  return 2 * kMostIds + static_cast<std::size_t>(id);
}

// The callbacks of the other NVTX tool, which are called after ours; nullptr for those it lacks.
constinit std::atomic<Function> chained[kHookCount] = {};

// Calls the other tool's callback and returns its result; `otherwise` if it has no such callback.
template <class Result, class Id, class... A>
Result call_chained(Id id, Result otherwise, A... a) noexcept {
  // Relaxed: guards no other data.
  const Function function = chained[index_of(id)].load(std::memory_order_relaxed);
  if (function == nullptr) return otherwise;
  return reinterpret_cast<Result (*)(A...)>(function)(a...);
}

template <class Id, class... A>
void call_chained_void(Id id, A... a) noexcept {
  const Function function = chained[index_of(id)].load(std::memory_order_relaxed);
  if (function != nullptr) reinterpret_cast<void (*)(A...)>(function)(a...);
}

// A message in any of NVTX's forms, as UTF-8.
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
      converted_bytes_ += put_utf8(static_cast<std::uint32_t>(*text), converted_ + converted_bytes_,
                                   sizeof converted_ - converted_bytes_);
    }
  }

  std::string_view text_;
  std::size_t converted_bytes_ = 0;
  char converted_[kMaxNameBytes];
};

void record(AnnotationOperation operation, std::string_view name, const void* domain = nullptr,
            std::uint64_t value = 0, const Communicator& communicator = {}) noexcept {
  Annotation annotation;
  annotation.operation = operation;
  annotation.source = trace::AnnotationSource::kNvtx;
  annotation.value = value;
  annotation.name = name;
  annotation.domain = text_of_handle(domain);
  annotation.communicator = communicator;
  annotate(annotation);
}

Communicator communicator_of(const void* domain, const EventAttributes* event) noexcept {
  if (event == nullptr || event->size < sizeof *event) return {};
  if (event->payload_type != kExtendedPayload || event->payload_count < 0) return {};
  return communicator_of(domain, reinterpret_cast<const PayloadData*>(event->payload),
                         static_cast<std::size_t>(event->payload_count));
}

// Nesting depth of the calling thread's push/pop ranges in one NVTX domain. The thread's domains
// are in the order of first use.
struct Nesting {
  const void* domain = nullptr;
  int depth = 0;
};
constinit thread_local Nesting nestings[4];

// The calling thread's entry for the domain, a new one at the first use; nullptr if none is free.
Nesting* nesting_of(const void* domain) noexcept {
  for (Nesting& nesting : nestings) {
    if (nesting.domain == domain) return &nesting;
    if (nesting.domain == nullptr && &nesting != nestings) {  // entry 0: default domain
      nesting.domain = domain;
      return &nesting;
    }
  }
  return nullptr;
}

// Returns the level of the range that begins, 0 for an outermost one.
int enter(const void* domain) noexcept {
  Nesting* const nesting = nesting_of(domain);
  return nesting == nullptr ? kNoPushPopTracking : nesting->depth++;
}

// Returns the level of the range that ends; negative if none is open.
int leave(const void* domain) noexcept {
  Nesting* const nesting = nesting_of(domain);
  if (nesting == nullptr) return kNoPushPopTracking;
  return nesting->depth == 0 ? -1 : --nesting->depth;
}

std::uint64_t next_range_id() noexcept {
  static constinit std::atomic<std::uint64_t> last = 0;
  return last.fetch_add(1, std::memory_order_relaxed) + 1;  // relaxed: guards no other data
}

// --- The callbacks that NVTX calls

template <Core kId, class Text>
void mark(Text text) {
  record(AnnotationOperation::kMark, MessageText(text).text());
  call_chained_void(kId, text);
}

template <Core kId, class Text>
std::uint64_t range_start(Text text) {
  const std::uint64_t theirs = call_chained<std::uint64_t>(kId, 0, text);
  const std::uint64_t id = theirs == 0 ? next_range_id() : theirs;
  record(AnnotationOperation::kStart, MessageText(text).text(), nullptr, id);
  return id;
}

void range_end(std::uint64_t id) {
  record(AnnotationOperation::kEnd, {}, nullptr, id);
  call_chained_void(Core::kRangeEnd, id);
}

template <Core kId, class Text>
int range_push(Text text) {
  record(AnnotationOperation::kPush, MessageText(text).text());
  return call_chained(kId, enter(nullptr), text);
}

int range_pop() {
  record(AnnotationOperation::kPop, {});
  return call_chained(Core::kRangePop, leave(nullptr));
}

void domain_mark(const void* domain, const EventAttributes* event) {
  record(AnnotationOperation::kMark, MessageText(event).text(), domain);
  call_chained_void(Core2::kDomainMarkEx, domain, event);
}

std::uint64_t domain_range_start(const void* domain, const EventAttributes* event) {
  const auto theirs = call_chained<std::uint64_t>(Core2::kDomainRangeStartEx, 0, domain, event);
  const std::uint64_t id = theirs == 0 ? next_range_id() : theirs;
  record(AnnotationOperation::kStart, MessageText(event).text(), domain, id);
  return id;
}

void domain_range_end(const void* domain, std::uint64_t id) {
  record(AnnotationOperation::kEnd, {}, domain, id);
  call_chained_void(Core2::kDomainRangeEnd, domain, id);
}

int domain_range_push(const void* domain, const EventAttributes* event) {
  record(AnnotationOperation::kPush, MessageText(event).text(), domain, 0,
         communicator_of(domain, event));
  return call_chained(Core2::kDomainRangePushEx, enter(domain), domain, event);
}

int domain_range_pop(const void* domain) {
  record(AnnotationOperation::kPop, {}, domain);
  return call_chained(Core2::kDomainRangePop, leave(domain), domain);
}

template <Core2 kId, class Text>
const void* domain_create(Text name) {
  const void* const theirs = call_chained<const void*>(kId, nullptr, name);
  return remember_text(theirs, MessageText(name).text());
}

template <Core2 kId, class Text>
const void* register_string(const void* domain, Text text) {
  const void* const theirs = call_chained<const void*>(kId, nullptr, domain, text);
  return remember_text(theirs, MessageText(text).text());
}

std::uint64_t register_schema(const void* domain, const SchemaAttributes* attributes) {
  const auto theirs = call_chained<std::uint64_t>(Payload::kSchemaRegister, 0, domain, attributes);
  if (attributes == nullptr || (attributes->set_members & kSchemaHasId) == 0) return theirs;
  remember_schema(domain, attributes->id, *attributes);
  return theirs == 0 ? attributes->id : theirs;
}

// Records the range without a name: a program may put a name into its structures, but in no fixed
// form.
int range_push_payload(const void* domain, const PayloadData* structures, std::size_t count) {
  record(AnnotationOperation::kPush, {}, domain, 0, communicator_of(domain, structures, count));
  return call_chained(Payload::kRangePush, enter(domain), domain, structures, count);
}

int range_pop_payload(const void* domain, const PayloadData* structures, std::size_t count) {
  record(AnnotationOperation::kPop, {}, domain, 0, communicator_of(domain, structures, count));
  return call_chained(Payload::kRangePop, leave(domain), domain, structures, count);
}

// --- Setting the callbacks

// The callback tables of one copy of NVTX in the process. The tables of an older NVTX may be too
// short for some of our callbacks.
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

  // Until a tool sets callbacks, the function pointers in the tables are NVTX's own.
  void remember_initial() noexcept {
    for_each_hook([&](std::size_t hook, Function* place, Function) { initial_[hook] = *place; });
  }
  void restore_initial() noexcept {
    for_each_hook([&](std::size_t hook, Function* place, Function) { *place = initial_[hook]; });
  }
  // A function pointer that changed since remember_initial() is the other tool's callback.
  void install() noexcept {
    for_each_hook([&](std::size_t hook, Function* place, Function ours) {
      if (*place != initial_[hook] && *place != ours) {
        chained[hook].store(*place, std::memory_order_relaxed);  // relaxed: guards no other data
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

  // Calls visit(index, place, ours) for each callback that NVTX's tables have room for: `place`
  // holds the function pointer that NVTX calls, `ours` is our callback.
  template <class Visit>
  void for_each_hook(Visit&& visit) noexcept {
    const auto one = [&](const Table& table, auto id, auto* ours) {
      const auto number = static_cast<unsigned>(id);
      if (table.functions == nullptr || number >= table.size) return;
      if (Function* const place = table.functions[number]; place != nullptr) {
        visit(index_of(id), place, reinterpret_cast<Function>(ours));
      }
    };
    const auto core = [&](Core id, auto* ours) { one(core_, id, ours); };
    const auto core2 = [&](Core2 id, auto* ours) { one(core2_, id, ours); };
    using Event = const EventAttributes*;
    using Ascii = const char*;
    using Wide = const wchar_t*;
    core(Core::kMarkEx, &mark<Core::kMarkEx, Event>);
    core(Core::kMarkA, &mark<Core::kMarkA, Ascii>);
    core(Core::kMarkW, &mark<Core::kMarkW, Wide>);
    core(Core::kRangeStartEx, &range_start<Core::kRangeStartEx, Event>);
    core(Core::kRangeStartA, &range_start<Core::kRangeStartA, Ascii>);
    core(Core::kRangeStartW, &range_start<Core::kRangeStartW, Wide>);
    core(Core::kRangeEnd, &range_end);
    core(Core::kRangePushEx, &range_push<Core::kRangePushEx, Event>);
    core(Core::kRangePushA, &range_push<Core::kRangePushA, Ascii>);
    core(Core::kRangePushW, &range_push<Core::kRangePushW, Wide>);
    core(Core::kRangePop, &range_pop);
    core2(Core2::kDomainMarkEx, &domain_mark);
    core2(Core2::kDomainRangeStartEx, &domain_range_start);
    core2(Core2::kDomainRangeEnd, &domain_range_end);
    core2(Core2::kDomainRangePushEx, &domain_range_push);
    core2(Core2::kDomainRangePop, &domain_range_pop);
    core2(Core2::kDomainRegisterStringA, &register_string<Core2::kDomainRegisterStringA, Ascii>);
    core2(Core2::kDomainRegisterStringW, &register_string<Core2::kDomainRegisterStringW, Wide>);
    core2(Core2::kDomainCreateA, &domain_create<Core2::kDomainCreateA, Ascii>);
    core2(Core2::kDomainCreateW, &domain_create<Core2::kDomainCreateW, Wide>);
  }

  GetExportTable get_export_table_;
  Table core_;
  Table core2_;
  Function initial_[kHookCount] = {};
};

// True if this library is preloaded, not only loaded by NVTX: the process's global scope has the
// symbols of a preloaded library, but not those of a library that NVTX loads by path.
bool is_preloaded() noexcept {
  void* const program = libc_dlopen(nullptr, RTLD_LAZY);
  return program != nullptr && real_dlsym(program, "gpumemtrace_step") != nullptr;
}

// A function of the NVTX tool that GPUMEMTRACE_NVTX_CHAIN names; nullptr if there is no such tool
// or function.
void* function_of_other_tool(const char* name, bool is_required) noexcept {
  const std::string_view path = environment("GPUMEMTRACE_NVTX_CHAIN");
  if (path.empty()) return nullptr;
  static constinit std::atomic<bool> failure_said = false;
  void* const library = libc_dlopen(path.data(), RTLD_LAZY);
  void* const function = library == nullptr ? nullptr : real_dlsym(library, name);
  if (function == nullptr && is_required && !failure_said.exchange(true)) {
    Line line;
    line << "the NVTX tool " << path << " of GPUMEMTRACE_NVTX_CHAIN ";
    if (library == nullptr) {
      line << "cannot be loaded";
    } else {
      line << "has no " << name;
    }
    message(line << "; it gets no ranges. Correct or unset the variable.");
  }
  return function;
}

// Starts the other NVTX tool; false if there is none or it declines.
bool start_other_tool(GetExportTable get_export_table) noexcept {
  const auto function = reinterpret_cast<InitializeInjection>(
      function_of_other_tool("InitializeInjectionNvtx2", true));
  return function != nullptr && function != &InitializeInjectionNvtx2 &&
         function(get_export_table) != 0;
}

// Starts the other tool, then puts our callbacks before the tool's. 0 if neither takes part.
int initialize(GetExportTable get_export_table) noexcept {
  Instance instance(get_export_table);
  instance.remember_initial();
  const bool other = start_other_tool(get_export_table);
  if (!other) instance.restore_initial();
  const bool ours = instance.usable() && is_preloaded();
  if (ours) instance.install();
  return ours || other ? 1 : 0;
}

// Offers an NVTX extension to the other tool and returns the tool's answer. Without a tool that
// knows extensions the answer is 1 (accepted), with every slot left empty.
int start_other_extension(ExtensionModule& module) noexcept {
  const auto function = reinterpret_cast<InitializeExtension>(
      function_of_other_tool("InitializeInjectionNvtxExtension", false));
  if (function == nullptr || function == &InitializeInjectionNvtxExtension) return 1;
  return function(&module);
}

// Sets our callbacks in the slots of the payload extension. `other`: the other tool accepted the
// extension, so what it put into these slots is called after ours.
void install_extension(const ExtensionSegment& segment, bool other) noexcept {
  const auto set = [&](Payload id, auto* ours) {
    const auto number = static_cast<std::size_t>(id);
    if (number >= segment.slot_count) return;
    Function& slot = segment.slots[number];
    const auto function = reinterpret_cast<Function>(ours);
    if (other && slot != nullptr && slot != function) {
      // Relaxed: guards no other data.
      chained[index_of(id)].store(slot, std::memory_order_relaxed);
    }
    slot = function;
  };
  set(Payload::kSchemaRegister, &register_schema);
  set(Payload::kRangePush, &range_push_payload);
  set(Payload::kRangePop, &range_pop_payload);
}

int initialize_extension(ExtensionModule& module) noexcept {
  const int other = start_other_extension(module);
  const bool is_ours = module.module_id == kPayloadModule && module.segment_count != 0;
  if (!is_ours || !is_preloaded()) return other;
  ExtensionSegment& segment = module.segments[0];
  // A tool that declines may have filled slots.
  for (std::size_t i = 0; other == 0 && i < segment.slot_count; ++i) segment.slots[i] = nullptr;
  install_extension(segment, other != 0);
  return 1;
}

}  // namespace
}  // namespace gpumemtrace::preload::nvtx

int InitializeInjectionNvtx2(gpumemtrace::preload::nvtx::GetExportTable get_export_table) {
  const gpumemtrace::preload::ErrnoKeeper errno_keeper;
  return get_export_table == nullptr ? 0 : gpumemtrace::preload::nvtx::initialize(get_export_table);
}

int InitializeInjectionNvtxExtension(gpumemtrace::preload::nvtx::ExtensionModule* module) {
  const gpumemtrace::preload::ErrnoKeeper errno_keeper;
  return module == nullptr ? 0 : gpumemtrace::preload::nvtx::initialize_extension(*module);
}
