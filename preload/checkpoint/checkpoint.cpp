// SPDX-License-Identifier: Apache-2.0
#include "preload/checkpoint/checkpoint.hpp"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include <algorithm>

#include "preload/base/clock.hpp"
#include "preload/base/file_thread.hpp"
#include "preload/base/map_zeros.hpp"
#include "preload/base/message.hpp"
#include "preload/checkpoint/compaction.hpp"
#include "preload/checkpoint/packed_streams.hpp"
#include "trace/order.hpp"

namespace gpumemtrace::preload {
namespace {

constexpr std::uint64_t kKeepUpEveryNs = 1'000'000;
// the most that copy_newest_blocks() copies in one step
constexpr std::uint64_t kCopyBytes = 1 << 20;
constexpr std::size_t kImageBytes = trace::kMaxChunkBytes / 2;

// Runs the steps that make a checkpoint, until there is an error or service_requests() returns
// false.
class Steps {
 public:
  explicit Steps(const CheckpointRequest& request) noexcept : request_(request) {}

  // True as long as there is no error and service_requests() returns true.
  [[nodiscard]] bool may_go_on() noexcept {
    if (error == 0 && !is_abandoned && !request_.service_requests(request_.owner)) {
      is_abandoned = true;
    }
    return !has_ended();
  }
  [[nodiscard]] bool has_ended() const noexcept { return error != 0 || is_abandoned; }

  // Makes the file thread repeat `step` until it returns false; service_requests is called in
  // between, on this thread. A request to the file thread for each step would cost more than the
  // step.
  template <class Step>
  void repeat(Step step) noexcept {
    bool has_more = true;
    while (has_more && may_go_on()) {
      file_thread::run([&]() noexcept {
        const std::uint64_t due_ns = clock_ns(CLOCK_MONOTONIC) + kKeepUpEveryNs;
        do {
          has_more = step() && error == 0;
          file_thread::serve_request();
        } while (has_more && clock_ns(CLOCK_MONOTONIC) < due_ns);
      });
    }
  }

  int error = 0;
  bool is_abandoned = false;

 private:
  const CheckpointRequest& request_;
};

// Compacts the oldest records.
class OldestPart {
 public:
  explicit OldestPart(Steps& steps) noexcept : steps_(steps) {}

  // Chooses the newest blocks to keep, as many as fit in keep_bytes, and so the cut: the time up to
  // which records are compacted. False if no record before the cut is left to compact.
  [[nodiscard]] bool choose_cut(const CheckpointRequest& request) noexcept {
    std::uint64_t compactable_bytes = 0;
    for (const PackedBlock& block : index.blocks()) {
      if (block.header.type == trace::BlockType::kRecords) compactable_bytes += block.file_bytes();
      if (block.header.type == trace::BlockType::kCheckpoint &&
          block.header.last_time > former_cut_ticks_) {
        former_cut_ticks_ = block.header.last_time;
      }
    }
    const std::uint64_t keep_bytes = std::min(request.keep_bytes, compactable_bytes / 2);
    std::uint64_t kept_bytes = 0;
    for (std::size_t i = index.blocks().size(); i-- > 0;) {
      const PackedBlock& block = index.blocks()[i];
      if (block.header.type != trace::BlockType::kRecords) continue;
      kept_bytes += block.file_bytes();
      cut_ticks_ = block.header.last_time;
      if (kept_bytes > keep_bytes) break;
    }
    if (cut_ticks_ >= request.limit_ticks) cut_ticks_ = request.limit_ticks - 1;
    return cut_ticks_ > former_cut_ticks_;
  }

  void compact(const OwnFile& file) noexcept {
    file_thread::run([&]() noexcept { steps_.error = streams.start(index, file, cut_ticks_); });
    steps_.repeat([this]() noexcept { return compact_block(); });
  }

  // A checkpoint is compacted as a whole or not at all.
  [[nodiscard]] bool former_checkpoint_is_compacted() noexcept {
    for (const PackedBlock& block : index.blocks()) {
      if (block.header.type == trace::BlockType::kCheckpoint && !block.is_compacted) return false;
    }
    return compacted_ticks > former_cut_ticks_;
  }

