// SPDX-License-Identifier: Apache-2.0
#include "analyzer/symbols/dwarf_lines.hpp"

#include <dwarf.h>

#include <algorithm>

#include "analyzer/symbols/readable_name.hpp"

namespace gpumemtrace::analyzer {
namespace {

constexpr int kMaxDepth = 64;  // the deepest nesting of DWARF entries that is followed
constexpr std::size_t kMaxEntries = std::size_t{1} << 24;
// the most address ranges that are read of one entry
constexpr std::size_t kMaxRanges = std::size_t{1} << 20;
constexpr std::size_t kMaxInlined = 64;
// The most ranges that find() tries, going back from the address: other ranges may lie inside the
// range that contains it.
constexpr int kMaxNested = 64;

// True for DWARF entries that can contain functions with code.
bool may_hold_functions(int tag) {
  switch (tag) {
    case DW_TAG_namespace:
    case DW_TAG_module:
    case DW_TAG_class_type:
    case DW_TAG_structure_type:
    case DW_TAG_union_type:
    case DW_TAG_subprogram:
    case DW_TAG_lexical_block:
      return true;
    default:
      return false;
  }
}

// Moves to the next entry on the same level. False at the last one, and if a damaged file leads
// back.
bool next_sibling(Dwarf_Die& die) {
  const Dwarf_Off before = dwarf_dieoffset(&die);
  Dwarf_Die next;
  if (dwarf_siblingof(&die, &next) != 0) return false;
  die = next;
  return dwarf_dieoffset(&die) > before;
}

std::string name_of(Dwarf_Die& die) {
  for (const unsigned attribute : {DW_AT_linkage_name, DW_AT_MIPS_linkage_name}) {
    Dwarf_Attribute found;
    if (dwarf_attr_integrate(&die, attribute, &found) == nullptr) continue;
    const char* symbol = dwarf_formstring(&found);
    if (symbol != nullptr) return readable_name(symbol);
  }
  const char* name = dwarf_diename(&die);
  return name == nullptr ? std::string() : std::string(name);
}

// Reads the file and line from which an inlined function was called.
void read_call_site(Dwarf_Die& unit, Dwarf_Die& inlined, SymbolFrame& frame) {
  Dwarf_Attribute attribute;
  Dwarf_Word value = 0;
  if (dwarf_formudata(dwarf_attr(&inlined, DW_AT_call_line, &attribute), &value) == 0) {
    frame.line = static_cast<std::uint32_t>(value);
  }
  Dwarf_Files* files = nullptr;
  std::size_t count = 0;
  if (dwarf_formudata(dwarf_attr(&inlined, DW_AT_call_file, &attribute), &value) == 0 &&
      dwarf_getsrcfiles(&unit, &files, &count) == 0 && value < count) {
    const char* file = dwarf_filesrc(files, value, nullptr, nullptr);
    if (file != nullptr) frame.file = file;
  }
}

void read_line(Dwarf_Die& unit, std::uint64_t address, SymbolFrame& frame) {
  Dwarf_Line* line = dwarf_getsrc_die(&unit, address);
  if (line == nullptr) return;
  int number = 0;
  if (dwarf_lineno(line, &number) == 0 && number > 0) {
    frame.line = static_cast<std::uint32_t>(number);
  }
  const char* file = dwarf_linesrc(line, nullptr, nullptr);
  if (file != nullptr) frame.file = file;
}

// The calls inlined into the function that are around the address, outermost first.
std::vector<Dwarf_Die> inlined_at(Dwarf_Die function, std::uint64_t address) {
  std::vector<Dwarf_Die> inlined;
  Dwarf_Die parent = function;
  Dwarf_Die child;
  std::size_t budget = kMaxEntries;
  for (int depth = 0; depth < kMaxDepth && dwarf_child(&parent, &child) == 0; ++depth) {
    bool found = false;
    do {
      const int tag = dwarf_tag(&child);
      if (tag != DW_TAG_inlined_subroutine && tag != DW_TAG_lexical_block) continue;
      if (dwarf_haspc(&child, address) != 1) continue;
      if (tag == DW_TAG_inlined_subroutine) inlined.push_back(child);
      parent = child;
      found = true;
    } while (!found && --budget != 0 && next_sibling(child));
    if (!found || inlined.size() == kMaxInlined) break;
  }
  return inlined;
}

}  // namespace

void DwarfLines::add_ranges(Dwarf_Die& die, std::uint64_t what, std::vector<Range>& ranges) {
  Dwarf_Addr base = 0;
  Dwarf_Addr begin = 0;
  Dwarf_Addr end = 0;
  std::ptrdiff_t position = 0;
  for (std::size_t i = 0; i < kMaxRanges; ++i) {
    position = dwarf_ranges(&die, position, &base, &begin, &end);
    if (position <= 0) return;
    // Functions that the linker discarded begin at address 0.
    if (begin != 0 && begin < end) ranges.push_back({begin, end, what});
  }
}

void DwarfLines::sort(std::vector<Range>& ranges) {
  std::sort(ranges.begin(), ranges.end(), [](const Range& a, const Range& b) {
    if (a.begin != b.begin) return a.begin < b.begin;
    return a.end != b.end ? a.end > b.end : a.what < b.what;
  });
}

const DwarfLines::Range* DwarfLines::find(const std::vector<Range>& ranges, std::uint64_t address) {
  auto position = std::ranges::upper_bound(ranges, address, {}, &Range::begin);
  for (int i = 0; i < kMaxNested && position != ranges.begin(); ++i) {
    --position;
    if (address < position->end) return &*position;
  }
  return nullptr;
}

void DwarfLines::list_units() {
  are_units_listed_ = true;
  Dwarf_CU* unit = nullptr;
  Dwarf_Half version = 0;
  std::uint8_t type = 0;
  Dwarf_Die die;
  while (dwarf_get_units(dwarf_, unit, &unit, &version, &type, &die, nullptr) == 0) {
    if (type != DW_UT_compile && type != DW_UT_skeleton) continue;
    const std::size_t before = unit_ranges_.size();
    units_.push_back({die, false, {}});
    add_ranges(die, units_.size() - 1, unit_ranges_);
    if (unit_ranges_.size() != before) continue;
    // A unit without address ranges of its own is found by those of its functions.
    list_functions(units_.back());
    for (const Range& function : units_.back().functions) {
      unit_ranges_.push_back({function.begin, function.end, units_.size() - 1});
    }
  }
  sort(unit_ranges_);
}

void DwarfLines::list_functions(Unit& unit) {
  unit.is_listed = true;
  std::size_t budget = kMaxEntries;
  list_below(unit.die, 0, budget, unit);
  sort(unit.functions);
}

void DwarfLines::list_below(Dwarf_Die& parent, int depth, std::size_t& budget, Unit& unit) {
  Dwarf_Die child;
  if (depth == kMaxDepth || dwarf_child(&parent, &child) != 0) return;
  do {
    if (budget == 0) return;
    --budget;
    const int tag = dwarf_tag(&child);
    if (tag == DW_TAG_subprogram) add_ranges(child, dwarf_dieoffset(&child), unit.functions);
    if (may_hold_functions(tag)) list_below(child, depth + 1, budget, unit);
  } while (next_sibling(child));
}

std::vector<SymbolFrame> DwarfLines::frames_at(std::uint64_t address) {
  if (!are_units_listed_) list_units();
  const Range* unit_range = find(unit_ranges_, address);
  if (unit_range == nullptr) return {};
  Unit& unit = units_[unit_range->what];
  if (!unit.is_listed) list_functions(unit);

  std::vector<SymbolFrame> frames(1);
  read_line(unit.die, address, frames[0]);
  Dwarf_Die function;
  const Range* function_range = find(unit.functions, address);
  if (function_range == nullptr ||
      dwarf_offdie(dwarf_, function_range->what, &function) == nullptr) {
    if (frames[0].line == 0) frames.clear();
    return frames;
  }
  std::vector<Dwarf_Die> inlined = inlined_at(function, address);
  while (!inlined.empty()) {
    frames.back().function = name_of(inlined.back());
    read_call_site(unit.die, inlined.back(), frames.emplace_back());
    inlined.pop_back();
  }
  frames.back().function = name_of(function);
  return frames;
}

}  // namespace gpumemtrace::analyzer
