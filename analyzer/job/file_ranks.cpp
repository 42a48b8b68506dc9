// SPDX-License-Identifier: Apache-2.0
#include "analyzer/job/file_ranks.hpp"

#include <regex>
#include <set>
#include <string>

#include "trace/source_files.hpp"

namespace gpumemtrace::analyzer {
namespace {

using RanksOfFiles = std::vector<std::optional<std::uint64_t>>;

std::string name_of(const std::filesystem::path& file) {
  return trace::unpacked_name(file).stem().string();
}

// The numbers behind the word "rank" in a name, but not those behind "local_rank", with or without
// letters before it.
std::set<std::uint64_t> named_ranks(const std::string& name) {
  static const std::regex kRank("(^|[^a-z])([a-z]*local[-_]?)?rank[-_=]?([0-9]{1,6})(?![0-9])",
                                std::regex::icase);
  std::set<std::uint64_t> ranks;
  for (std::sregex_iterator match(name.begin(), name.end(), kRank), end; match != end; ++match) {
    if (!(*match)[2].matched) ranks.insert(std::stoull((*match)[3]));
  }
  return ranks;
}

// The numbers in a name, and the text around them.
struct NumberedName {
  explicit NumberedName(const std::string& name) {
    static const std::regex kNumber("[0-9]{1,6}");
    text = std::regex_replace(name, kNumber, "#");
    for (std::sregex_iterator match(name.begin(), name.end(), kNumber), end; match != end;
         ++match) {
      numbers.push_back(std::stoull(match->str()));
    }
  }
  std::string text;
  std::vector<std::uint64_t> numbers;
};

// The ranks of files whose names differ in one number, from 0 on without a gap; empty if they do
// not.
RanksOfFiles numbered_files(std::span<const std::filesystem::path> files) {
  const NumberedName first(name_of(files.front()));
  std::vector<RanksOfFiles> columns(first.numbers.size());
  for (const std::filesystem::path& file : files) {
    const NumberedName name(name_of(file));
    if (name.text != first.text || file.parent_path() != files.front().parent_path()) return {};
    for (std::size_t i = 0; i < columns.size(); ++i) columns[i].emplace_back(name.numbers[i]);
  }
  std::erase_if(columns, [](const RanksOfFiles& column) {
    return std::set(column.begin(), column.end()).size() == 1;
  });
  if (columns.size() != 1) return {};
  const std::set<std::optional<std::uint64_t>> numbers(columns[0].begin(), columns[0].end());
  const bool is_gapless = numbers.size() == files.size() && *numbers.rbegin() == files.size() - 1;
  return is_gapless ? columns[0] : RanksOfFiles();
}

}  // namespace

RanksOfFiles ranks_by_name(std::span<const std::filesystem::path> files) {
  const RanksOfFiles none(files.size());
  RanksOfFiles ranks;
  std::set<std::uint64_t> known;
  bool is_any_named = false;
  for (const std::filesystem::path& file : files) {
    const std::set<std::uint64_t> named = named_ranks(name_of(file));
    is_any_named = is_any_named || !named.empty();
    if (named.size() == 1 && known.insert(*named.begin()).second)
      ranks.emplace_back(*named.begin());
  }
  if (ranks.size() == files.size()) return ranks;
  if (is_any_named || files.size() < 2) return none;
  ranks = numbered_files(files);
  return ranks.empty() ? none : ranks;
}

}  // namespace gpumemtrace::analyzer