  PackedIndex index;
  PackedStreams streams;
  Compaction compaction;
  std::uint64_t compacted_ticks = 0;  // time of the last compacted record

 private:
  // Compacts records until one of the merged blocks is at its end. False if no record is left to
  // compact.
  bool compact_block() noexcept {
    for (bool at_block_end = false; steps_.error == 0 && !at_block_end;) {
      const trace::RecordHeader* record = streams.head();
      if (record == nullptr) return false;
      const std::uint64_t ticks = trace::ticks_of_key(streams.head_key());
      // The record allocates an address that is still live, and the missing free may be among the
      // records after the cut: so compaction ends before this record.
      if (ticks + trace::kReorderWindowTicks > cut_ticks_ && compaction.is_conflict(*record)) {
        return false;
      }
      compaction.add(*record, streams.head_writer(), ticks);
      compacted_ticks = ticks;
      at_block_end = streams.is_at_block_end();
      steps_.error = compaction.failed() ? ENOMEM : streams.advance();
    }
    return steps_.error == 0;
  }

  Steps& steps_;
  std::uint64_t cut_ticks_ = 0;
  std::uint64_t former_cut_ticks_ = 0;
};

// Writes the new file, which then takes the trace's place.
class Replacement {
 public:
  Replacement(TraceWriter& writer, OldestPart& compacted, Steps& steps) noexcept
      : writer_(writer), compacted_(compacted), steps_(steps) {}

  void write(const char* path, const char* trace_path) noexcept {
    steps_.error = writer_.begin_replacement(path);
    if (steps_.error != 0) return;
    write_checkpoint();
    file_thread::run([this]() noexcept {
      write_compacted_marks();
      write_split_blocks();
    });
    copy_kept_blocks();
    copy_newest_blocks();
    if (!steps_.has_ended()) steps_.error = writer_.finish_replacement(path, trace_path);
  }

 private:
  void write_checkpoint() noexcept {
    image_ = static_cast<std::byte*>(map_zeros(kImageBytes));
    if (image_ == nullptr) {
      steps_.error = ENOMEM;
      return;
    }
    const RecordSink sink{this, [](void* owner, const trace::RecordHeader& record) noexcept {
                            return static_cast<Replacement*>(owner)->take(record);
                          }};
    if (compacted_.compaction.write(compacted_.compacted_ticks, sink)) {
      flush_image();
    } else if (!steps_.has_ended()) {
      steps_.error = ENOMEM;
    }
    munmap(image_, kImageBytes);
  }

  bool take(const trace::RecordHeader& record) noexcept {
    const std::size_t bytes = record.words * trace::kWordBytes;
    if (bytes > kImageBytes - image_bytes_ && !flush_image()) return false;
    memcpy(image_ + image_bytes_, &record, bytes);
    image_bytes_ += bytes;
    return true;
  }

  bool flush_image() noexcept {
    if (image_bytes_ == 0) return true;
    steps_.error = writer_.append_to_replacement(trace::BlockType::kCheckpoint,
                                                 trace::kCheckpointWriter, checkpoint_blocks_++, 0,
                                                 std::span<const std::byte>(image_, image_bytes_));
    image_bytes_ = 0;
    return steps_.may_go_on();
  }

  // Writes for each writer where its compacted records end: a reader must not take these records
  // once more from chunks that still lie in the ring.
  void write_compacted_marks() noexcept {
    const PackedStreams& streams = compacted_.streams;
    for (const PackedStream& stream : streams.streams()) {
      if (steps_.has_ended()) return;
      const std::uint32_t writer = streams.writer_of(stream);
      if (writer == trace::kCheckpointWriter || !has_compacted(stream)) continue;
      const bool is_cut = is_split(stream);
      const trace::BlockHeader& block = streams.block_at(stream.next - (is_cut ? 0 : 1)).header;
      steps_.error = writer_.append_compacted(
          writer, block.sequence, is_cut ? block.begin_offset + stream.position : block.end_offset);
    }
    for (const PackedBlock& block : compacted_.index.blocks()) {
      if (steps_.has_ended()) return;
      // Marks of earlier checkpoints stay for writers that get no new one.
      const trace::BlockHeader& mark = block.header;
      if (mark.type != trace::BlockType::kCompacted || has_newer_mark(mark.writer)) continue;
      steps_.error = writer_.append_compacted(mark.writer, mark.sequence, mark.end_offset);
    }
  }

