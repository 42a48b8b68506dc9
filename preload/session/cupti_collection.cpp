// SPDX-License-Identifier: Apache-2.0
#include "preload/session/cupti_collection.hpp"

#include <link.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "cupti/collection.hpp"
#include "cupti/spin_lock.hpp"
#include "preload/base/config.hpp"
#include "preload/base/message.hpp"
#include "preload/base/thread_guards.hpp"
#include "preload/base/wait.hpp"
#include "preload/loader/elf_symbols.hpp"
#include "preload/loader/lazy_symbols.hpp"
#include "preload/loader/loaded_module.hpp"
#include "preload/ring/recorder.hpp"
#include "preload/session/session.hpp"

namespace gpumemtrace::preload {
// --- The copies of libcupti.

namespace {

constexpr char kFilePrefix[] = "libcupti";
constexpr char kMarkSymbol[] = "cuptiActivityRegisterCallbacks";
// Triton's profiler (Proton), which opens a libcupti of its own when it is used.
constexpr char kProton[] = "libproton.so";
constexpr std::size_t kMaxPath = 512;

struct Copy {
  void* mark = nullptr;  // address of kMarkSymbol in the loaded file, which identifies the file
  ElfLibrary symbols;
  char path[kMaxPath] = {};
  cupti::Library library;
};

struct Copies {
  Copy entries[cupti::kMostLibraries];
  std::size_t count = 0;
  cupti::SpinLock lock;
};
constinit Copies copies;

// The entry of a loaded file in `copies`, made if there is none yet; nullptr if the file is no
// libcupti or there are too many copies.
Copy* entry_of(const dl_phdr_info& info) noexcept {
  if (info.dlpi_name == nullptr || !has_prefix(file_name_of(info.dlpi_name), kFilePrefix)) {
    return nullptr;
  }
  ElfLibrary symbols;
  if (!read_library(info, symbols)) return nullptr;
  void* const mark = symbol_of(symbols, kMarkSymbol);
  if (mark == nullptr) return nullptr;
  const cupti::SpinGuard guard(copies.lock);
  for (std::size_t i = 0; i < copies.count; ++i) {
    if (copies.entries[i].mark == mark) return &copies.entries[i];
  }
  if (copies.count == cupti::kMostLibraries) return nullptr;
  Copy& copy = copies.entries[copies.count];
  copy.mark = mark;
  copy.symbols = symbols;
  strncpy(copy.path, info.dlpi_name, kMaxPath - 1);
  cupti::Functions functions;
  cupti::load(functions, [&](const char* name) noexcept { return symbol_of(symbols, name); });
  copy.library.found(functions, copies.count, cupti::the_collection());
  ++copies.count;
  return &copy;
}

struct AllCopies {
  Copy* entries[cupti::kMostLibraries] = {};
  std::size_t count = 0;
  const char* proton = nullptr;
};

AllCopies find_cupti_copies() noexcept {
  AllCopies all;
  (void)find_loaded([&](const dl_phdr_info& info) noexcept {
    if (info.dlpi_name == nullptr) return false;
    if (has_prefix(file_name_of(info.dlpi_name), kProton)) all.proton = info.dlpi_name;
    Copy* const copy = entry_of(info);
    if (copy != nullptr && all.count < cupti::kMostLibraries) all.entries[all.count++] = copy;
    return false;
  });
  return all;
}

// Calls visit(info) for the loaded file that contains the address.
template <class Visit>
void visit_around(const void* address, Visit&& visit) noexcept {
  (void)find_loaded([&](const dl_phdr_info& info) noexcept {
    if (!range_of(info).contains(reinterpret_cast<std::uintptr_t>(address))) return false;
    visit(info);
    return true;
  });
}

// The copy of libcupti that has this Library as a member; each Library is part of a Copy.
const Copy& copy_of(const cupti::Library& library) noexcept {
  return copies.entries[library.index()];
}

}  // namespace

cupti::Library* cupti_library_around(const void* address) noexcept {
  Copy* found = nullptr;
  visit_around(address, [&](const dl_phdr_info& info) noexcept { found = entry_of(info); });
  return found == nullptr ? nullptr : &found->library;
}

cupti::Library* cupti_library_for(const void* caller) noexcept {
  const AllCopies all = find_cupti_copies();
  if (all.count == 0) return nullptr;
  if (all.count == 1) return &all.entries[0]->library;
  Copy* found = nullptr;
  const auto look_at = [&](const char* needed) noexcept {
    for (std::size_t i = 0; i < all.count && found == nullptr; ++i) {
      if (has_prefix(file_name_of(all.entries[i]->path), needed)) found = all.entries[i];
    }
  };
  visit_around(caller, [&](const dl_phdr_info& info) noexcept { for_each_needed(info, look_at); });
  return found == nullptr ? &all.entries[0]->library : &found->library;
}

// Chooses the first copy, or the one that the program has registered callbacks with. `other` is set
// if the program may use yet another copy, which rules out a collection.
LoadedCupti look_for_cupti() noexcept {
  const AllCopies all = find_cupti_copies();
  LoadedCupti loaded;
  loaded.other = all.count > 1 ? all.entries[1]->path : all.proton;
  if (all.count == 0) return loaded;
  Copy* chosen = all.entries[0];
  // Once the program has registered callbacks with one copy of libcupti, no other copy can be used.
  for (std::size_t i = 0; i < all.count; ++i) {
    if (!all.entries[i]->library.program_has_callbacks()) continue;
    chosen = all.entries[i];
    loaded.other = nullptr;
  }
  loaded.library = &chosen->library;
  return loaded;
}

void* symbol_of(const cupti::Library& library, const char* name) noexcept {
  return symbol_of(copy_of(library).symbols, name);
}

const char* path_of(const cupti::Library& library) noexcept { return copy_of(library).path; }

namespace {

// Forgets, in a forked child, the use of libcupti that the copies have noted: it is the parent's.
void reset_cupti_libraries() noexcept {
  copies.lock.free_in_child();
  for (std::size_t i = 0; i < copies.count; ++i) copies.entries[i].library.reset();
}

// --- The collection.

using namespace cupti;

constinit std::atomic<pid_t> owner_process = 0;

// The state of a late start of the collection: the process had no libcupti when it initialised
// CUDA, and may load one later.
enum class LateStart { kNone, kMayCome, kGoesOn };
constinit std::atomic<LateStart> late_start = LateStart::kNone;
constinit std::atomic<pid_t> started_in = 0;

// The user's request for CUPTI's records (GPUMEMTRACE_CUPTI); `why_off` is the reason if the user
// requests none.
struct Request {
  Plan plan;
  const char* why_off = nullptr;
};

Request read_request() noexcept {
  Request request;
  const std::string_view value = environment("GPUMEMTRACE_CUPTI");
  if (value == "full" || value == "full,kernels") {
    request.plan.mode = trace::ActivityMode::kFull;
    request.plan.kernels = value != "full";
  } else if (value == "off") {
    request.why_off = "switched off (--cupti off)";
  } else if (value != "copies") {
    request.why_off = "not asked for (--cupti copies)";
  }
  if (request.why_off != nullptr && !value.empty() && value != "off") {
    message(Line() << "GPUMEMTRACE_CUPTI=" << value
                   << " is none of off, copies, full and full,kernels; using off.");
  }
  return request;
}

// Opens the libcupti that the user names, if any. Called if the process has loaded none.
void open_named_library() noexcept {
  const std::string_view path = environment("GPUMEMTRACE_CUPTI_LIBRARY");
  if (path.empty()) return;
  Line file;
  file << path;
  if (libc_dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL) != nullptr) return;
  const char* const reason = libc_dlerror();
  message(Line() << "GPUMEMTRACE_CUPTI_LIBRARY cannot be loaded: "
                 << (reason == nullptr ? "" : reason) << ". CUPTI's records are not collected.");
}

// --- The functions of the recorder that cupti/ calls.

std::uint64_t read_ticks() { return ticks(); }

// Writes one of CUPTI's records. Takes no chunk of the ring's reserve: if the ring is short,
// CUPTI's records are dropped first.
bool write_activity(const void* record, std::size_t bytes, const char* tail,
                    std::size_t tail_bytes) {
  const ThreadState& state = thread_state;
  const auto left = static_cast<std::size_t>(state.end - state.cursor);
  const bool needs_chunk = left < bytes + tail_bytes + trace::kWordBytes;
  if ((needs_chunk || state.chunk_is_reserved) && the_session().ring.is_short()) return false;
  return write_bytes(record, bytes, tail, tail_bytes);
}

// CUPTI may complete buffers before there is a session; these are not kept and wake no thread.
void wake() {
  if (session_exists()) background_wake.wake();
}

}  // namespace

