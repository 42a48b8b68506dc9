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
constexpr std::uint64_t kCopyBytes = 1 << 20;  // in one step
constexpr std::size_t kImageBytes = trace::kMaxChunkBytes / 2;

class CheckpointMaker {
 public:
  CheckpointMaker(TraceWriter& writer, const CheckpointRequest& request) noexcept
      : writer_(writer), request_(request) {
    replacement_path_ << request.path << ".tmp";
  }

  CheckpointResult run(int& error) noexcept {
    error_ = index_.scan(writer_.file(), sizeof(trace::FileHeader), writer_.bytes());
    if (error_ == 0 && !choose_cut()) return CheckpointResult::kNothingToCompact;
    if (error_ == 0) compact_all();
    const bool whole = error_ == 0 && !abandoned_;
    // A checkpoint is compacted as a whole or not at all.
    if (whole && !former_checkpoint_is_compacted()) return CheckpointResult::kNothingToCompact;
    if (whole) write_all();
    error = error_;
    if (error_ == 0 && !abandoned_) return CheckpointResult::kDone;
    writer_.drop_replacement(replacement_path_.c_str());
    return error_ != 0 ? CheckpointResult::kFailed : CheckpointResult::kAbandoned;
  }

 private:
  // True while there is no error and service_requests agrees.
  bool may_go_on() noexcept {
    if (error_ == 0 && !abandoned_ && !request_.service_requests(request_.owner)) abandoned_ = true;
    return error_ == 0 && !abandoned_;
  }

  // Makes the file thread repeat `step` until it returns false; service_requests is called in
  // between, on this thread. One request for each step would cost more than the step.
  template <class Step>
  void repeat(Step step) noexcept {
    bool has_more = true;
    while (has_more && may_go_on()) {
      file_thread::run([&]() noexcept {
        const std::uint64_t due_ns = clock_ns(CLOCK_MONOTONIC) + kKeepUpEveryNs;
        do {
          has_more = step() && error_ == 0;
          file_thread::serve_request();
        } while (has_more && clock_ns(CLOCK_MONOTONIC) < due_ns);
      });
    }
  }

  // Chooses the newest blocks to keep, as many as fit. False if nothing is older than they are.
  bool choose_cut() noexcept {
    std::uint64_t compactable_bytes = 0;
    for (const PackedBlock& block : index_.blocks()) {
      if (block.header.type == trace::BlockType::kRecords) compactable_bytes += block.file_bytes();
      if (block.header.type == trace::BlockType::kCheckpoint &&
          block.header.last_time > former_cut_ticks_) {
        former_cut_ticks_ = block.header.last_time;
      }
    }
    std::uint64_t keep_bytes = request_.keep_bytes;
    if (keep_bytes > compactable_bytes / 2) keep_bytes = compactable_bytes / 2;
    std::uint64_t kept_bytes = 0;
    for (std::size_t i = index_.blocks().size(); i-- > 0;) {
      const PackedBlock& block = index_.blocks()[i];
      if (block.header.type != trace::BlockType::kRecords) continue;
      kept_bytes += block.file_bytes();
      cut_ticks_ = block.header.last_time;
      if (kept_bytes > keep_bytes) break;
    }
    if (cut_ticks_ >= request_.limit_ticks) cut_ticks_ = request_.limit_ticks - 1;
    return cut_ticks_ > former_cut_ticks_;
  }

  void compact_all() noexcept {
    file_thread::run(
        [this]() noexcept { error_ = streams_.start(index_, writer_.file(), cut_ticks_); });
    repeat([this]() noexcept { return compact_block(); });
  }

  // Compacts up to the end of one of the merged blocks. False after the last record.
  bool compact_block() noexcept {
    for (bool at_block_end = false; error_ == 0 && !at_block_end;) {
      const trace::RecordHeader* record = streams_.head();
      if (record == nullptr) return false;
      const std::uint64_t ticks = trace::ticks_of_key(streams_.head_key());
      // The free that is missing here may come behind the cut: so the cut is here.
      if (ticks + trace::kReorderWindowTicks > cut_ticks_ && compaction_.is_conflict(*record)) {
        return false;
      }
      compaction_.add(*record, streams_.head_writer(), ticks);
      compacted_ticks_ = ticks;
      at_block_end = streams_.is_at_block_end();
      error_ = compaction_.failed() ? ENOMEM : streams_.advance();
    }
    return error_ == 0;
  }

  bool former_checkpoint_is_compacted() noexcept {
    for (const PackedBlock& block : index_.blocks()) {
      if (block.header.type == trace::BlockType::kCheckpoint && !block.is_compacted) return false;
    }
    return compacted_ticks_ > former_cut_ticks_;
  }

  void write_all() noexcept {
    error_ = writer_.begin_replacement(replacement_path_.c_str());
    if (error_ != 0) return;
    write_checkpoint();
    file_thread::run([this]() noexcept {
      write_compacted_marks();
      write_split_blocks();
    });
    copy_kept_blocks();
    copy_newest_blocks();
    if (error_ != 0 || abandoned_) return;
    error_ = writer_.finish_replacement(replacement_path_.c_str(), request_.path);
  }

