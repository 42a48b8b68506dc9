// SPDX-License-Identifier: Apache-2.0
// Finds functions, inlined functions, files and lines by address in DWARF debug information.
#pragma once

#include <elfutils/libdw.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace gpumemtrace::analyzer {

// One source function, perhaps inlined, to which an instruction belongs.
struct SymbolFrame {
  std::string function;    // demangled; empty = not known
  std::string file;        // path of the source file; empty = not known
  std::uint32_t line = 0;  // line in the source file; 0 = not known
};

// - Compilation units are found in one table of the file's address ranges, which the first look-up
//   makes; the functions of a unit are listed at the first look-up of an address in the unit.
// - Damaged debug information gives fewer frames. All loops are bounded and go forward only.
class DwarfLines {
 public:
  // `dwarf` must outlive this object.
  explicit DwarfLines(Dwarf* dwarf) : dwarf_(dwarf) {}

  // The frames of the instruction at the file's virtual address, innermost first: inlined
  // functions, then the function into which they were inlined. Empty if nothing is known.
  [[nodiscard]] std::vector<SymbolFrame> frames_at(std::uint64_t address);

 private:
  struct Range {
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
    std::uint64_t what = 0;  // the index of a unit, or the offset of a function's entry
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