constexpr Recorder kCuptiRecorder = {read_ticks, write_activity, wake};

namespace {

void start_through(Library& library, const Plan& plan) noexcept {
  // Keeps libcupti loaded: our thread calls it from now on, and the program may close it.
  if (libc_dlopen(path_of(library), RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE) == nullptr) {
    libc_dlerror();  // clears the error, for the program's dlerror()
  }
  static_cast<void>(
      the_collection().start(library, plan, kCuptiRecorder));  // the collection keeps the reason
}

void start_collection() noexcept {
  (void)notice_cupti_fork();
  Collection& collection = the_collection();
  const Request request = read_request();
  if (request.why_off != nullptr) return collection.stay_off(request.why_off, nullptr);
  LoadedCupti loaded = look_for_cupti();
  if (loaded.library == nullptr && loaded.other == nullptr) {
    open_named_library();
    loaded = look_for_cupti();
  }
  if (loaded.other != nullptr) {
    return collection.stay_off("another copy of CUPTI may be used by", loaded.other);
  }
  if (loaded.library == nullptr) {
    // If a tool (nsys, say) is injected into CUDA, a libcupti that comes later may be the tool's.
    if (environment("CUDA_INJECTION64_PATH").empty()) late_start.store(LateStart::kMayCome);
    return collection.stay_off("the process had not loaded libcupti when it initialised CUDA",
                               nullptr);
  }
  start_through(*loaded.library, request.plan);
}

// Starts the collection when a profiler in the program, which has loaded a libcupti late, first
// calls it. The program's other threads wait in their calls of CUPTI, so that none registers
// callbacks of its own meanwhile; the wait has a limit, because they may hold a lock that CUPTI
// waits for. The starting thread never waits here: CUPTI may call it back.
void start_late(Library& library) noexcept {
  static constinit std::atomic<pthread_t> starting_thread = 0;
  const ErrnoKeeper errno_keeper;
  LateStart expected = LateStart::kMayCome;
  if (late_start.compare_exchange_strong(expected, LateStart::kGoesOn)) {
    starting_thread.store(pthread_self());
    Plan plan = read_request().plan;
    plan.is_late = true;
    start_through(library, plan);
    late_start.store(LateStart::kNone);
    starting_thread.store(0);
  }
  const auto is_over = [] {
    return late_start.load() != LateStart::kGoesOn || starting_thread.load() == pthread_self();
  };
  wait_until(is_over, 10'000, 100);
}

}  // namespace

bool notice_cupti_fork() noexcept {
  const pid_t process = getpid();
  const pid_t before = owner_process.exchange(process);
  if (before == 0 || before == process) return false;
  late_start.store(LateStart::kNone);
  the_collection().reset();
  reset_cupti_libraries();
  return true;
}

void program_calls_cupti(Library& library) noexcept {
  (void)notice_cupti_fork();
  if (late_start.load() != LateStart::kNone) start_late(library);
}

void start_cupti_collection() noexcept {
  const pid_t process = getpid();
  if (started_in.exchange(process) == process) return;
  const ErrnoKeeper errno_keeper;
  start_collection();
}

void begin_reading_cupti() noexcept {
  if (notice_cupti_fork()) {
    the_collection().stay_off("CUDA was initialised before this process was forked", nullptr);
  }
  the_collection().set_reading(true);
}

}  // namespace gpumemtrace::preload
