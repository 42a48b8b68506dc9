// SPDX-License-Identifier: Apache-2.0
// Advice on the framework's allocator: results of its replay under other settings that matter to a
// finding, and remedies for free memory that lies in pieces.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "analyzer/rows/observations.hpp"
#include "analyzer/text/sentence.hpp"

namespace gpumemtrace::analyzer {

// The replay of a device's allocator; nullptr if a replay of the recorded run did not confirm the
// allocator's rules, or if no other setting was replayed.
[[nodiscard]] const rows::ReplayedAllocator* replay_of(const rows::Observations& seen,
                                                       const std::string& process,
                                                       const rows::OptionalText& device);

// True if the recorded run is known to have had expandable segments.
[[nodiscard]] bool was_expandable(const rows::Observations& seen, const std::string& process,
                                  const rows::OptionalText& device);

// The setting that reserves least, if that is worth a change: at least a twentieth less than the
// recorded peak in every replay. nullptr if there is none. Settings under which a request would
// fail that the recorded run got do not count.
[[nodiscard]] const rows::ReplayedSetting* best_setting(const rows::ReplayedAllocator& allocator);

// A setting that saves as much as best_setting() requires in some replays, but perhaps not in all,
// because the requested sizes are not known; nullptr if there is none.
[[nodiscard]] const rows::ReplayedSetting* undecided_setting(
    const rows::ReplayedAllocator& allocator);

// The setting with the fewest retries; nullptr if none has fewer than the recorded settings in
// every replay.
[[nodiscard]] const rows::ReplayedSetting* setting_with_fewest_retries(
    const rows::ReplayedAllocator& allocator);

// The setting under which a refused request is met in every replay; of several, the one that
// reserves least; nullptr if there is none. `refused` is an index into allocator.refused.
[[nodiscard]] const rows::ReplayedSetting* setting_that_meets(
    const rows::ReplayedAllocator& allocator, std::size_t refused);
// True if the setting reserves at least a twentieth less than the recorded peak and the refused
// request together. Else the next request would fail instead.
[[nodiscard]] bool saves_beyond_request(const rows::ReplayedSetting& setting,
                                        const rows::ReplayedAllocator& allocator,
                                        std::uint64_t requested_bytes);

// Sets the names that sentences on a setting use, such as setting ("PyTorch's defaults"), set ("Set
// PYTORCH_CUDA_ALLOC_CONF=..."), basis ("(replayed)") and reserved ("2.7 GiB reserved at most
// instead of 3.6 GiB (replayed)").
Sentence& with_setting(const rows::ReplayedSetting& setting,
                       const rows::ReplayedAllocator& allocator, Sentence& sentence);
// The settings that were replayed, as text: "expandable_segments:True; PyTorch's defaults".
[[nodiscard]] std::string names_of_settings(const rows::ReplayedAllocator& allocator);

// A remedy, besides the allocator's own setting, for free memory that lies in pieces: "let the
// short-lived blocks go and ... before train.py:12 (step) ...", without a full stop. `site`
// allocated the blocks between the free ones; without it there is no advice.
[[nodiscard]] std::string advice_on_fragmentation(const std::optional<rows::Site>& site);

}  // namespace gpumemtrace::analyzer
