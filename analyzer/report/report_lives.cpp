// SPDX-License-Identifier: Apache-2.0
// Sizes and lifetimes of allocations: sizes[], lifetimes[], temporary[], largest_blocks[] and
// blocks[].
#include <map>

#include "analyzer/report/report_context.hpp"
#include "analyzer/report/sections.hpp"
#include "analyzer/report/site_key.hpp"
#include "analyzer/rows/life_rows.hpp"

namespace gpumemtrace::analyzer {
namespace {

constexpr std::size_t kMostTemporaries = 300;  // the most rows of temporary[] for each process

// True for memory with a device or host address. Arrays and physical memory have handles instead.
bool has_address(Kind kind) {
  return kind != Kind::kArray && kind != Kind::kVmm && kind != Kind::kVmmHost &&
         kind != Kind::kImportedVmm;
}

// Visits each account (all memory of one level on one device) that ever held memory. Mappings are
// left out: they are address space.
template <class Visit>
void for_each_account(const ReportProcess& process, Visit&& visit) {
  for (const Account& account : process.model().accounts().accounts()) {
    if (account.level != Level::kMapping && account.peak.happened()) visit(account);
  }
}

// The account's allocations that were live at `moment`, the largest first; of equal ones, the
// oldest.
std::vector<ReleasedAllocation> lives_at(const PeakSnapshot& moment, const ReportProcess& process,
                                         const Account& account) {
  std::vector<ReleasedAllocation> lives =
      process.model().holders().lives_at(moment, account.level, account.device);
  std::ranges::stable_sort(lives, {}, [](const ReleasedAllocation& life) {
    return std::pair(~life.entry.bytes, life.entry.born);
  });
  return lives;
}

// True if the histograms have every allocation: no record is missing, and no checkpoint replaced
// single allocations by sums.
bool is_whole(const ReportProcess& process, Level level) {
  return !is_inexact(process, level) && process.model().statistics().checkpoint_time == 0;
}

Histogram::Row allocated_in(const Accounts& accounts, const Account& account) {
  Histogram::Row sum;
  for (const UsageRow& row : accounts.rows()) {
    if (row.account != &account) continue;
    sum.count += row.allocations;
    sum.bytes += row.allocated_bytes;
  }
  return sum;
}

// Adds a row for each range of the histogram that has allocations, and one row for allocations in
// no range, so that the rows sum to all allocations.
template <class Row>
void add_histogram(const ReportContext& context, const ReportProcess& process,
                   const Account& account, const Histogram& histogram,
                   rows::OptionalNumber Row::*from, rows::OptionalNumber Row::*to,
                   std::vector<Row>& list) {
  auto row = context.row_on<Row>(process, account.device);
  row.level = account.level;
  row.is_exact = is_whole(process, account.level);
  Histogram::Row rest = allocated_in(process.model().accounts(), account);
  for (std::size_t i = 0; i < histogram.rows().size(); ++i) {
    const Histogram::Row& range = histogram.rows()[i];
    if (range.count == 0) continue;
    row.*from = i == 0 ? 0 : std::uint64_t{1} << (i - 1);
    (row.*to).reset();
    if (i + 1 < Histogram::kRows) row.*to = std::uint64_t{1} << i;
    row.count = range.count;
    row.bytes = range.bytes;
    rest.count -= std::min(rest.count, range.count);
    rest.bytes -= std::min(rest.bytes, range.bytes);
    list.push_back(row);
  }
  if (rest.count == 0) return;
  (row.*from).reset();
  (row.*to).reset();
  row.count = rest.count;
  row.bytes = rest.bytes;
  list.push_back(std::move(row));
}

// Sums of temporary allocations by site; the rows have their stacks, but not yet their sites.
using TemporariesBySite = std::map<SiteKey, rows::Temporary>;

TemporariesBySite sum_temporaries(const ReportContext& context, const ReportProcess& process) {
  TemporariesBySite sums;
  const std::vector<Group>& groups = process.model().accounts().groups();
  for (std::uint32_t i = 0; i < groups.size(); ++i) {
    const Group& group = groups[i];
    if (group.allocations == 0) continue;
    SiteKey key{group.key.device, level_of(group.key.kind),
                context.identity_of(process, {i, group.segments != 0})};
    const std::string stack = take_stack(key.identity);
    rows::Temporary& sum = sums[std::move(key)];
    sum.count += group.temporaries;
    sum.bytes += group.temporary_bytes;
    sum.allocations += group.allocations;
    if (!sum.origin.stack && group.temporaries != 0) sum.origin.stack = rows::text_or_none(stack);
  }
  std::erase_if(sums, [](const auto& row) { return row.second.count == 0; });
  return sums;
}

rows::Temporary temporary_row(const ReportContext& context, const ReportProcess& process,
                              const SiteKey& key, rows::Temporary row) {
  add_place(row, context, process, key);
  row.is_exact = is_whole(process, key.level);
  return row;
}

// The rows of sites with the most temporary allocations, and one row for all other sites of each
// device and level.
std::vector<rows::Temporary> temporary_rows(const ReportContext& context,
                                            const ReportProcess& process) {
  const TemporariesBySite sums = sum_temporaries(context, process);
  std::vector<rows::Temporary> list;
  TemporariesBySite rest;
  for (const auto* site : largest_first(sums, &rows::Temporary::count)) {
    const auto& [key, of_site] = *site;
    if (list.size() < kMostTemporaries) {
      list.push_back(temporary_row(context, process, key, of_site));
      continue;
    }
    SiteKey other{key.device, key.level, {}};
    other.identity.owner = "other";
    rows::Temporary& of_rest = rest[std::move(other)];
    of_rest.count += of_site.count;
    of_rest.bytes += of_site.bytes;
    of_rest.allocations += of_site.allocations;
  }
  for (const auto& [key, of_rest] : rest) {
    list.push_back(temporary_row(context, process, key, of_rest));
  }
  return list;
}

rows::Block block_row(const ReportContext& context, const ReportProcess& process,
                      const ReleasedAllocation& life) {
  const ProcessModel& model = process.model();
  const GroupKey& key = model.accounts().group(life.entry.group).key;
  const Identity identity = context.identity_of(process, {life.entry.group, life.entry.link != 0});
  auto row = context.row_on<rows::Block>(process, key.device);
  row.level = level_of(key.kind);
  row.bytes = life.entry.bytes;
  row.start_ns = process.known_time_ns(life.entry.born);
  row.end_ns = process.time_ns(life.end);
  row.category = static_cast<Category>(life.use.category);
  row.category_confidence = static_cast<Confidence>(life.use.confidence);
  row.layers = rows::text_or_none(identity.layers);
  row.origin = origin_of(identity);
  if (life.use.tensors != 0) {
    const TensorName& first = model.program().tensor_names().names(life.use.tensors).front();
    row.name = rows::text_or_none(model.program().steps().name_of(first.name));
  }
  return row;
}

// The allocations of an account (one level on one device) with the most bytes times lifetime, and
// the largest of those that were live at its peak, at most `most` of each.
rows::LargestOfAccount largest_of(const ReportContext& context, const ReportProcess& process,
                                  const Account& account, std::size_t most) {
  rows::LargestOfAccount largest;
  largest.process = process.id;
  std::vector<ReleasedAllocation> lives = account.largest.all();
  lives.resize(std::min(lives.size(), most));
  largest.most_lasting = lives.size();
  std::map<std::pair<std::uint64_t, std::uint64_t>, std::size_t> known;
  for (std::size_t i = 0; i < lives.size(); ++i) {
    known.try_emplace({lives[i].entry.born, lives[i].entry.address}, i);
  }
  std::vector<ReleasedAllocation> at_peak = lives_at(account.peak, process, account);
  const Window& window = process.model().accounts().window();
  const std::uint64_t peak = account.peak.time();
  const bool has_peak = peak >= window.first && peak <= window.last;
  at_peak.resize(has_peak ? std::min(at_peak.size(), most) : 0);
  for (const ReleasedAllocation& life : at_peak) {
    const auto [index, is_new] =
        known.try_emplace({life.entry.born, life.entry.address}, lives.size());
    if (is_new) lives.push_back(life);
    largest.at_peak.push_back(index->second);
  }
  for (const ReleasedAllocation& life : lives) {
    rows::LargestBlock row;
    static_cast<rows::Block&>(row) = block_row(context, process, life);
    row.is_at_peak = life.entry.born <= peak && (life.end == 0 || life.end > peak);
    largest.blocks.push_back(std::move(row));
  }
  return largest;
}

}  // namespace

std::vector<rows::BlockAt> report_blocks(const ReportContext& context, const BlocksWanted& wanted) {
  const auto add_rows = [&](const ReportProcess& process, std::vector<rows::BlockAt>& list) {
    const auto add = [&](const Account& account, const PeakSnapshot& moment, rows::BlocksAt at,
                         std::uint64_t time_ns) {
      if (!moment.happened() || moment.is_restored()) return;
      for (const ReleasedAllocation& life : lives_at(moment, process, account)) {
        rows::BlockAt row;
        static_cast<rows::Block&>(row) = block_row(context, process, life);
        row.at = at;
        row.time_ns = time_ns;
        const Kind kind = process.model().accounts().group(life.entry.group).key.kind;
        if (has_address(kind)) row.address = life.entry.address;
        list.push_back(std::move(row));
      }
    };
    for_each_account(process, [&](const Account& account) {
      if (wanted.at_peak) {
        add(account, account.peak, rows::BlocksAt::kPeak,
            process.known_time_ns(account.peak.time()));
      }
      if (wanted.at_ns)
        add(account, account.requested_snapshot, rows::BlocksAt::kTime, *wanted.at_ns);
    });
  };
  return context.gather<rows::BlockAt>(add_rows);
}

std::vector<rows::SizeRange> report_sizes(const ReportContext& context) {
  const auto add_rows = [&](const ReportProcess& process, std::vector<rows::SizeRange>& list) {
    for_each_account(process, [&](const Account& account) {
      add_histogram(context, process, account, account.sizes, &rows::SizeRange::from_bytes,
                    &rows::SizeRange::to_bytes, list);
    });
  };
  return context.gather<rows::SizeRange>(add_rows);
}

std::vector<rows::LifetimeRange> report_lifetimes(const ReportContext& context) {
  const auto add_rows = [&](const ReportProcess& process, std::vector<rows::LifetimeRange>& list) {
    for_each_account(process, [&](const Account& account) {
      add_histogram(context, process, account, account.lifetimes, &rows::LifetimeRange::from_ns,
                    &rows::LifetimeRange::to_ns, list);
    });
  };
  return context.gather<rows::LifetimeRange>(add_rows);
}

std::vector<rows::Temporary> report_temporary(const ReportContext& context) {
  const auto add_rows = [&](const ReportProcess& process, std::vector<rows::Temporary>& list) {
    for (rows::Temporary& row : temporary_rows(context, process)) list.push_back(std::move(row));
  };
  return context.gather<rows::Temporary>(add_rows);
}

std::size_t count_accounts(const ReportContext& context) {
  std::size_t accounts = 0;
  for (const ReportProcess& process : context.processes()) {
    for_each_account(process, [&](const Account&) { ++accounts; });
  }
  return accounts;
}

std::vector<rows::LargestOfAccount> report_largest_blocks(const ReportContext& context,
                                                          std::size_t most) {
  const auto add_rows = [&](const ReportProcess& process,
                            std::vector<rows::LargestOfAccount>& list) {
    for_each_account(process, [&](const Account& account) {
      list.push_back(largest_of(context, process, account, most));
    });
  };
  return context.gather<rows::LargestOfAccount>(add_rows);
}

}  // namespace gpumemtrace::analyzer
