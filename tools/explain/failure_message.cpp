// SPDX-License-Identifier: Apache-2.0
#include "tools/explain/failure_message.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "tools/base/sizes.hpp"

namespace gpumemtrace::tools {
namespace {

constexpr std::string_view kSizeDigits = "0123456789";
// The largest size that is accepted: if NVML does not know a size, PyTorch prints 17179869184.00
// GiB, and no card has a pebibyte.
constexpr double kMostTextBytes = 0x1p50;
constexpr std::size_t kMostDigits = 15;
// PyTorch asks the driver for 2 MiB at least, for 20 MiB if a request has 1 to 10 MiB, and else
// for a multiple of 2 MiB (kSmallBuffer, kLargeBuffer, kRoundLarge).
constexpr std::uint64_t kMebibyte = std::uint64_t{1} << 20;
constexpr std::uint64_t kSmallestSegment = 2 * kMebibyte;
constexpr std::uint64_t kMediumSegment = 20 * kMebibyte;

struct TextUnit {
  std::string_view name;
  double bytes;
};
constexpr auto kTextUnits =
    std::to_array<TextUnit>({{"bytes", 1}, {"KiB", 0x1p10}, {"MiB", 0x1p20}, {"GiB", 0x1p30}});

bool is_digit(char letter) { return letter >= '0' && letter <= '9'; }

bool is_part_of_word(char letter) {
  return is_digit(letter) || (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') ||
         letter == '.' || letter == '_';
}

bool has_words(std::string_view text, std::string_view words) {
  return text.find(words) != std::string_view::npos;
}

struct FoundSize {
  std::size_t begin = std::string_view::npos;
  std::size_t end = std::string_view::npos;
  std::optional<TextSize> size;
};

// The bytes that print as this number and unit; nullopt if the number is too large to be true.
std::optional<TextSize> size_of_number(std::string_view number, const TextUnit& unit,
                                       std::string_view text) {
  if (number.size() > kMostDigits) return std::nullopt;
  const std::size_t point = number.find('.');
  double value = 0;
  for (const char digit : number) {
    if (digit != '.') value = value * 10 + (digit - '0');
  }
  double step = unit.bytes;
  for (std::size_t i = point; i < number.size() - 1; ++i) step /= 10;
  if (value * step > kMostTextBytes) return std::nullopt;
  const double half = unit.bytes == 1 ? 0 : step / 2;
  TextSize size;
  size.low_bytes = static_cast<std::uint64_t>(std::floor(std::max(0.0, value * step - half)));
  size.high_bytes = static_cast<std::uint64_t>(std::ceil(value * step + half));
  size.text = text;
  return size;
}

// The first number with a unit that begins at `from` or later; `end` is npos if there is none, and
// `size` is empty if the number is too large to be true.
FoundSize next_size(std::string_view text, std::size_t from) {
  while ((from = text.find_first_of(kSizeDigits, from)) != std::string_view::npos) {
    std::size_t end = std::min(text.find_first_not_of(kSizeDigits, from), text.size());
    if (end + 1 < text.size() && text[end] == '.' && is_digit(text[end + 1])) {
      end = std::min(text.find_first_not_of(kSizeDigits, end + 1), text.size());
    }
    const bool begins_word = from == 0 || !is_part_of_word(text[from - 1]);
    const std::size_t space = end < text.size() && text[end] == ' ' ? 1 : 0;
    const std::string_view behind = text.substr(end + space);
    for (const TextUnit& unit : kTextUnits) {
      if (!begins_word || !behind.starts_with(unit.name)) continue;
      const std::size_t size_end = end + space + unit.name.size();
      return {
          from, size_end,
          size_of_number(text.substr(from, end - from), unit, text.substr(from, size_end - from))};
    }
    from = end;
  }
  return {};
}

// A size of a message, known by the words directly before and after it.
struct SizeField {
  std::string_view before;
  std::string_view after;
  std::optional<TextSize> FailureMessage::*member;
};
constexpr auto kSizeFields = std::to_array<SizeField>({
    {"Tried to allocate ", "", &FailureMessage::requested},
    {"total capacity of ", "", &FailureMessage::capacity},
    {"total capacty of ", "", &FailureMessage::capacity},  // PyTorch 2.1 has this spelling
    {"of which ", " is free", &FailureMessage::free},
    {"this process has ", " memory in use", &FailureMessage::this_process},
    {"", " allowed;", &FailureMessage::allowed},
    {"Of the allocated memory ", "", &FailureMessage::allocated},
    {"with ", " allocated in private pools", &FailureMessage::private_pools},
    {"and ", " is reserved by PyTorch but unallocated", &FailureMessage::unallocated},
    // Wordings of PyTorch up to 2.0.
    {"", " total capacity", &FailureMessage::capacity},
    {"", " already allocated", &FailureMessage::allocated},
    {"", " free;", &FailureMessage::free},
    {"", " reserved in total", &FailureMessage::reserved},
    {"", " cached)", &FailureMessage::unallocated},
    // Wordings of PyTorch with PYTORCH_CUDA_ALLOC_CONF=backend:cudaMallocAsync.
    {"Currently allocated : ", "", &FailureMessage::allocated},
    {"Requested : ", "", &FailureMessage::requested},
    {"Device limit : ", "", &FailureMessage::capacity},
    {"Free (according to CUDA): ", "", &FailureMessage::free},
    {"memory fraction) : ", "", &FailureMessage::allowed},
    // Wording of JAX.
    {"trying to allocate ", "", &FailureMessage::requested},
});

// True if the text ends with "Process 4711 has ".
bool ends_with_process(std::string_view before) {
  constexpr std::string_view kHas = " has ";
  if (!before.ends_with(kHas)) return false;
  before.remove_suffix(kHas.size());
  const std::size_t digits = before.find_last_not_of(kSizeDigits) + 1;
  return digits != before.size() && before.substr(0, digits).ends_with("Process ");
}

// Stores a size of the message in its field. `before` and `after` are the texts around the size.
void take_size(std::string_view before, std::string_view after, const TextSize& size,
               FailureMessage& message) {
  if (ends_with_process(before) && after.starts_with(" memory in use")) {
    message.processes.push_back(size);
    return;
  }
  for (const SizeField& field : kSizeFields) {
    if (!before.ends_with(field.before) || !after.starts_with(field.after)) continue;
    std::optional<TextSize>& member = message.*field.member;
    if (!member) member = size;
    return;
  }
}

std::optional<std::uint64_t> gpu_of(std::string_view text) {
  for (const std::string_view before : {"GPU ", "on device "}) {
    const std::size_t begin = text.find(before);
    if (begin == std::string_view::npos) continue;
    const std::string_view number = text.substr(begin + before.size());
    return parse_number(number.substr(0, number.find_first_not_of(kSizeDigits)));
  }
  return std::nullopt;
}

// The setting against fragmentation that the message's version of PyTorch supports:
// expandable_segments came with 2.1, as did its wording; messages of older versions name
// max_split_size_mb if they have it.
std::string setting_of(std::string_view text) {
  if (has_words(text, "XPU out of memory")) return {};
  if (has_words(text, "Of the allocated memory ")) return "expandable_segments:True";
  return has_words(text, "max_split_size_mb") ? "max_split_size_mb" : "";
}

}  // namespace

FailureMessage parse_failure_message(std::string_view text, MessageKind kind) {
  FailureMessage message;
  message.kind = kind;
  message.gpu = gpu_of(text);
  for (FoundSize found = next_size(text, 0); found.end != std::string_view::npos;
       found = next_size(text, found.end)) {
    if (!found.size) continue;
    take_size(text.substr(0, found.begin), text.substr(found.end), *found.size, message);
  }
  for (const std::string_view variable :
       {"PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF", "PYTORCH_ALLOC_CONF"}) {
    if (has_words(text, variable)) message.settings_variable = variable;
  }
  message.setting = setting_of(text);
  return message;
}

namespace {

ByteRange operator+(const ByteRange& a, const ByteRange& b) {
  return {a.low_bytes + b.low_bytes, a.high_bytes + b.high_bytes};
}

ByteRange operator-(const ByteRange& a, const ByteRange& b) {
  return {a.low_bytes - std::min(a.low_bytes, b.high_bytes),
          a.high_bytes - std::min(a.high_bytes, b.low_bytes)};
}

std::optional<ByteRange> if_not_zero(const ByteRange& bytes) {
  return bytes.low_bytes == 0 ? std::nullopt : std::optional(bytes);
}

// The bytes that PyTorch needed for the request: at most what the message says, which is rounded
// up, and at least the smallest request that rounds up to that.
ByteRange needed_bytes(const FailureMessage& message) {
  ByteRange needed = *message.requested;
  if (message.kind != MessageKind::kPyTorch) return needed;
  if (needed.high_bytes <= kSmallestSegment) {
    needed.low_bytes = 1;
  } else if (needed.low_bytes <= kMediumSegment) {
    needed.low_bytes = std::min(needed.low_bytes, kMebibyte);
  } else {
    needed.low_bytes -= kSmallestSegment;
  }
  return needed;
}

// The memory of processes that certainly are other ones. PyTorch in a container does not find its
// own PID in the driver's list, so that the largest process may be this one.
ByteRange other_processes_of(const FailureMessage& message, const ByteRange& pytorch) {
  ByteRange sum;
  ByteRange largest;
  for (const TextSize& process : message.processes) {
    sum = sum + process;
    if (process.high_bytes > largest.high_bytes) largest = process;
  }
  const bool may_be_this =
      !message.this_process && largest.high_bytes >= pytorch.low_bytes && largest.high_bytes != 0;
  return may_be_this ? sum - largest : sum;
}

// Bytes that the request could have got, from PyTorch's cache and from the driver.
struct AvailableBytes {
  ByteRange cache;
  ByteRange driver;  // bytes free within the program's limit
  bool is_known = false;
};

// A size that the message lacks can be anything from 0 to the whole GPU.
AvailableBytes available_bytes(const FailureMessage& message) {
  const ByteRange whole{0, message.capacity ? message.capacity->high_bytes : UINT64_MAX / 8};
  const ByteRange allocated = message.allocated.value_or(TextSize{});
  const ByteRange free = message.free ? ByteRange(*message.free) : whole;
  AvailableBytes available;
  available.is_known = message.free && (message.unallocated || message.reserved);
  available.cache = {0, (whole - free - allocated).high_bytes};
  if (message.reserved && message.allocated) available.cache = *message.reserved - allocated;
  if (message.unallocated) available.cache = *message.unallocated;
  available.driver = free;
  if (message.allowed) {
    const ByteRange rest = *message.allowed - (allocated + available.cache);
    available.driver = {std::min(free.low_bytes, rest.low_bytes),
                        std::min(free.high_bytes, rest.high_bytes)};
  }
  return available;
}

// Returns the verdict. Sets cause.left for kFragmented, and cause.missing for kExhausted, kLimited
// and kOtherProcess.
FailureVerdict verdict_of(const FailureMessage& message, const AvailableBytes& available,
                          FailureCause& cause) {
  const ByteRange needed = needed_bytes(message);
  const ByteRange all = available.cache + available.driver;
  if (needed.high_bytes <= available.driver.low_bytes) return FailureVerdict::kUnexplained;
  if (needed.high_bytes <= all.low_bytes) {
    cause.left = all - needed;
    return FailureVerdict::kFragmented;
  }
  if (needed.low_bytes <= all.high_bytes) {
    return available.is_known ? FailureVerdict::kTooClose : FailureVerdict::kNotSaid;
  }
  cause.missing = needed - all;
  if (message.allowed) {
    const ByteRange without_limit = available.cache + message.free.value_or(TextSize{});
    if (needed.low_bytes <= without_limit.high_bytes) return FailureVerdict::kLimited;
    cause.missing = needed - without_limit;
  }
  const bool others_have_it =
      cause.other_processes && cause.other_processes->low_bytes >= cause.missing->high_bytes;
  return others_have_it ? FailureVerdict::kOtherProcess : FailureVerdict::kExhausted;
}

}  // namespace

FailureCause cause_of(const FailureMessage& message) {
  FailureCause cause;
  if (!message.requested || !(message.free || message.capacity)) return cause;
  const AvailableBytes available = available_bytes(message);
  if (message.allocated && available.is_known) {
    const ByteRange pytorch = *message.allocated + available.cache;
    cause.other_processes = if_not_zero(other_processes_of(message, pytorch));
    if (message.this_process) {
      cause.non_pytorch = if_not_zero(*message.this_process - pytorch);
    } else if (message.capacity) {
      cause.elsewhere = if_not_zero(*message.capacity - *message.free - pytorch);
    }
  }
  cause.verdict = verdict_of(message, available, cause);
  return cause;
}

}  // namespace gpumemtrace::tools