  bool has_newer_mark(std::uint32_t writer) noexcept {
    for (const PackedStream& stream : compacted_.streams.streams()) {
      if (compacted_.streams.writer_of(stream) == writer) return has_compacted(stream);
    }
    return false;
  }
  static bool is_split(const PackedStream& stream) noexcept {
    return stream.is_loaded && stream.position > 0;
  }
  static bool has_compacted(const PackedStream& stream) noexcept {
    return stream.next > stream.first || is_split(stream);
  }

  // Writes the records that are left of partly compacted blocks, as blocks of their own.
  void write_split_blocks() noexcept {
    PackedStreams& streams = compacted_.streams;
    for (const PackedStream& stream : streams.streams()) {
      if (steps_.has_ended()) return;
      if (!is_split(stream)) continue;
      const trace::BlockHeader& block = streams.block_at(stream.next).header;
      steps_.error = writer_.append_to_replacement(
          trace::BlockType::kRecords, block.writer, block.sequence,
          block.begin_offset + stream.position,
          std::span<const std::byte>(stream.image + stream.position,
                                     stream.image_bytes - stream.position));
      streams.mark_compacted(stream);
    }
  }

  void copy_kept_blocks() noexcept {
    std::size_t next = 0;
    steps_.repeat([&]() noexcept {
      if (next == compacted_.index.blocks().size()) return false;
      const PackedBlock& block = compacted_.index.blocks()[next++];
      if (block.header.type == trace::BlockType::kRecords && !block.is_compacted) {
        steps_.error = writer_.copy_to_replacement(block.offset, block.file_bytes());
      }
      return true;
    });
  }

  // Copies the blocks that service_requests has appended since the index was made.
  void copy_newest_blocks() noexcept {
    std::uint64_t copied = compacted_.index.end();
    steps_.repeat([&]() noexcept {
      const std::uint64_t bytes = std::min(writer_.bytes() - copied, kCopyBytes);
      if (bytes > 0) steps_.error = writer_.copy_to_replacement(copied, bytes);
      copied += bytes;
      return bytes > 0;
    });
  }

  TraceWriter& writer_;
  OldestPart& compacted_;
  Steps& steps_;
  std::byte* image_ = nullptr;
  std::size_t image_bytes_ = 0;
  std::uint32_t checkpoint_blocks_ = 0;
};

}  // namespace

CheckpointResult make_checkpoint(TraceWriter& writer, const CheckpointRequest& request,
                                 int& error) noexcept {
  Line replacement_path;
  replacement_path << request.path << ".tmp";
  Steps steps(request);
  OldestPart oldest(steps);
  steps.error = oldest.index.scan(writer.file(), sizeof(trace::FileHeader), writer.bytes());
  if (steps.error == 0 && !oldest.choose_cut(request)) return CheckpointResult::kNothingToCompact;
  if (steps.error == 0) oldest.compact(writer.file());
  const bool is_whole = !steps.has_ended();
  if (is_whole && !oldest.former_checkpoint_is_compacted())
    return CheckpointResult::kNothingToCompact;
  if (is_whole) Replacement(writer, oldest, steps).write(replacement_path.c_str(), request.path);
  error = steps.error;
  if (!steps.has_ended()) return CheckpointResult::kDone;
  writer.drop_replacement(replacement_path.c_str());
  return error != 0 ? CheckpointResult::kFailed : CheckpointResult::kAbandoned;
}

}  // namespace gpumemtrace::preload
