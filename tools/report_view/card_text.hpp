// SPDX-License-Identifier: Apache-2.0
// The peaks of a card in words: the same names and numbers in every command.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "analyzer/rows/report.hpp"

namespace gpumemtrace::tools {

// A range of sizes: "810.0 MiB to 842.0 MiB", or "810.0 MiB" if both sizes print the same.
[[nodiscard]] std::string range_text(std::uint64_t low_bytes, std::uint64_t high_bytes);
// A peak as a range of sizes, from its lower to its upper bound.
[[nodiscard]] std::string peak_text(const analyzer::rows::CardPeak& peak);

// The name of a part of the card's memory: "PyTorch's free cache", or the owner of memory that
// allocation calls returned.
[[nodiscard]] std::string part_name(const analyzer::rows::CardPart& part);
// The level whose holders name the lines behind a part of the card's memory; nullopt if no calls of
// the program allocated the part.
[[nodiscard]] std::optional<analyzer::Level> level_of_holders(analyzer::rows::CardPartKind what);

// The two peaks of a device: of the job, and of everything on the card. nullptr if the report
// has none.
struct DevicePeaks {
  const analyzer::rows::Device* device = nullptr;
  const analyzer::rows::CardPeak* job = nullptr;
  const analyzer::rows::CardPeak* card = nullptr;

  // True if the card's peak exceeds the job's peak by so much that a text shows both.
  [[nodiscard]] bool shows_both() const;
};
[[nodiscard]] DevicePeaks peaks_of(const analyzer::rows::Report& report,
                                   const analyzer::rows::Device& device);
// The peaks of the device that came closest to being full; all nullptr if the report has none.
[[nodiscard]] DevicePeaks fullest_device(const analyzer::rows::Report& report);

// The bytes of the card besides the job: "other processes 3.0 GiB, no process 10.0 MiB".
[[nodiscard]] std::string besides_job(const analyzer::rows::CardPeak& card);

}  // namespace gpumemtrace::tools
