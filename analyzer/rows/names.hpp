// SPDX-License-Identifier: Apache-2.0
// Types of the texts in rows, by which --redact knows which texts are private. A new text of a row
// gets one of these types: a std::string does not compile (analyzer/report/redaction.cpp).
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "analyzer/rows/ids.hpp"

namespace gpumemtrace::analyzer::rows {

// Words and sentences of this program, or other text that is not private: --redact keeps it.
using PublicText = Text<struct PublicWords>;

// The kinds of private names. --redact replaces a name by its kind and a number: function-1.
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
// Classes of a model's layers, the outermost first: "GPT2Model > GPT2Block". --redact replaces each
// class.
using Layers = Name<Secret::kLayer>;
// A sentence in which paths of files are private.
using Remark = Text<struct RemarkWords>;
// A part of a Site or Frame, such as its function. --redact replaces the parts of one Site
// together, because its file and module tell if the code is public.
using CodeText = Text<struct CodeWords>;

using OptionalPublicText = std::optional<PublicText>;
template <Secret kind>
using OptionalName = std::optional<Name<kind>>;
using OptionalLayers = std::optional<Layers>;
using OptionalRemark = std::optional<Remark>;
using OptionalCode = std::optional<CodeText>;

}  // namespace gpumemtrace::analyzer::rows