  void write_checkpoint() noexcept {
    image_ = static_cast<std::byte*>(map_zeros(kImageBytes));
    if (image_ == nullptr) {
      error_ = ENOMEM;
      return;
    }
    const RecordSink sink{this, [](void* owner, const trace::RecordHeader& record) noexcept {
                            return static_cast<CheckpointMaker*>(owner)->take(record);
                          }};
    if (compaction_.write(compacted_ticks_, sink)) {
      flush_image();
    } else if (error_ == 0 && !abandoned_) {
      error_ = ENOMEM;
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
    error_ = writer_.append_to_replacement(trace::BlockType::kCheckpoint, trace::kCheckpointWriter,
                                           checkpoint_blocks_++, 0,
                                           std::span<const std::byte>(image_, image_bytes_));
    image_bytes_ = 0;
    return may_go_on();
  }

  // Chunks of the ring that were packed, and are compacted now, may still stand in it: one mark for
  // each writer tells the reader how far the checkpoint goes.
  void write_compacted_marks() noexcept {
    for (const PackedStream& stream : streams_.streams()) {
      if (error_ != 0 || abandoned_) return;
      const std::uint32_t writer = streams_.writer_of(stream);
      if (writer == trace::kCheckpointWriter || !has_compacted(stream)) continue;
      if (is_split(stream)) {
        const trace::BlockHeader& block = streams_.block(stream.next).header;
        error_ =
            writer_.append_compacted(writer, block.sequence, block.begin_offset + stream.position);
      } else {
        const trace::BlockHeader& block = streams_.block(stream.next - 1).header;
        error_ = writer_.append_compacted(writer, block.sequence, block.end_offset);
      }
    }
    for (const PackedBlock& block : index_.blocks()) {
      if (error_ != 0 || abandoned_) return;
      const trace::BlockHeader& mark = block.header;
      if (mark.type != trace::BlockType::kCompacted || has_newer_mark(mark.writer)) continue;
      error_ = writer_.append_compacted(mark.writer, mark.sequence, mark.end_offset);
    }
  }

  bool has_newer_mark(std::uint32_t writer) noexcept {
    for (const PackedStream& stream : streams_.streams()) {
      if (streams_.writer_of(stream) == writer) return has_compacted(stream);
    }
    return false;
  }
  static bool is_split(const PackedStream& stream) noexcept {
    return stream.is_loaded && stream.position > 0;
  }
  static bool has_compacted(const PackedStream& stream) noexcept {
    return stream.next > stream.first || is_split(stream);
  }

  // The cut goes through these blocks: their later records become blocks of their own.
  void write_split_blocks() noexcept {
    for (const PackedStream& stream : streams_.streams()) {
      if (error_ != 0 || abandoned_) return;
      if (!is_split(stream)) continue;
      const trace::BlockHeader& block = streams_.block(stream.next).header;
      error_ = writer_.append_to_replacement(
          trace::BlockType::kRecords, block.writer, block.sequence,
          block.begin_offset + stream.position,
          std::span<const std::byte>(stream.image + stream.position,
                                     stream.image_bytes - stream.position));
      streams_.mark_compacted(stream);
    }
  }

  void copy_kept_blocks() noexcept {
    std::size_t next = 0;
    repeat([&]() noexcept {
      if (next == index_.blocks().size()) return false;
      const PackedBlock& block = index_.blocks()[next++];
      if (block.header.type == trace::BlockType::kRecords && !block.is_compacted) {
        error_ = writer_.copy_to_replacement(block.offset, block.file_bytes());
      }
      return true;
    });
  }

  // Copies the blocks that service_requests has appended since the index was made.
  void copy_newest_blocks() noexcept {
    std::uint64_t copied = index_.end();
    repeat([&]() noexcept {
      const std::uint64_t bytes = std::min(writer_.bytes() - copied, kCopyBytes);
      if (bytes > 0) error_ = writer_.copy_to_replacement(copied, bytes);
      copied += bytes;
      return bytes > 0;
    });
  }

  TraceWriter& writer_;
  const CheckpointRequest& request_;
  Line replacement_path_;
  PackedIndex index_;
  PackedStreams streams_;
  Compaction compaction_;
  std::uint64_t cut_ticks_ = 0;
  std::uint64_t compacted_ticks_ = 0;  // of the last compacted record
  std::uint64_t former_cut_ticks_ = 0;
  std::byte* image_ = nullptr;
  std::size_t image_bytes_ = 0;
  std::uint32_t checkpoint_blocks_ = 0;
  int error_ = 0;
  bool abandoned_ = false;
};

}  // namespace

CheckpointResult make_checkpoint(TraceWriter& writer, const CheckpointRequest& request,
                                 int& error) noexcept {
  return CheckpointMaker(writer, request).run(error);
}

}  // namespace gpumemtrace::preload
