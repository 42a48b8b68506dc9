// SPDX-License-Identifier: Apache-2.0
#include "analyzer/replay/allocator_settings.hpp"

#include <algorithm>
#include <bit>
#include <charconv>
#include <optional>
#include <vector>

namespace gpumemtrace::analyzer::replay {
namespace {

// Larger than the size of any device in MiB.
constexpr std::uint64_t kMostMib = std::uint64_t{1} << 31;
constexpr std::uint64_t kMostUnits = kMostMib * (kMib / kUnitBytes);

bool is_separator(char c) { return c == ',' || c == ':' || c == '[' || c == ']'; }

// Splits the text at the separators , : [ ] which become words of their own. Drops spaces.
std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> words;
  std::string word;
  const auto finish_word = [&] {
    if (!word.empty()) words.push_back(std::move(word));
    word.clear();
  };
  for (const char c : text) {
    if (is_separator(c)) {
      finish_word();
      words.emplace_back(1, c);
    } else if (c != ' ') {
      word += c;
    }
  }
  finish_word();
  return words;
}

template <class Number>
std::optional<Number> number_of(const std::string& word) {
  Number number{};
  const char* const end = word.data() + word.size();
  const auto [stop, error] = std::from_chars(word.data(), end, number);
  if (word.empty() || error != std::errc() || stop != end) return std::nullopt;
  return number;
}

class SettingsParser {
 public:
  SettingsParser(std::string_view text, const TorchRules& rules, const AllocatorSettings& before)
      : words_(words_of(text)), rules_(rules), settings_(before) {}

  AllocatorSettings parse() {
    while (next_ < words_.size()) {
      option_ = take();
      expect(":");
      parse_value();
      if (next_ < words_.size()) expect(",");
    }
    check_together();
    return settings_;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw SettingError(option_ + ": " + what);
  }
  std::string take() {
    if (next_ == words_.size()) fail("a value is missing");
    return words_[next_++];
  }
  void expect(const char* separator) {
    if (next_ < words_.size() && words_[next_] == separator) {
      ++next_;
      return;
    }
    fail("'" + std::string(separator) + "' is missing" +
         (next_ < words_.size() ? " before '" + words_[next_] + "'" : " at the end"));
  }
  std::uint64_t take_number() {
    const std::string word = take();
    const std::optional<std::uint64_t> number = number_of<std::uint64_t>(word);
    if (!number) fail("'" + word + "' is no whole number");
    return *number;
  }
  std::uint64_t take_mib(std::uint64_t least) {
    const std::uint64_t mib = take_number();
    if (mib < least) {
      fail(std::to_string(mib) + " is too small; PyTorch takes " + std::to_string(least) +
           " and more");
    }
    if (mib > kMostMib) fail(std::to_string(mib) + " is larger than any device");
    return mib * kMib;
  }
  bool take_truth() {
    const std::string word = take();
    if (word != "True" && word != "False") fail("'" + word + "' is neither True nor False");
    return word == "True";
  }
  // Takes a number above 0 and below 1. `with_one`: 1 is allowed, too.
  double take_share(bool with_one) {
    const std::string word = take();
    const std::optional<double> share = number_of<double>(word);
    if (!share) fail("'" + word + "' is no number");
    if (!(*share > 0 && (*share < 1 || (with_one && *share == 1)))) {
      fail("'" + word + "' is not between 0 and 1");
    }
    return *share;
  }

  void parse_value() {
    if (option_ == "backend") return parse_backend();
    if (option_ == "expandable_segments") {
      settings_.expandable = take_truth();
    } else if (option_ == "max_split_size_mb") {
      settings_.max_split_bytes = take_mib(kDefaultLargeSegmentBytes / kMib);
      max_split_given_ = true;
    } else if (option_ == "max_non_split_rounding_mb") {
      require_minor(6);
      settings_.max_non_split_rounding_bytes = take_mib(kDefaultLargeSegmentBytes / kMib);
    } else if (option_ == "large_segment_size_mb") {
      require_minor(11);
      settings_.large_segment_bytes = take_mib(kLeastOwnSegmentBytes / kMib + 1);
    } else if (option_ == "garbage_collection_threshold") {
      settings_.garbage_collection_threshold = take_share(false);
    } else if (option_ == "per_process_memory_fraction") {
      require_minor(9);
      settings_.memory_fraction = take_share(true);
    } else if (option_ == "roundup_power2_divisions") {
      parse_divisions();
    } else {
      return parse_option_without_effect();
    }
  }

  void require_minor(int minor) const {
    if (rules_.minor < minor) {
      fail("PyTorch 2." + std::to_string(rules_.minor) + " has no such option");
    }
  }

