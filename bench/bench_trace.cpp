// SPDX-License-Identifier: Apache-2.0
// Benchmarks (Google Benchmark) of the steps from a chunk of the ring to the trace file and back:
// the background thread's cost of a chunk of PyTorch's block events, and the reader's.

#include <benchmark/benchmark.h>
#include <zstd.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <stdexcept>
#include <vector>

#include "bench/synthetic_trace.hpp"
#include "tests/support/temporary_folder.hpp"
#include "trace/checksum.hpp"
#include "trace/pack.hpp"
#include "trace/reader.hpp"
#include "trace/unpack.hpp"

namespace gpumemtrace::bench {
namespace {

// A chunk of the largest size, in each form from the ring to the trace file.
struct Chunk {
  std::vector<std::byte> image;  // the records, as in the ring
  std::int64_t records = 0;
  std::vector<std::byte> columns;
  std::vector<std::byte> stored;
};

std::vector<std::byte> read_image() {
  const tests::TemporaryFolder folder(std::filesystem::temp_directory_path());
  const SyntheticTrace trace =
      write_synthetic_trace(folder.path() / "chunk.gmt", Pattern::kTraining, 20'000);
  const trace::TraceFile file(trace.path);
  std::vector<std::byte> image;
  for (const trace::WriterStream& stream : file.writers()) {
    if (stream.writer != 1) continue;
    trace::WriterCursor cursor(file, stream);
    while (const trace::RecordHeader* record = cursor.next()) {
      const std::size_t bytes = record->words * trace::kWordBytes;
      if (image.size() + bytes > trace::kMaxChunkBytes) break;
      const auto* begin = reinterpret_cast<const std::byte*>(record);
      image.insert(image.end(), begin, begin + bytes);
    }
  }
  return image;
}

Chunk make_chunk() {
  Chunk chunk;
  chunk.image = read_image();
  chunk.columns.resize(trace::kMaxColumnBytes);
  const auto scratch = std::make_unique<trace::PackScratch>();
  const trace::PackResult packed = trace::pack(chunk.image, chunk.columns, *scratch);
  chunk.records = packed.records;
  chunk.columns.resize(packed.column_bytes);
  chunk.stored.resize(ZSTD_compressBound(chunk.columns.size()));
  chunk.stored.resize(ZSTD_compress(chunk.stored.data(), chunk.stored.size(), chunk.columns.data(),
                                    chunk.columns.size(), 3));
  return chunk;
}

const Chunk& chunk() {
  static const Chunk made = make_chunk();
  return made;
}

// Reports events per second, and the bytes per event of the step's result.
void report(benchmark::State& state, std::size_t result_bytes) {
  state.SetItemsProcessed(state.iterations() * chunk().records);
  state.counters["bytes_per_event"] =
      static_cast<double>(result_bytes) / static_cast<double>(chunk().records);
}

void pack_columns(benchmark::State& state) {
  const auto scratch = std::make_unique<trace::PackScratch>();
  std::vector<std::byte> out(trace::kMaxColumnBytes);
  std::size_t bytes = 0;
  for ([[maybe_unused]] auto _ : state) {
    bytes = trace::pack(chunk().image, out, *scratch).column_bytes;
    benchmark::DoNotOptimize(out.data());
    benchmark::ClobberMemory();
  }
  report(state, bytes);
}
BENCHMARK(pack_columns);

void compress(benchmark::State& state) {
  const std::unique_ptr<ZSTD_CCtx, decltype(&ZSTD_freeCCtx)> context(ZSTD_createCCtx(),
                                                                     &ZSTD_freeCCtx);
  std::vector<std::byte> out(ZSTD_compressBound(chunk().columns.size()));
  std::size_t bytes = 0;
  for ([[maybe_unused]] auto _ : state) {
    bytes = ZSTD_compressCCtx(context.get(), out.data(), out.size(), chunk().columns.data(),
                              chunk().columns.size(), static_cast<int>(state.range(0)));
    benchmark::DoNotOptimize(out.data());
    benchmark::ClobberMemory();
  }
  report(state, bytes);
}
BENCHMARK(compress)->ArgName("level")->Arg(1)->Arg(3)->Arg(6);

void checksum(benchmark::State& state) {
  for ([[maybe_unused]] auto _ : state) {
    benchmark::DoNotOptimize(trace::crc32c(chunk().stored.data(), chunk().stored.size()));
  }
  report(state, chunk().stored.size());
}
BENCHMARK(checksum);

void decompress(benchmark::State& state) {
  std::vector<std::byte> out(chunk().columns.size());
  for ([[maybe_unused]] auto _ : state) {
    ZSTD_decompress(out.data(), out.size(), chunk().stored.data(), chunk().stored.size());
    benchmark::DoNotOptimize(out.data());
    benchmark::ClobberMemory();
  }
  report(state, out.size());
}
BENCHMARK(decompress);

void unpack_columns(benchmark::State& state) {
  std::vector<std::byte> described(1 << 16);
  described.resize(trace::write_schema(described));
  const std::optional<trace::FileSchema> schema = trace::FileSchema::parse(described);
  if (!schema) throw std::runtime_error("the schema cannot be read back");
  trace::Image image;
  trace::UnpackScratch scratch;
  std::uint64_t unknown = 0;
  for ([[maybe_unused]] auto _ : state) {
    if (!trace::unpack(*schema, chunk().columns, image, scratch, unknown)) {
      state.SkipWithError("the columns cannot be unpacked");
    }
    benchmark::DoNotOptimize(image.words.data());
    benchmark::ClobberMemory();
  }
  report(state, chunk().image.size());
}
BENCHMARK(unpack_columns);

}  // namespace
}  // namespace gpumemtrace::bench

BENCHMARK_MAIN();
