// SPDX-License-Identifier: Apache-2.0
#include "preload/session/trace_metadata.hpp"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <charconv>

#include "preload/base/clock.hpp"
#include "preload/base/file_thread.hpp"
#include "preload/base/map_zeros.hpp"
#include "preload/driver/apis.hpp"
#include "preload/driver/driver.hpp"
#include "preload/driver/tracking.hpp"
#include "preload/session/allocator_options.hpp"
#include "preload/session/session_state.hpp"
#include "trace/run_texts.hpp"
#include "trace/schema.hpp"

namespace gpumemtrace::preload {
namespace {

constexpr std::size_t kMaxTailBytes = 1600;

// Collects records in memory of its own.
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

  // Long texts come in several records of increasing part.
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

// The allocator backend that PyTorch's settings name; empty where they name none.
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
      {trace::kAttemptText, job.attempt},
      {trace::kRunText, job.run},
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

void add_clock(RecordBuffer& buffer) noexcept {
  trace::Clock clock;
  const std::uint64_t before = ticks();
  clock.monotonic_ns = clock_ns(CLOCK_MONOTONIC);
  clock.realtime_ns = clock_ns(CLOCK_REALTIME);
  clock.uncertainty_ticks = ticks() - before;
  buffer.add(clock);
}

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
    if (info.handle == 0) continue;  // the thread that adds it writes its record
    trace::Context record;
    record.id = id;
    record.handle = info.handle;
    record.device = info.device;
    record.primary = info.primary ? 1 : 0;
    buffer.add(record);
  }
}

}  // namespace

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

}  // namespace gpumemtrace::preload
