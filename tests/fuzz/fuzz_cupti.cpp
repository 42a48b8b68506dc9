// SPDX-License-Identifier: Apache-2.0
// Turns CUPTI's activity records of any length and content into records of the trace.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "cupti/records.hpp"
#include "tests/fuzz/checks.hpp"
#include "trace/records.hpp"
#include "trace/schema.hpp"

namespace {

using namespace gpumemtrace;
using tests::require;

std::vector<std::uint64_t> written;

std::uint64_t no_ticks() { return 0; }

bool keep(const void* record, std::size_t bytes, const char*, std::size_t) {
  require(bytes % trace::kWordBytes == 0, "a record is whole words");
  written.resize(bytes / trace::kWordBytes);
  std::memcpy(written.data(), record, bytes);
  return true;
}

constexpr cupti::Recorder kRecorder = {no_ticks, keep, nullptr};

void take(const cupti::RawRecord& record, std::uint32_t version) {
  cupti::TakeOver what;
  for (std::uint32_t kind = 0; kind < 64; ++kind) what.kinds.add(static_cast<cupti::Kind>(kind));
  what.calls = true;
  what.version = version;
  written.clear();
  const cupti::Taken taken = cupti::take_over(record, what, kRecorder);
  require((taken == cupti::Taken::kWritten) == !written.empty(), "what is taken is written");
  (void)cupti::start_of(record);
  (void)cupti::correlation_of(record);
  (void)cupti::context_of(record);
  (void)cupti::function_of(record);
}

}  // namespace

// An input has a version, then for each record its length and its bytes.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::uint32_t version = data[0] % 2 == 0 ? cupti::kOldestVersion : 130001;
  for (std::size_t at = 1; at < size;) {
    const std::size_t bytes = std::min<std::size_t>(data[at], size - at - 1);
    // Each record is copied, so that a read behind its end is noticed.
    const std::vector<std::uint8_t> record(data + at + 1, data + at + 1 + bytes);
    take({record.data(), record.size()}, version);
    at += 1 + bytes;
  }
  return 0;
}
