// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <charconv>
#include <new>

#include "preload/base/clock.hpp"
#include "preload/base/file_thread.hpp"
#include "preload/base/map_zeros.hpp"
#include "preload/base/message.hpp"
#include "preload/base/realtime_error.hpp"
#include "preload/driver/apis.hpp"
#include "preload/driver/driver.hpp"
#include "preload/driver/tracking.hpp"
#include "preload/loader/loaded_module.hpp"
#include "preload/loader/own_thread.hpp"
#include "preload/python/python_interpreter.hpp"
#include "preload/ring/control.hpp"
#include "preload/session/annotations.hpp"
#include "preload/session/content_hash.hpp"
#include "preload/session/lifecycle.hpp"
#include "preload/session/sampler.hpp"
#include "preload/session/session.hpp"
#include "preload/stacks/module_list.hpp"
#include "preload/stacks/stacks.hpp"
#include "trace/schema.hpp"

namespace gpumemtrace::preload {
namespace {

// --- The first records of every trace.

constexpr std::size_t kMaxTailBytes = 1600;

// Collects records in the memory `out` instead of the ring.
class RecordBuffer {
 public:
  explicit RecordBuffer(std::span<std::byte> out) noexcept : out_(out) {}

  template <class Record>
  void add(Record record, std::string_view tail = {}) noexcept {
    if (tail.size() > kMaxTailBytes) tail = slice(tail, 0, kMaxTailBytes);
    const std::size_t padded =
        (tail.size() + trace::kWordBytes - 1) / trace::kWordBytes * trace::kWordBytes;
    const std::size_t bytes = sizeof(Record) + padded;
    if (out_.size() - used_ < bytes) return;
    record.record.kind = trace::kind_of<Record>();
    record.record.words = static_cast<std::uint8_t>(bytes / trace::kWordBytes);
    record.record.time = ticks();
    std::byte* at = out_.data() + used_;
    memset(at + sizeof record, 0, padded);
    memcpy(at, &record, sizeof record);
    if (!tail.empty()) memcpy(at + sizeof record, tail.data(), tail.size());
    used_ += bytes;
  }

  // Splits a long text into several records, whose `part` counts from 0.
  void add_text(trace::TextKey key, std::string_view text) noexcept {
    std::uint32_t part = 0;
    do {
      trace::Text record;
      record.key = key;
      record.part = part++;
      add(record, slice(text, 0, kMaxTailBytes));
      text.remove_prefix(text.size() < kMaxTailBytes ? text.size() : kMaxTailBytes);
    } while (!text.empty());
  }

  std::span<const std::byte> records() const noexcept { return out_.first(used_); }

