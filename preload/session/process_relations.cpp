// SPDX-License-Identifier: Apache-2.0
#include "preload/session/process_relations.hpp"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cstddef>

#include "preload/base/files.hpp"
#include "preload/base/message.hpp"

namespace gpumemtrace::preload {
namespace {

using trace::ProcessRelation;

// 0 if there is no such process.
std::uint32_t parent_of(std::uint32_t process_id) noexcept {
  Line path;
  path << "/proc/" << std::uint64_t{process_id} << "/stat";
  char text[512];
  const std::size_t size = read_small_file(path.c_str(), text, sizeof text - 1);
  text[size] = '\0';
  // "NUMBER (NAME) STATE PARENT ...": the name may have parentheses of its own.
  const char* const name_end = strrchr(text, ')');
  if (name_end == nullptr || strlen(name_end) < sizeof ") S 1" - 1) return 0;
  return static_cast<std::uint32_t>(strtoul(name_end + sizeof ") S " - 1, nullptr, 10));
}

bool descends_from(std::uint32_t process_id, std::uint32_t ancestor) noexcept {
  constexpr int kMostGenerations = 64;
  for (int i = 0; i < kMostGenerations && process_id > 1; ++i) {
    process_id = parent_of(process_id);
    if (process_id == ancestor) return true;
  }
  return false;
}

}  // namespace

ProcessRelation ProcessRelations::relation_of(std::uint32_t process_id) noexcept {
  if (process_id == 0) return ProcessRelation::kOther;
  const auto own_id = static_cast<std::uint32_t>(getpid());
  if (process_id == own_id) return ProcessRelation::kThis;
  Known* entry = &known_[0];
  for (Known& known : known_) {
    if (known.process_id == process_id && known.round + 1 >= round_) {
      known.round = round_;
      return known.relation;
    }
    if (known.round < entry->round) entry = &known;
  }
  *entry = {
      process_id, round_,
      descends_from(process_id, own_id) ? ProcessRelation::kDescendant : ProcessRelation::kOther};
  return entry->relation;
}

}  // namespace gpumemtrace::preload
