// SPDX-License-Identifier: Apache-2.0
// Texts of rows, known by their type: --redact replaces those that are private. A new text of a row
// gets its type here; a std::string does not compile (analyzer/report/redaction.cpp).
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "analyzer/rows/ids.hpp"

namespace gpumemtrace::analyzer::rows {

// Words and sentences of our own, or text that everyone may read. It stays.
using PublicText = Text<struct PublicWords>;

// The kinds of private names. A name that replaces another begins with its kind.
enum class Secret : std::uint8_t {
  kArgument,
  kBoot,
  kDevice,
  kFile,
  kFunction,
  kHost,
  kJob,
  kLayer,
  kLibrary,
  kOwner,
  kProgram,
  kRange,
  kSuppression,
  kTensor,
  kThread,
  kTrace,
};
constexpr auto names(Secret) {
  return std::to_array<std::string_view>({"argument", "boot", "GPU", "file", "function", "host",
                                          "job", "layer", "library", "owner", "program", "range",
                                          "suppression", "tensor", "thread", "trace"});
}

template <Secret kind>
struct NameOf;
template <Secret kind>
using Name = Text<NameOf<kind>>;
// Classes of a model's layers, the outermost first: "GPT2Model > GPT2Block". Each is a name.
using Layers = Name<Secret::kLayer>;
// A sentence in which paths of files are private.
using Remark = Text<struct RemarkWords>;
// A part of a line of code. It is replaced with its Site or Frame, because the others tell if the
// code is public.
using CodeText = Text<struct CodeWords>;

using OptionalPublicText = std::optional<PublicText>;
template <Secret kind>
using OptionalName = std::optional<Name<kind>>;
using OptionalLayers = std::optional<Layers>;
using OptionalRemark = std::optional<Remark>;
using OptionalCode = std::optional<CodeText>;

}  // namespace gpumemtrace::analyzer::rows
