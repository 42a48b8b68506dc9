// SPDX-License-Identifier: Apache-2.0
// Functions, inlined functions, files and lines from DWARF debug information.
#pragma once

#include <elfutils/libdw.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace gpumemtrace::analyzer {

// One function in the source that an instruction belongs to.
struct SymbolFrame {
  std::string function;    // readable; empty = not known
  std::string file;        // empty = not known
  std::uint32_t line = 0;  // 0 = not known
};

// - Units are found by one table of ranges for the whole file, which is made at the first question;
//   a unit's functions are listed when the first address falls into the unit.
// - Damaged information gives fewer frames. All walks are bounded and go forward only.
class DwarfLines {
 public:
  // `dwarf` is borrowed and outlives this object.
  explicit DwarfLines(Dwarf* dwarf) : dwarf_(dwarf) {}

  // The frames of the instruction at the file's virtual address, innermost first: inlined
  // functions, then the one that they were inlined into. Empty if nothing is known.
  [[nodiscard]] std::vector<SymbolFrame> frames_at(std::uint64_t address);

 private:
  struct Range {
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
    std::uint64_t what = 0;  // index of the unit; offset of the function's entry
  };
  struct Unit {
    Dwarf_Die die;
    bool is_listed = false;
    std::vector<Range> functions;
  };

  void list_units();
  static void list_functions(Unit& unit);
  static void list_below(Dwarf_Die& parent, int depth, std::size_t& budget, Unit& unit);
  static void add_ranges(Dwarf_Die& die, std::uint64_t what, std::vector<Range>& ranges);
  static void sort(std::vector<Range>& ranges);
  static const Range* find(const std::vector<Range>& ranges, std::uint64_t address);

  Dwarf* dwarf_;
  bool are_units_listed_ = false;
  std::vector<Unit> units_;
  std::vector<Range> unit_ranges_;
};

}  // namespace gpumemtrace::analyzer