  void parse_backend() {
    const std::string name = take();
    if (name != "native" && name != "cudaMallocAsync") {
      fail("'" + name + "' is none; there are native and cudaMallocAsync");
    }
    settings_.backend = name == "native" ? Backend::kNative : Backend::kAsync;
  }

  // Skips options about host memory and locks, which do not affect memory of the device. Fails for
  // options that cannot be replayed, and for unknown ones.
  void parse_option_without_effect() {
    if (option_ == "release_lock_on_cudamalloc" || option_ == "pinned_use_cuda_host_register" ||
        option_ == "pinned_use_background_threads") {
      (void)take_truth();
    } else if (option_ == "pinned_num_register_threads" ||
               option_ == "pinned_reserve_segment_size_mb") {
      (void)take_number();
    } else if (option_ == "graph_capture_record_stream_reuse" ||
               option_ == "throw_on_cudamalloc_oom" || option_ == "expandable_segments_reserve" ||
               option_ == "expandable_segments_reserve_by_class") {
      fail("this option cannot be replayed");
    } else {
      fail("PyTorch has no such option");
    }
  }

  void check_division(std::uint64_t divisions) const {
    if (divisions != 0 && !std::has_single_bit(divisions)) {
      fail(std::to_string(divisions) + " divisions are no power of two");
    }
    if (divisions > kMostUnits) {
      fail(std::to_string(divisions) + " divisions are more than any device has units");
    }
  }

  void parse_divisions() {
    if (next_ < words_.size() && words_[next_] == "[") {
      ++next_;
      return parse_division_list();
    }
    const std::uint64_t divisions = take_number();
    check_division(divisions);
    if (divisions == 0) fail("0 divisions are no power of two");
    settings_.divisions.fill(divisions);
  }

  // Parses a list such as [256:1,512:2,>:8]. Each entry has the begin of an interval of sizes, in
  // MiB, and its number of divisions; > stands for all larger sizes.
  void parse_division_list() {
    auto& table = settings_.divisions;
    std::size_t last = 0;
    bool is_first = true;
    while (true) {
      const std::string begin = take();
      expect(":");
      const std::uint64_t divisions = take_number();
      check_division(divisions);
      if (begin == ">") {
        const std::size_t from =
            is_first || rules_.rest_overwrites_last_interval() ? last : last + 1;
        std::fill(table.begin() + static_cast<std::ptrdiff_t>(std::min(from, table.size())),
                  table.end(), divisions);
      } else {
        const std::optional<std::uint64_t> mib = number_of<std::uint64_t>(begin);
        if (!mib || !std::has_single_bit(*mib)) fail("'" + begin + "' is no power of two of MiB");
        last = std::min(static_cast<std::size_t>(std::bit_width(*mib)) - 1, table.size() - 1);
        if (is_first) {
          std::fill(table.begin(), table.begin() + static_cast<std::ptrdiff_t>(last), divisions);
        }
        table[last] = divisions;
      }
      is_first = false;
      const std::string separator = take();
      if (separator == "]") return;
      if (separator != ",") fail("',' or ']' is missing before '" + separator + "'");
    }
  }

  void check_together() {
    if (max_split_given_ && settings_.max_split_bytes < settings_.large_segment_bytes) {
      option_ = "max_split_size_mb";
      fail("it is smaller than large_segment_size_mb");
    }
  }

  std::vector<std::string> words_;
  const TorchRules& rules_;
  std::size_t next_ = 0;
  std::string option_ = "settings";
  bool max_split_given_ = false;
  AllocatorSettings settings_;
};

std::size_t interval_of(std::uint64_t bytes) {
  constexpr int kFirstInterval = 20;  // log2 of 1 MiB
  const int log2 = static_cast<int>(std::bit_width(bytes)) - 1;
  return static_cast<std::size_t>(
      std::clamp(log2 - kFirstInterval, 0, static_cast<int>(AllocatorSettings::kIntervals) - 1));
}

// Rounds up to a multiple of `unit`, a power of two.
std::uint64_t round_up(std::uint64_t bytes, std::uint64_t unit) {
  return (bytes + unit - 1) & ~(unit - 1);
}

// Divides by kUnitBytes and rounds up. Does not add to `bytes`, as traces may hold any number.
std::uint64_t units_of(std::uint64_t bytes) {
  return bytes / kUnitBytes + (bytes % kUnitBytes == 0 ? 0 : 1);
}

}  // namespace

TorchRules rules_of_version(std::string_view version) {
  TorchRules rules;
  if (!version.starts_with("2.")) return rules;
  version.remove_prefix(2);
  int minor = 0;
  const auto [stop, error] =
      std::from_chars(version.data(), version.data() + version.size(), minor);
  if (error == std::errc() && stop != version.data()) rules.minor = minor;
  return rules;
}

