// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "cupti/library.hpp"
#include "tests/catch.hpp"
#include "tests/support/played_cupti.hpp"

namespace gpumemtrace::cupti::cupti_library_test {
namespace {

using namespace stage;

TEST_CASE("the program gets the records of its kinds and no others", "[unit]") {
  Library& library = fresh_library();
  start(library);
  REQUIRE(library.register_callbacks(program_request, program_complete) == kSuccess);
  complete_buffer({copy_record(1, now(), 1)});
  CHECK(records_got == 0);
  library.enable(Kind::kMemcpy);
  complete_buffer({copy_record(2, now(), 2), call_record(Kind::kDriver, 2, now(), 276),
                   CuptiRecord(Kind::kMemset, 88).put(layouts::Memset::kStart, now())});
  library.flush_all(0);
  CHECK(records_got == 1);
  CHECK(bytes_got == 2);
  library.disable(Kind::kMemcpy);
  complete_buffer({call_record(Kind::kDriver, 3, now(), 276), copy_record(3, now() + 9, 3)});
  library.flush_all(0);
  CHECK(records_got == 1);
  read_all();
  CHECK(count_written(trace::RecordKind::kActivityCopy) == 3);
  CHECK(program_buffers_out == 0);
}

TEST_CASE("what both use stays on in CUPTI when the program switches it off", "[unit]") {
  Library& library = fresh_library();
  start(library);
  played.calls.clear();
  library.enable(Kind::kMemcpy);
  library.enable(Kind::kConcurrentKernel);
  library.disable(Kind::kMemcpy);
  library.disable(Kind::kRuntime);
  library.disable(Kind::kConcurrentKernel);
  CHECK(played.calls == std::vector<std::string>{"enable 1", "enable 10", "disable 10"});
}

TEST_CASE("when a copy was asked for decides, whichever buffer tells of it first", "[unit]") {
  Library& library = fresh_library();
  start(library);
  library.register_callbacks(program_request, program_complete);
  const std::uint64_t before = now();
  library.enable(Kind::kMemcpy);
  const std::uint64_t inside = now();
  library.disable(Kind::kMemcpy);
  const std::uint64_t after = now();
  // All three copies ran long after their calls; the records of the calls come in a later buffer.
  complete_buffer({copy_record(1, after + 50, 1), copy_record(2, after + 60, 2),
                   copy_record(3, after + 70, 4)});
  CHECK(records_got == 0);
  complete_buffer({call_record(Kind::kRuntime, 1, before, 31),
                   call_record(Kind::kRuntime, 2, inside, 31),
                   call_record(Kind::kRuntime, 3, after, 31)});
  library.flush_all(0);
  CHECK(records_got == 1);
  CHECK(bytes_got == 2);
}

TEST_CASE("a copy whose call never comes is decided by when it ran", "[unit]") {
  Library& library = fresh_library();
  start(library);
  library.register_callbacks(program_request, program_complete);
  library.enable(Kind::kMemcpy);
  complete_buffer({copy_record(1, now(), 1)});
  CHECK(records_got == 0);
  library.flush_all(0);
  CHECK(records_got == 1);
  // After a flush by the recorder's collection, the program gets its records with the next buffer.
  complete_buffer({copy_record(2, now(), 1)});
  the_collection().flush(false, kRecorder);
  library.set_flush_period(10);
  CHECK(records_got == 1);
  complete_buffer({call_record(Kind::kRuntime, 9, now(), 31)});
  CHECK(records_got == 2);
}

// The copying function is newer than our list of functions, so the call has no record.
TEST_CASE("a copy that a flush brings without its call is the program's after that flush",
          "[unit]") {
  Library& library = fresh_library();
  start(library);
  library.register_callbacks(program_request, program_complete);
  library.enable(Kind::kMemcpy);
  int flushes = 0;
  played.on_flush = [&] {
    if (++flushes == 1) complete_buffer({copy_record(1, now(), 1)});
  };
  library.flush_all(0);
  CHECK(records_got == 1);
  CHECK(flushes == 2);
  library.flush_all(0);
  CHECK(flushes == 3);
}

TEST_CASE("the program's buffers may be small, few or none", "[unit]") {
  Library& library = fresh_library();
  start(library);
  library.register_callbacks(program_request, program_complete);
  program_buffer_bytes = 500;
  library.enable(Kind::kConcurrentKernel);
  const CuptiRecord kernel(Kind::kConcurrentKernel, 216);
  complete_buffer({kernel, kernel, kernel, kernel, kernel});
  CHECK(records_got == 4);  // the fifth record is in a buffer that is not full yet
  library.flush_all(0);
  CHECK(records_got == 5);
  program_buffer_bytes = 4096;
  program_most_records = 1;
  complete_buffer({kernel, kernel, kernel});
  CHECK(records_got == 7);
  program_buffer_bytes = 0;
  library.flush_all(0);
  CHECK(records_got == 8);
  complete_buffer({kernel, kernel});
  program_buffer_bytes = 100;  // too small for one record
  complete_buffer({kernel});
  library.flush_all(0);
  CHECK(records_got == 8);
  std::size_t dropped = 0;
  library.dropped_records(nullptr, 0, &dropped);
  CHECK(dropped == 3);
  library.dropped_records(nullptr, 0, &dropped);
  CHECK(dropped == 0);
  library.disable(Kind::kConcurrentKernel);
  library.flush_all(0);
  CHECK(program_buffers_out == 0);
}

// PyTorch's profiler does not flush, and shows nothing, while CUPTI holds none of the profiler's
// buffers.
TEST_CASE("while the program collects, a buffer of its own is out", "[unit]") {
  Library& library = fresh_library();
  start(library);
  complete_buffer({copy_record(1, now(), 1)});
  library.register_callbacks(program_request, program_complete);
  CHECK(program_buffers_out == 0);
  library.enable(Kind::kMemcpy);
  CHECK(program_buffers_out == 1);
  library.enable(Kind::kMemset);
  complete_buffer({call_record(Kind::kRuntime, 2, now(), 31), copy_record(2, now(), 1)});
  the_collection().flush(false, kRecorder);
  CHECK(program_buffers_out == 1);
  library.disable(Kind::kMemcpy);
  library.disable(Kind::kMemset);
  CHECK(program_buffers_out == 1);
  CHECK(records_got == 0);
  library.flush_all(0);
  CHECK(records_got == 1);
  CHECK(program_buffers_out == 0);
  // A program that flushes while it collects is asked for another buffer.
  library.enable(Kind::kMemcpy);
  complete_buffer({call_record(Kind::kRuntime, 3, now(), 31), copy_record(3, now(), 1)});
  library.flush_all(0);
  CHECK(records_got == 2);
  CHECK(program_buffers_out == 1);
}

TEST_CASE("a buffer of callbacks that were there before us goes to the program as it is",
          "[unit]") {
  Library& library = fresh_library();
  library.register_callbacks(program_request, program_complete);
  CHECK(played.complete == program_complete);
  std::uint8_t* buffer = nullptr;
  std::size_t bytes = 0;
  std::size_t most = 0;
  played.request(&buffer, &bytes, &most);
  start(library);
  CHECK(played.complete != program_complete);
  const CuptiRecord record = copy_record(1, 1, 77);
  std::memcpy(buffer, record.bytes().data(), record.bytes().size());
  played.complete(nullptr, 0, buffer, bytes, record.bytes().size());
  CHECK(bytes_got == 77);
  CHECK_FALSE(the_collection().read_one(&kRecorder));
}

TEST_CASE("what waits for its call is decided by the clock of its time", "[unit]") {
  Library& library = fresh_library();
  start(library);
  library.register_callbacks(program_request, program_complete);
  library.enable(Kind::kMemcpy);
  const std::uint64_t inside = now();
  library.disable(Kind::kMemcpy);
  const std::uint64_t long_after = now() + 1'000'000;
  complete_buffer({copy_record(1, inside, 1), copy_record(2, long_after, 2)});
  library.register_clock(nullptr);
  library.enable(Kind::kMemcpy);
  library.flush_all(0);
  CHECK(records_got == 1);
  CHECK(bytes_got == 1);
}

TEST_CASE("before CUPTI is finalized, a held copy gets its call", "[unit]") {
  Library& library = fresh_library();
  start(library);
  library.register_callbacks(program_request, program_complete);
  library.enable(Kind::kMemcpy);
  const std::uint64_t inside = now();
  library.disable(Kind::kMemcpy);
  complete_buffer({copy_record(1, now() + 1000, 1)});
  int flushes = 0;
  played.on_flush = [&] {
    if (++flushes == 1) complete_buffer({call_record(Kind::kRuntime, 1, inside, 31)});
  };
  library.finalize();
  CHECK(records_got == 1);
}

TEST_CASE("records that CUPTI delivers while it is finalized reach the program", "[unit]") {
  Library& library = fresh_library();
  start(library);
  library.register_callbacks(program_request, program_complete);
  library.enable(Kind::kMemcpy);
  played.on_finalize = [] { complete_buffer({copy_record(1, now(), 1)}); };
  library.finalize();
  CHECK(records_got == 1);
  CHECK(program_buffers_out == 0);
}

}  // namespace
}  // namespace gpumemtrace::cupti::cupti_library_test