 private:
  std::span<std::byte> out_;
  std::size_t used_ = 0;
};

void add_number(RecordBuffer& buffer, trace::TextKey key, std::uint64_t number) noexcept {
  char digits[20];
  const char* const end = std::to_chars(digits, digits + sizeof digits, number).ptr;
  buffer.add_text(key, {digits, static_cast<std::size_t>(end - digits)});
}

// The allocator backend that PyTorch's settings name; empty if they name none.
std::string_view torch_backend() noexcept {
  constexpr std::string_view kKey = "backend:";
  for (const std::string_view name : {"PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"}) {
    const std::string_view settings = environment(name);
    const std::size_t found = settings.find(kKey);
    if (found == settings.npos) continue;
    const std::string_view value = slice(settings, found + kKey.size());
    return slice(value, 0, value.find(','));
  }
  return {};
}

void add_process_facts(RecordBuffer& buffer, const JobFacts& job) noexcept {
  using trace::TextKey;
  static char text[trace::kMaxCommandLineBytes];
  buffer.add_text(TextKey::kToolVersion, GPUMEMTRACE_VERSION);
  add_number(buffer, TextKey::kProcessId, static_cast<std::uint64_t>(getpid()));
  add_number(buffer, TextKey::kParentProcessId, static_cast<std::uint64_t>(getppid()));
  buffer.add_text(TextKey::kExecutable, executable_path());
  std::size_t size = read_small_file("/proc/self/cmdline", text, sizeof text);
  buffer.add_text(TextKey::kCommandLine, {text, size});
  buffer.add_text(TextKey::kHost, host_name());
  size = read_small_file("/proc/sys/kernel/random/boot_id", text, sizeof text);
  while (size > 0 && text[size - 1] == '\n') --size;
  buffer.add_text(TextKey::kBootId, {text, size});
  buffer.add_text(TextKey::kClockSource, counter_is_invariant ? "counter" : "monotonic");
  const std::pair<TextKey, std::string_view> optional[] = {
      {TextKey::kRank, job.rank},
      {TextKey::kLocalRank, job.local_rank},
      {TextKey::kWorldSize, job.world_size},
      {TextKey::kJob, job.job},
      {TextKey::kAttempt, job.attempt},
      {TextKey::kRun, job.run},
      {TextKey::kRestart, job.restart},
      {TextKey::kArray, job.array},
      {TextKey::kTask, job.task},
      {TextKey::kTorchAllocator, torch_backend()},
      {TextKey::kTorchCudaAllocConf, environment("PYTORCH_CUDA_ALLOC_CONF")},
      {TextKey::kTorchAllocConf, environment("PYTORCH_ALLOC_CONF")}};
  for (const auto& [key, value] : optional) {
    if (!value.empty()) buffer.add_text(key, value);
  }
  if (const std::string_view options = last_allocator_options(); options.data() != nullptr) {
    buffer.add_text(TextKey::kTorchAllocatorOptions, options);
  }
  if (!file_thread::has_own_descriptors()) {
    buffer.add_text(TextKey::kNote,
                    "The system gave the recorder no descriptors of its own: a program that closes "
                    "descriptors which are not its own ends the recording.");
  }
}

// Both clocks are read between two readings of the ticks, whose distance is the uncertainty.
void add_clock(RecordBuffer& buffer) noexcept {
  trace::Clock clock;
  ask_realtime_error(clock);
  const std::uint64_t before = ticks();
  clock.monotonic_ns = clock_ns(CLOCK_MONOTONIC);
  clock.realtime_ns = clock_ns(CLOCK_REALTIME);
  clock.uncertainty_ticks = ticks() - before;
  buffer.add(clock);
}

// The tail of a wrapped function's record has the driver's symbol, a zero byte and the name of the
// CUDA runtime's function.
void add_apis(RecordBuffer& buffer) noexcept {
  for (std::size_t i = 1; i < kApiCount; ++i) {
    const ApiInfo& api = apis()[i];
    char names[160] = {};
    std::size_t size = strlen(api.symbol);
    memcpy(names, api.symbol, size + 1);
    const std::size_t runtime = strlen(api.runtime_name);
    memcpy(names + size + 1, api.runtime_name, runtime);
    trace::ApiName record;
    record.id = static_cast<std::uint32_t>(i);
    record.record_kind = static_cast<std::uint32_t>(api.record);
    buffer.add(record, {names, size + 1 + runtime});
  }
}

void add_contexts(RecordBuffer& buffer) noexcept {
  const std::uint32_t count = tracking::context_count();
  for (std::uint32_t number = 1; number <= count; ++number) {
    const trace::ContextId id{number};
    const tracking::ContextInfo info = tracking::context_info(id);
    if (info.handle == 0) continue;  // the thread that is still adding this context writes it
    trace::Context record;
    record.id = id;
    record.handle = info.handle;
    record.device = info.device;
    record.primary = info.primary ? 1 : 0;
    buffer.add(record);
  }
}

// Packs texts about the process, the names of all wrapped functions and the contexts that exist
// into the new file, as the first span of writer 0. Returns 0 or an errno value.
int write_trace_metadata(Session& session) noexcept {
  void* const memory = map_zeros(trace::kMaxChunkBytes);
  if (memory == nullptr) return ENOMEM;
  RecordBuffer buffer(std::span(static_cast<std::byte*>(memory), trace::kMaxChunkBytes));
  add_clock(buffer);
  add_process_facts(buffer, session.job);
  add_apis(buffer);
  add_contexts(buffer);
  if (session.config.start_paused) {
    trace::Mark stopped;
    stopped.mark = trace::MarkKind::kStopped;
    buffer.add(stopped);
  }
  const int error = session.writer.append(0, 0, 0, buffer.records());
  munmap(memory, trace::kMaxChunkBytes);
  return error;
}

// --- The files.

trace::TraceId random_id() noexcept {
  trace::TraceId id;
  if (syscall(SYS_getrandom, &id, sizeof id, 0) != static_cast<long>(sizeof id)) {
    id = {clock_ns(CLOCK_REALTIME),
          (clock_ns(CLOCK_MONOTONIC) << 20) ^ static_cast<std::uint64_t>(getpid())};
  }
  return id;
}

// Removes the unfinished file of a checkpoint that a killed process left behind.
void unlink_replacement(Line& path) noexcept {
  const std::size_t size = path.size();
  path << ".tmp";
  unlink(path.c_str());
  path.truncate(size);
}

// Makes trace file and ring under the first free name: NAME.gmt, NAME.2.gmt, ...
int create_files(Session& session) noexcept {
  constexpr std::string_view kExtension = ".gmt";
  Line& path = session.path;
  Line& ring_path = session.ring_path;
  constexpr std::size_t kLongestPath = Line::kCapacity - 64;  // room for a number and endings
  if (path.size() > kLongestPath) {
    path.truncate(200);  // the message shows at most 200 bytes of the path
    return ENAMETOOLONG;
  }
  make_folders(path.c_str());
  const trace::TraceId id = random_id();
  const std::size_t stem = path.size() - kExtension.size();
  for (std::uint64_t number = 1; number < 10'000; ++number) {
    ring_path.truncate(0);
    ring_path << path.text() << ".ring";
    if (session.config.force && !is_locked_by_another(ring_path.c_str())) {
      unlink(path.c_str());
      unlink(ring_path.c_str());
    }
    int error = session.writer.create(path.c_str(), id);
    if (error == EEXIST) {
      path.truncate(stem);
      path << "." << (number + 1) << kExtension;
      continue;
    }
    if (error != 0) return error;
    // Removes the ring and the checkpoint's file that a deleted trace may have left behind.
    unlink(ring_path.c_str());
    unlink_replacement(path);
    error = session.ring.create(ring_path.c_str(), id, session.config.ring_bytes);
    if (error != 0) session.writer.discard(path.c_str());
    return error;
  }
  return EEXIST;
}

// Removes the files of a recording that cannot begin.
void discard_files(Session& session) noexcept {
  session.ring.discard(session.ring_path.c_str());
  session.writer.discard(session.path.c_str());
}

int begin_trace(Session& session) noexcept {
  int error = create_files(session);
  if (error != 0) return error;
  error = write_trace_metadata(session);
  if (error != 0) discard_files(session);
  return error;
}

// Not inlined: the message's buffers must not lie on the stack of the thread that starts a session.
[[gnu::noinline]] void warn_unwritable_trace(const Session& session, int error) noexcept {
  message(Line() << "cannot write the trace " << session.path.text() << ": " << errno_text(error)
                 << " (errno " << static_cast<std::uint64_t>(error) << "). "
                 << (error == ENOMEM
                         ? "Make the ring smaller with --ring-size."
                         : "Choose another place with --output or GPUMEMTRACE_OUTPUT."));
}

void say_no_thread() noexcept {
  warn_not_recording("the system allows no further thread, or has no memory for one");
}

// --- The session.

// The part of a session's start that the program's thread does, because it may hold locks for which
// another thread would wait: the loader's, and those of the program's environment and memory
// functions.
bool prepare_session(Session& session, RequestedState requested) noexcept {
  writer_pool = &session.pool;
  session.config = read_config();
  if (requested != RequestedState::kNone) {
    session.config.start_paused = requested == RequestedState::kPause;
  }
  session.pool.on_full = session.config.on_full;
  session.job = read_job_facts();
  expand_output_path(session.config.output_pattern, session.job, session.path);
  session.modules.find_list();
  choose_module_lookup();  // hooks look modules up also without native stacks
  load_sampler();
  if (!make_thread_end_key()) {
    warn_not_recording("the process has no thread-specific key left");
    return false;
  }
  return true;
}

// Makes the session's files and empties its tables; false, and a message, if that fails.
bool make_session(Session& session) noexcept {
  choose_clock();
  forget_modules();
  (void)session.modules.refresh();
  publish_modules(session.modules);
  python::refresh(session.modules);
  reset_names();
  if (!session.pool.map_writers()) {
    warn_not_recording("there is no memory for the recorder");
    return false;
  }
  if (const int error = begin_trace(session); error != 0) {
    warn_unwritable_trace(session, error);
    return false;
  }
  session.pool.session_id = kFirstSessionId + static_cast<std::uint32_t>(getpid());
  session.pool.writers[0].next_sequence = 1;  // write_trace_metadata() uses 0
  reset_stacks(session.config);
  set_content_hashing(session.config);
  return true;
}

// The part of a session's start that the background thread does.
bool finish_session() noexcept {
  const bool is_running = file_thread::wait_until_ready();
  if (!is_running) say_no_thread();
  const bool is_made = is_running && make_session(the_session());
  if (!is_made) {
    file_thread::stop();
    the_session().pool.is_emptied.store(false);
  }
  return is_made;
}

}  // namespace

// Not inlined: the message's buffer must not lie on the stack of a thread of the program.
[[gnu::noinline]] void warn_not_recording(const char* reason) noexcept {
  message(Line() << "not recording: " << reason << ".");
}

// Does the calling thread's part, then starts the file thread and the background thread, which does
// the rest.
bool start_session(RequestedState requested) noexcept {
  auto* session = new (&the_session()) Session;
  file_thread::prepare();
  if (!prepare_session(*session, requested)) return false;
  if (start_own_thread(file_thread::main)) {
    if (start_background_thread(finish_session)) return true;
    file_thread::stop();
  }
  say_no_thread();
  return false;
}

}  // namespace gpumemtrace::preload