bool AllocatorSettings::rounds_to_divisions() const {
  return std::any_of(divisions.begin(), divisions.end(), [](std::uint64_t d) { return d > 1; });
}

std::uint64_t AllocatorSettings::round_request(std::uint64_t bytes) const {
  if (bytes < kUnitBytes) return kUnitBytes;
  const std::uint64_t parts = divisions[interval_of(bytes)];
  if (parts > 1 && bytes > kUnitBytes * parts) {
    return round_up(bytes, std::bit_floor(bytes) >> std::countr_zero(parts));
  }
  return round_up(bytes, kUnitBytes);
}

std::uint64_t AllocatorSettings::largest_within(std::uint64_t bytes) const {
  if (bytes < kUnitBytes || round_request(bytes) == bytes) return bytes;
  std::uint64_t within = 1;  // in units of kUnitBytes
  std::uint64_t beyond = units_of(bytes);
  while (beyond - within > 1) {
    const std::uint64_t middle = within + (beyond - within) / 2;
    (round_request(middle * kUnitBytes) <= bytes ? within : beyond) = middle;
  }
  return within * kUnitBytes;
}

std::uint64_t AllocatorSettings::smallest_rounded_to(std::uint64_t bytes) const {
  if (bytes < kUnitBytes || !rounds_to_divisions()) return bytes;
  std::uint64_t below = 0;  // in units of kUnitBytes
  std::uint64_t enough = units_of(bytes);
  while (enough - below > 1) {
    const std::uint64_t middle = below + (enough - below) / 2;
    (round_request(middle * kUnitBytes) >= bytes ? enough : below) = middle;
  }
  return enough * kUnitBytes;
}

std::uint64_t AllocatorSettings::segment_bytes(std::uint64_t rounded) const {
  if (rounded <= kLargestSmallBytes) return kSmallSegmentBytes;
  if (rounded < kLeastOwnSegmentBytes) return large_segment_bytes;
  return round_up(rounded, kLargeRoundingBytes);
}

std::string AllocatorSettings::warning(bool is_limited) const {
  AllocatorSettings only_backend;
  only_backend.backend = backend;
  if (backend == Backend::kAsync && *this != only_backend) {
    return "the backend cudaMallocAsync ignores the other options";
  }
  if (expandable && max_split_bytes != kNoLimit) {
    return "expandable_segments with max_split_size_mb lets reserved memory run away "
           "(pytorch issue 123548)";
  }
  if (garbage_collection_threshold > 0 && memory_fraction == 1 && !is_limited) {
    return "garbage_collection_threshold does nothing unless a memory fraction is set "
           "(pytorch issue 106660)";
  }
  return {};
}

std::uint64_t scaled_limit(std::uint64_t limit, double scale) {
  if (limit == AllocatorSettings::kNoLimit) return limit;
  constexpr double kTooLarge = 0x1p64;
  const double scaled = static_cast<double>(limit) * scale;
  return scaled < kTooLarge ? static_cast<std::uint64_t>(scaled) : AllocatorSettings::kNoLimit;
}

AllocatorSettings parse_settings(std::string_view text, const TorchRules& rules) {
  return SettingsParser(text, rules, {}).parse();
}

AllocatorSettings changed_settings(const AllocatorSettings& before, std::string_view text,
                                   const TorchRules& rules) {
  // PyTorch resets the three options below, and no others, with every new text of settings.
  AllocatorSettings kept = before;
  kept.max_split_bytes = AllocatorSettings::kNoLimit;
  kept.garbage_collection_threshold = 0;
  kept.divisions = {};
  return SettingsParser(text, rules, kept).parse();
}

AllocatorSettings AllocatorSettings::for_requests_up_to(std::uint64_t bytes) const {
  AllocatorSettings effective = *this;
  for (std::size_t interval = 0; interval < kIntervals; ++interval) {
    std::uint64_t& parts = effective.divisions[interval];
    if (parts == 1 || interval > interval_of(bytes)) parts = 0;
  }
  const std::uint64_t largest_block =
      std::max(segment_bytes(round_request(bytes)), large_segment_bytes);
  if (!expandable && max_split_bytes > largest_block) {
    effective.max_split_bytes = kNoLimit;
    effective.max_non_split_rounding_bytes = AllocatorSettings().max_non_split_rounding_bytes;
  }
  return effective;
}

std::string with_recorded_limit(const std::string& text, const std::string& recorded) {
  const std::size_t begin = recorded.find("per_process_memory_fraction");
  if (begin == std::string::npos) return text;
  const std::string limit = recorded.substr(begin, recorded.find(',', begin) - begin);
  return text.empty() ? limit : text + ',' + limit;
}

}  // namespace gpumemtrace::analyzer::replay
