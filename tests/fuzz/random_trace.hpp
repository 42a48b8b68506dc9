// SPDX-License-Identifier: Apache-2.0
// Traces of random records whose lengths and checksums are right, as mutations of bytes hardly ever
// make them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "trace/reader.hpp"
#include "trace/schema.hpp"

namespace gpumemtrace::tests {

// The records of a trace by writer; each record has as many words as it says itself.
using WordsByWriter = std::map<std::uint32_t, std::vector<std::uint64_t>>;

// All records of the trace's file and ring that can be read. Throws trace::TraceError.
WordsByWriter records_of(const std::filesystem::path& trace);

// - The same seed and the same known records make the same trace on every machine.
// - Each trace is about a few kinds of records, and the next trace about others. Every kind and
//   field of the schema takes part.
// - Values are small, were seen before in a field of the same meaning, or are extreme: near the
//   limits of 8, 16, 32 and 64 bits, with sign and without.
// - Names have characters that steer terminals, build servers and XML, and bytes that are no UTF-8.
class RandomTrace {
 public:
  explicit RandomTrace(std::uint64_t seed) : random_(seed) {}

  // Writes a trace into `folder`, with a ring beside it or without. `known`: records to change and
  // to add to.
  void write(const std::filesystem::path& folder, WordsByWriter known);

 private:
  [[nodiscard]] std::uint64_t below(std::uint64_t end) { return random_() % end; }
  [[nodiscard]] bool one_of(std::uint64_t times) { return below(times) == 0; }

  [[nodiscard]] std::uint64_t extreme();
  [[nodiscard]] std::uint64_t value_of(const trace::Field& field);
  void set(std::uint64_t* record, const trace::Field& field, std::uint64_t value);
  [[nodiscard]] std::string text();
  [[nodiscard]] std::string tail_of(const trace::KindInfo& kind, const std::uint64_t* record);
  void add_record(const trace::KindInfo& kind, std::vector<std::uint64_t>& words);
  void change_records(std::vector<std::uint64_t>& words);
  [[nodiscard]] std::uint32_t writer();

  std::mt19937_64 random_;
  std::uint64_t time_ = 1'000'000;
  std::map<std::string_view, std::vector<std::uint64_t>> seen_;  // by the meaning of a field
};

}  // namespace gpumemtrace::tests
