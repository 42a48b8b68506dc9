// SPDX-License-Identifier: Apache-2.0
#include "bench/ring_view.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <stdexcept>
#include <string>
#include <thread>

namespace gpumemtrace::bench {
namespace {

// Larger than any ring; pages past the end of the file are never read.
constexpr std::size_t kMappedBytes = std::size_t{32} << 30;

}  // namespace

RingView::RingView(const std::filesystem::path& path)
    : descriptor_(open(path.c_str(), O_RDONLY | O_CLOEXEC)), mapped_bytes_(kMappedBytes) {
  if (descriptor_ < 0) {
    throw std::runtime_error("the recorder made no ring " + path.string() +
                             ": is libgpumemtrace.so preloaded?");
  }
  void* mapped =
      mmap(nullptr, mapped_bytes_, PROT_READ, MAP_SHARED | MAP_NORESERVE, descriptor_, 0);
  if (mapped == MAP_FAILED) throw std::runtime_error("the ring cannot be mapped");
  base_ = static_cast<const std::byte*>(mapped);
}

RingView::~RingView() {
  if (base_ != nullptr) munmap(const_cast<std::byte*>(base_), mapped_bytes_);
  close(descriptor_);
}

const trace::RingHeader& RingView::header() const {
  return *reinterpret_cast<const trace::RingHeader*>(base_);
}

bool RingView::any_sealed() const {
  // While the ring grows, `used_bytes` is already larger than the file, and memory past the end of
  // the file cannot be read.
  struct stat facts = {};
  if (fstat(descriptor_, &facts) != 0) return false;
  const std::uint64_t used = std::min(used_bytes(), static_cast<std::uint64_t>(facts.st_size));
  for (std::uint64_t offset = trace::kRingHeaderBytes; offset < used;) {
    const auto& chunk = *reinterpret_cast<const trace::ChunkHeader*>(base_ + offset);
    if (chunk.magic != trace::kChunkMagic || chunk.bytes == 0) return false;
    // Acquire: pairs with the recorder's store of the state that seals or recycles the chunk.
    if (chunk.state.load(std::memory_order_acquire) == trace::ChunkState::kSealed) return true;
    offset += chunk.bytes;
  }
  return false;
}

void RingView::wait_until_packed() const {
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (any_sealed()) {
    if (std::chrono::steady_clock::now() > give_up) {
      throw std::runtime_error("the recorder has not packed its chunks for ten seconds");
    }
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
}

std::uint64_t RingView::dropped() const {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < static_cast<std::size_t>(trace::DropClass::kCount); ++i) {
    sum += trace::dropped_records(header(), static_cast<trace::DropClass>(i));
  }
  return sum;
}

std::uint64_t RingView::used_bytes() const { return header().used_bytes.load(); }

}  // namespace gpumemtrace::bench
