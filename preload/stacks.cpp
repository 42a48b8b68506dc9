#include "preload/stacks.hpp"

#include <string.h>
#include <sys/mman.h>

#include <atomic>
#include <cstddef>
#include <string_view>

#include "preload/python_frames.hpp"
#include "preload/recorder.hpp"
#include "preload/session_state.hpp"

namespace gpumemtrace::preload {
namespace {

constexpr std::size_t kStackSlots = std::size_t{1} << 20;
constexpr std::size_t kCodeSlots = std::size_t{1} << 18;
constexpr std::size_t kFrontSlots = std::size_t{1} << 12;
constexpr std::size_t kBucketSlots = 8;  // a cache line
constexpr std::size_t kMaxProbes = 64;
constexpr std::size_t kMaxTextBytes = 1024;
constexpr std::size_t kMaxPieceBytes = 1600;

// Zeros that are there when they are touched; nullptr where the system has no room.
void* map_zeros(std::size_t bytes) noexcept {
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return memory == MAP_FAILED ? nullptr : memory;
}

// Keys by open addressing; a slot is claimed once and never changes. In front of the table stands a
// small one of buckets: the few hundred stacks of a training step then lie in a few pages, which
// stay in the processor's caches between two events.
class KeyTable {
 public:
  bool map(std::size_t slots) noexcept {
    if (keys_ == nullptr) {
      keys_ = static_cast<std::atomic<std::uint64_t>*>(
          map_zeros((kFrontSlots + slots) * sizeof *keys_));
      slots_ = slots;
      return keys_ != nullptr;
    }
    madvise(keys_, (kFrontSlots + slots_) * sizeof *keys_, MADV_DONTNEED);  // zeros again
    return true;
  }

  // 1 + slot of the key; 0 where the neighbourhood is full. `added`: it was not there before.
  std::uint32_t intern(std::uint64_t key, bool& added) noexcept {
    key |= 1;  // 0 is an empty slot
    const std::uint64_t spread = key * 0x9e3779b97f4a7c15ull;
    const std::size_t bucket = (spread >> 32) % (kFrontSlots / kBucketSlots) * kBucketSlots;
    for (std::size_t probe = 0; probe < kBucketSlots; ++probe) {
      if (claim(bucket + probe, key, added)) return static_cast<std::uint32_t>(bucket + probe) + 1;
    }
    const std::size_t first = spread >> 20;
    for (std::size_t probe = 0; probe < kMaxProbes; ++probe) {
      const std::size_t slot = kFrontSlots + ((first + probe) & (slots_ - 1));
      if (claim(slot, key, added)) return static_cast<std::uint32_t>(slot) + 1;
    }
    return 0;
  }

 private:
  // True where the slot holds the key, now or since before.
  bool claim(std::size_t slot, std::uint64_t key, bool& added) noexcept {
    std::uint64_t present = keys_[slot].load(std::memory_order_relaxed);
    // Relaxed: the key is all there is; what it stands for is in the trace, not in memory.
    if (present == 0 &&
        keys_[slot].compare_exchange_strong(present, key, std::memory_order_relaxed)) {
      added = true;
      return true;
    }
    return present == key;
  }

  std::atomic<std::uint64_t>* keys_ = nullptr;
  std::size_t slots_ = 0;
};

constinit KeyTable stacks;
constinit KeyTable codes;
constinit python::Walk* walks = nullptr;  // by writer
constinit bool python_wanted = false;
constinit std::size_t depth_limit = 0;
constinit std::atomic<std::uint64_t> without_room = 0;

void write_code_text(std::uint32_t id, const python::Code& code, trace::CodeText text,
                     std::string_view content) noexcept {
  std::uint32_t part = 0;
  do {
    const std::size_t size = content.size() < kMaxPieceBytes ? content.size() : kMaxPieceBytes;
    trace::Code record;
    record.record.kind = trace::RecordKind::kCode;
    record.record.time = ticks();
    record.id = id;
    record.first_line = code.first_line;
    record.text = text;
    record.part = part++;
    record.bytes = static_cast<std::uint32_t>(size);
    write_record(&record, sizeof record, content.data(), size);
    content.remove_prefix(size);
  } while (!content.empty());
}

// The number of a code object; its texts go into the trace the first time.
std::uint32_t intern_code(const python::Frame& frame) noexcept {
  bool added = false;
  const std::uint64_t key =
      (reinterpret_cast<std::uintptr_t>(frame.code) << 8 ^ frame.version) * 0x9e3779b97f4a7c15ull;
  const std::uint32_t id = codes.intern(key, added);
  if (id == 0 || !added) return id;
  python::Code code;
  if (!python::read_code(frame.code, code)) return id;
  char text[kMaxTextBytes];
  std::size_t size = python::copy_text(code.qualified_name, text, sizeof text);
  write_code_text(id, code, trace::CodeText::kName, {text, size});
  size = python::copy_text(code.file, text, sizeof text);
  write_code_text(id, code, trace::CodeText::kFile, {text, size});
  write_code_text(id, code, trace::CodeText::kLineTable, python::bytes_of(code.line_table));
  return id;
}

void write_stack(std::uint32_t id, const python::Walk& walk) noexcept {
  python::Frame frames[python::kMaxFrames];
  const std::size_t count = python::copy_frames(walk, frames);
  std::uint64_t packed[python::kMaxFrames];
  for (std::size_t i = 0; i < count; ++i) {
    packed[i] = std::uint64_t{intern_code(frames[i])} << 32 | frames[i].instruction;
  }
  trace::Stack record;
  record.record.kind = trace::RecordKind::kStack;
  record.record.time = ticks();
  record.id = id;
  record.python_frames = static_cast<std::uint32_t>(count);
  record.python_version = python::version_hex();
  write_record(&record, sizeof record, reinterpret_cast<const char*>(packed),
               count * sizeof packed[0]);
}

}  // namespace

std::uint32_t current_stack(const CallGuard&) noexcept {
  if (!python_wanted || python::state() != python::State::kOn) return 0;
  python::Walk& walk = walks[thread_state.writer->id];
  const std::uint64_t hash = python::read_stack(depth_limit, walk);
  if (hash == 0) return 0;
  bool added = false;
  const std::uint32_t id = stacks.intern(hash, added);
  if (id == 0) [[unlikely]] {
    without_room.fetch_add(1, std::memory_order_relaxed);  // a counter, nothing is ordered by it
    return 0;
  }
  if (added) [[unlikely]]
    write_stack(id, walk);
  return id;
}

bool reset_stacks(bool python, std::uint32_t depth) noexcept {
  python_wanted = python;
  depth_limit = depth < python::kMaxFrames ? depth : python::kMaxFrames;
  without_room.store(0);
  if (!python) return true;
  if (walks == nullptr) {
    walks = static_cast<python::Walk*>(map_zeros(kMaxWriters * sizeof *walks));
  }
  return walks != nullptr && stacks.map(kStackSlots) && codes.map(kCodeSlots);
}

std::uint64_t stacks_without_room() noexcept { return without_room.load(); }

}  // namespace gpumemtrace::preload
