// SPDX-License-Identifier: Apache-2.0
#include "preload/ring/ring.hpp"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <new>

#include "preload/base/file_thread.hpp"
#include "preload/base/map_zeros.hpp"
#include "preload/base/wait.hpp"

namespace gpumemtrace::preload {
namespace {

constexpr std::size_t kPageBytes = 4096;

constexpr std::uint32_t chunk_bytes(std::uint32_t size_class) noexcept {
  return static_cast<std::uint32_t>(trace::kMinChunkBytes) << size_class;
}
static_assert(chunk_bytes(Ring::kSizeClasses - 1) == trace::kMaxChunkBytes);

constexpr std::uint32_t class_of(std::uint32_t bytes) noexcept {
  constexpr auto kSmallest = static_cast<std::uint32_t>(trace::kMinChunkBytes);
  return static_cast<std::uint32_t>(__builtin_ctz(bytes / kSmallest));
}

// Free chunks that the background thread keeps ready, by size class: enough for threads that start
// together, and for the bytes that one thread writes between two rounds of the background thread.
constexpr std::int32_t kReserve[Ring::kSizeClasses] = {16, 4, 4, 4, 4, 4, 6};

// The number and length of a thread's waits while the ring does not grow, half a second together. A
// busy machine may leave the file thread without a processor for tens of milliseconds, and a slow
// disk takes as long. The first waits are short, because other threads give chunks back; the later
// ones are long, because a thousand threads that look each millisecond take the file thread's
// processor. After such waits in vain, no thread waits until the ring grows again.
constexpr int kGrowthTries = 35;
constexpr long kFirstWaitNs = 1'000'000;
constexpr long kLastWaitNs = 16'000'000;

}  // namespace

int Ring::create(const char* path, const trace::TraceId& id, std::uint64_t capacity) noexcept {
  capacity_ = trace::kRingHeaderBytes + capacity / trace::kMaxChunkBytes * trace::kMaxChunkBytes;
  return file_thread::run([&]() noexcept {
    if (const int error = file_.create(path); error != 0) return error;
    const int error = map_file(id);
    if (error != 0) discard(path);
    file_thread::serve([](void* ring) noexcept { static_cast<Ring*>(ring)->grow_as_wanted(); },
                       this);
    return error;
  });
}

// The mapping is removed, too: it would keep the disk space of the unlinked file.
void Ring::discard(const char* path) noexcept {
  if (base_ != nullptr) munmap(base_, capacity_);
  base_ = nullptr;
  header_ = nullptr;
  file_.close();
  unlink(path);
}

int Ring::map_file(const trace::TraceId& id) noexcept {
  if (const int error = file_.allocate(0, trace::kRingHeaderBytes); error != 0) return error;
  // The whole capacity is mapped at once; pages past the end of the file are never touched.
  int error = 0;
  base_ = static_cast<std::byte*>(file_.map(capacity_, error));
  if (base_ == nullptr) return error;
  links_ = static_cast<std::atomic<std::uint32_t>*>(
      map_zeros(capacity_ / trace::kMinChunkBytes * sizeof *links_));
  if (links_ == nullptr) return errno;
  header_ = new (base_) trace::RingHeader;
  header_->id = id;
  header_->process_id = static_cast<std::uint32_t>(getpid());
  // A lock is not inherited by fork and ends with the process: it shows that the trace is still
  // being written.
  file_.lock();
  return grow(0) && fill_reserve() ? 0 : growth_error();
}

trace::ChunkHeader* Ring::chunk(std::uint32_t index) const noexcept {
  return reinterpret_cast<trace::ChunkHeader*>(base_ + std::uint64_t{index} * kPageBytes);
}

std::uint32_t Ring::index_of(const trace::ChunkHeader* chunk) const noexcept {
  return static_cast<std::uint32_t>(
      static_cast<std::uint64_t>(reinterpret_cast<const std::byte*>(chunk) - base_) / kPageBytes);
}

bool Ring::grow(std::uint32_t size_class) noexcept {
  if (growth_error() != 0 || is_at_capacity()) return false;
  const std::uint64_t offset = header_->used_bytes.load();
  if (const int error = file_.allocate(offset, trace::kMaxChunkBytes); error != 0) {
    growth_error_.store(error, std::memory_order_relaxed);  // a hint that orders no other data
    return false;
  }
  // Touches the new pages here, so that traced threads need not wait for the kernel to map them.
  for (std::size_t page = 0; page < trace::kMaxChunkBytes; page += kPageBytes) {
    *reinterpret_cast<volatile std::byte*>(base_ + offset + page) = std::byte{0};
  }
  const std::uint32_t bytes = chunk_bytes(size_class);
  for (std::size_t at = 0; at < trace::kMaxChunkBytes; at += bytes) {
    (new (base_ + offset + at) trace::ChunkHeader)->bytes = bytes;
  }
  // Stored before a thread can have one of the new chunks: the reader of a killed process's file
  // looks no further than `used_bytes`. Release: pairs with for_each_chunk().
  // mutant: growth_without_release, growth_not_told
  header_->used_bytes.store(offset + trace::kMaxChunkBytes, std::memory_order_release);
  for (std::size_t at = 0; at < trace::kMaxChunkBytes; at += bytes) {
    auto* const chunk = reinterpret_cast<trace::ChunkHeader*>(base_ + offset + at);
    free_[size_class].push(index_of(chunk), links_);
  }
  return true;
}

void Ring::grow_as_wanted() noexcept {
  for (std::uint32_t size_class = 0; size_class < kSizeClasses; ++size_class) {
    // If the ring could not grow, growth_error() has the reason.
    if (wanted_[size_class].exchange(false)) static_cast<void>(grow(size_class));
  }
  growths_.fetch_add(1);
  wake_all(growths_);
}

// Waits until a chunk of this size class is free; kNoIndex if the ring cannot grow or does not grow
// in time. The wait uses static memory only, which the file thread knows, and nothing on the stack:
// a signal handler may jump out of this function.
std::uint32_t Ring::wait_for_growth(std::uint32_t size_class) noexcept {
  std::uint32_t growths_seen = growths_.load();
  for (int tries = 0;; ++tries) {
    const std::uint32_t growths = growths_.load();
    // The ring grew, but other threads took the new chunks.
    if (growths != growths_seen) tries = 0;
    growths_seen = growths;
    const bool can_grow = growth_error() == 0 && !is_at_capacity();
    const std::uint32_t index = free_[size_class].pop(links_);
    if (index != kNoIndex || !can_grow) return index;
    wanted_[size_class].store(true);  // mutant: growth_not_wanted
    file_thread::request();
    // Both accesses are relaxed: `given_up_` is a hint that orders no other data.
    if (tries == kGrowthTries) given_up_.store(growths, std::memory_order_relaxed);
    if (given_up_.load(std::memory_order_relaxed) == growths) return kNoIndex;
    const long wait_ns = std::min(kLastWaitNs, kFirstWaitNs << std::min(tries, 8));
    wait_for_change(growths_, growths, wait_ns, wait_ns / 10);
  }
}

bool Ring::is_at_capacity() const noexcept {
  // Relaxed: the ring's size only grows, and only the file thread writes it; a thread that reads an
  // old size asks for growth once more.
  return header_->used_bytes.load(std::memory_order_relaxed) + trace::kMaxChunkBytes > capacity_;
}

bool Ring::is_short() const noexcept {
  if (!is_at_capacity()) return false;
  std::uint64_t free_bytes = 0;
  for (std::uint32_t c = 0; c < kSizeClasses; ++c) {
    const std::int32_t count = free_[c].count();
    if (count > 0) free_bytes += static_cast<std::uint64_t>(count) * chunk_bytes(c);
  }
  return free_bytes < capacity_ / 8;
}

// Waits for the ring to grow before it takes a chunk of another size class.
trace::ChunkHeader* Ring::take(std::uint32_t size_class, bool important) noexcept {
  const auto try_all = [&]() noexcept {
    std::uint32_t index = free_[size_class].pop(links_);
    for (std::uint32_t smaller = size_class; index == kNoIndex && smaller-- > 0;) {
      index = free_[smaller].pop(links_);
    }
    for (std::uint32_t larger = size_class + 1; index == kNoIndex && larger < kSizeClasses;
         ++larger) {
      index = free_[larger].pop(links_);
    }
    return index;
  };
  if (!important && is_short()) return nullptr;
  std::uint32_t index = free_[size_class].pop(links_);
  if (index == kNoIndex) index = wait_for_growth(size_class);
  if (index == kNoIndex) index = try_all();
  if (index == kNoIndex) return nullptr;
  return chunk(index);
}

void Ring::seal(trace::ChunkHeader* chunk) noexcept {
  // Release: pairs with the reader of a killed process's file and with the background thread.
  chunk->state.store(trace::ChunkState::kSealed, std::memory_order_release);
  sealed_.push(index_of(chunk), links_);
}

void Ring::recycle(trace::ChunkHeader* chunk) noexcept {
  // Release: pairs with the reader of a killed process's file and with walks over the chunks.
  chunk->state.store(trace::ChunkState::kFree, std::memory_order_release);
  free_[class_of(chunk->bytes)].push(index_of(chunk), links_);
}

void Ring::release_free_chunks() noexcept {
  growth_error_.store(ECANCELED, std::memory_order_relaxed);  // a hint that orders no other data
  file_thread::run([this]() noexcept {
    for (std::uint32_t size_class = 1; size_class < kSizeClasses; ++size_class) {
      for (std::uint32_t index = free_[size_class].pop(links_); index != kNoIndex;
           index = free_[size_class].pop(links_)) {
        // The chunk's first page stays: it holds the header, which readers walk over.
        file_.release((std::uint64_t{index} + 1) * kPageBytes,
                      chunk_bytes(size_class) - kPageBytes);
      }
    }
  });
}

bool Ring::is_reserve_low(std::uint32_t size_class) const noexcept {
  return free_[size_class].count() <= kReserve[size_class] / 2;
}

bool Ring::needs_round() const noexcept {
  if (!sealed_.has_any() && (is_at_capacity() || growth_error() != 0)) return false;
  for (std::uint32_t size_class = 0; size_class < kSizeClasses; ++size_class) {
    if (is_reserve_low(size_class)) return true;
  }
  return false;
}

bool Ring::replenish() noexcept {
  return has_reserve() || file_thread::run([this]() noexcept { return fill_reserve(); });
}

bool Ring::has_reserve() const noexcept {
  for (std::uint32_t size_class = 0; size_class < kSizeClasses; ++size_class) {
    if (free_[size_class].count() < kReserve[size_class]) return is_at_capacity();
  }
  return true;
}

bool Ring::fill_reserve() noexcept {
  for (std::uint32_t size_class = 0; size_class < kSizeClasses; ++size_class) {
    while (free_[size_class].count() < kReserve[size_class]) {
      // A ring of the smallest size has no room for a reserve of every size class; take() then
      // returns chunks of another class.
      if (is_at_capacity()) return true;
      if (!grow(size_class)) return false;
    }
  }
  return true;
}

}  // namespace gpumemtrace::preload
