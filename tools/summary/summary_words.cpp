// SPDX-License-Identifier: Apache-2.0
#include "tools/base/text.hpp"
#include "tools/report_view/report_row.hpp"
#include "tools/summary/summary_sections.hpp"

namespace gpumemtrace::tools {

void append(Lines& lines, const Lines& more) {
  lines.insert(lines.end(), more.begin(), more.end());
}

void append(Blocks& blocks, const Blocks& more) {
  blocks.insert(blocks.end(), more.begin(), more.end());
}

void append(std::string& text, const std::string& more) {
  if (!more.empty()) text += (text.empty() ? "" : ", ") + more;
}

std::string name_in_job(const Report& report, const std::string& process_id) {
  const bool needs_no_name = process_id.empty() || report.processes.size() < 2;
  return needs_no_name ? std::string() : process_name(report, process_id);
}

std::string share_text(std::uint64_t bytes, std::uint64_t total) {
  const double share =
      total == 0 ? 0 : 100.0 * static_cast<double>(bytes) / static_cast<double>(total);
  return format_text("{:>3.0f} %", share);
}

std::string named_amount(const std::string& name, const std::string& amount, std::size_t width) {
  constexpr std::size_t kSigns = 2;  // a space before the amount, a comma after it
  if (name.size() + amount.size() + kSigns <= width) return format_text("{} {}", name, amount);
  // The file and line without the function's name.
  const std::string line = name.substr(0, name.rfind(" ("));
  const bool has_room = line.size() + amount.size() + kSigns <= width;
  return format_text("{} {}", has_room ? line : name, amount);
}

}  // namespace gpumemtrace::tools
