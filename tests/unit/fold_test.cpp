// A trace whose oldest parts were folded again and again must give the report of the whole trace.

#include <algorithm>
#include <memory>

#include "preload/checkpoint.hpp"
#include "tests/catch.hpp"
#include "tests/support/random_job.hpp"
#include "tests/support/report_query.hpp"

using namespace gpumemtrace;
using namespace gpumemtrace::tests;

namespace {

// Records reach the file as the recorder packs them: in pieces of chunks, a writer at a time.
class PackedTrace {
 public:
  explicit PackedTrace(const std::filesystem::path& path)
      : path_(path), writer_(std::make_unique<preload::TraceWriter>()) {
    REQUIRE(writer_->create(path.c_str(), {1, 2}) == 0);
  }

  void add(const JobRecord& record) {
    Stream& stream = streams_[record.writer];
    stream.words.insert(stream.words.end(), record.words.begin(), record.words.end());
    latest_ticks_ = std::max(latest_ticks_, record.start);
  }

  // Packs what has been added. A chunk ends now and then; else the next piece continues it.
  void pack() {
    for (auto& [id, stream] : streams_) {
      if (stream.words.empty()) continue;
      const auto image = std::as_bytes(std::span(stream.words));
      REQUIRE(writer_->append(id, stream.sequence, stream.offset, image) == 0);
      stream.offset += static_cast<std::uint32_t>(image.size());
      stream.words.clear();
      if (stream.offset > 8192) {
        ++stream.sequence;
        stream.offset = 0;
      }
    }
  }

  // Folds all but the newest bytes; `limit` is when the first record began that is not packed.
  preload::CheckpointResult fold(std::uint64_t keep_bytes, std::uint64_t limit) {
    preload::CheckpointRequest request;
    request.path = path_.c_str();
    request.keep_bytes = keep_bytes;
    request.limit_ticks = limit;
    request.keep_up = [](void*) { return true; };
    int error = 0;
    const auto result = preload::make_checkpoint(*writer_, request, error);
    CHECK(error == 0);
    return result;
  }

  std::uint64_t bytes() const { return writer_->bytes(); }
  const std::filesystem::path& path() const { return path_; }

 private:
  struct Stream {
    std::vector<std::uint64_t> words;
    std::uint32_t sequence = 0;
    std::uint32_t offset = 0;
  };
  std::filesystem::path path_;
  std::unique_ptr<preload::TraceWriter> writer_;
  std::map<std::uint32_t, Stream> streams_;
  std::uint64_t latest_ticks_ = 0;
};

// What a checkpoint may change: the file itself, and what it says about the lay of memory before.
Json comparable(Json report) {
  for (Json& trace : report["traces"]) {
    trace.erase("file");
    trace.erase("bytes");
  }
  for (Json& process : report["processes"]) process.erase("start_unix_ns");
  Json losses = Json::array();
  for (const Json& row : report["losses"]) {
    if (row["name"] != "detail_replaced_by_checkpoint") losses.push_back(row);
  }
  report["losses"] = losses;
  Json fragmentation = Json::array();
  for (const Json& row : report["fragmentation"]) {
    if (row["at"] == "end") fragmentation.push_back(row);
  }
  report["fragmentation"] = fragmentation;
  // The job's framework makes them up, so they do not follow from its segments.
  for (Json& row : report["usage"]) {
    if (row["level"] != "framework") continue;
    row.erase("reserved_peak_bytes");
    row.erase("reserved_bytes_at_end");
  }
  report.erase("oom");
  Json composition = Json::array();
  for (const Json& row : report["composition"]) {
    if (row["at"] != "oom") composition.push_back(row);
  }
  report["composition"] = composition;
  return report;
}

Json report_of(const PackedTrace& trace) {
  Json report = comparable(analyzer::analyze({trace.path()}, {}));
  keep_report(report);
  return report;
}

void compare(const Json& whole, const Json& folded) {
  for (const auto& [key, value] : whole.items()) {
    INFO(key);
    if (value == folded.at(key)) continue;
    CHECK(value.dump(1) == folded.at(key).dump(1));
  }
}

}  // namespace

TEST_CASE("folding a trace again and again does not change its report", "[unit]") {
  for (std::uint64_t seed = 1; seed <= 12; ++seed) {
    INFO("seed " << seed);
    RandomJob job(seed);
    job.run(4000);
    job.finish();
    const TemporaryFolder folder;
    PackedTrace whole(folder.path() / "whole.gmt");
    PackedTrace folded(folder.path() / "folded.gmt");
    std::mt19937_64 random(seed);
    std::size_t folds = 0;
    for (std::size_t i = 0; i < job.records().size(); ++i) {
      whole.add(job.records()[i]);
      folded.add(job.records()[i]);
      if (random() % 150 != 0) continue;
      whole.pack();
      folded.pack();
      if (random() % 4 != 0 || i + 1 == job.records().size()) continue;
      const auto result = folded.fold(random() % 20'000, job.records()[i + 1].start);
      if (result == preload::CheckpointResult::kDone) ++folds;
    }
    whole.pack();
    folded.pack();
    CHECK(folds > 1);
    const Json expected = report_of(whole);
    compare(expected, report_of(folded));
  }
}
