// SPDX-License-Identifier: Apache-2.0
// Finds the groups of ranks that work together, and those that should hold as much memory as each
// other.
#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "analyzer/base/input_error.hpp"
#include "analyzer/report/group_sizes.hpp"
#include "analyzer/report/sections.hpp"

namespace gpumemtrace::analyzer {
namespace {

using rows::GroupBasis;
using rows::GroupKind;
using Ranks = std::vector<std::uint64_t>;  // numbers of ranks, in ascending order

// The part of a model that a rank has, by what its memory shows.
struct RankShape {
  std::uint64_t rank = 0;
  std::string process;
  std::set<std::string> layers;  // the layers that have parameters
  std::uint64_t parameter_bytes = 0;
  // True if the rank shows data parallelism: gathered parameters, or DistributedDataParallel.
  bool copies_data = false;
};

std::uint64_t number_in(const rows::NamedNumbers& numbers, std::string_view name) {
  const auto found = std::ranges::find(numbers, name, [](const auto& row) { return row.first; });
  return found == numbers.end() ? 0 : found->second;
}

// The first process of each rank, by rank: later processes of the same rank are its children.
std::vector<RankShape> rank_shapes(const rows::Report& sections) {
  std::map<std::uint64_t, RankShape> by_rank;
  for (const rows::Process& process : sections.processes) {
    if (!process.rank) continue;
    const auto [shape, is_first] = by_rank.try_emplace(*process.rank);
    if (!is_first) continue;
    shape->second.rank = *process.rank;
    shape->second.process = process.id;
  }
  std::map<std::string, RankShape*> by_process;
  for (auto& [rank, shape] : by_rank) by_process[shape.process] = &shape;
  for (const rows::Peak& peak : sections.peak) {
    const auto found = by_process.find(peak.process);
    if (found == by_process.end() || !peak.categories) continue;
    RankShape& shape = *found->second;
    shape.parameter_bytes += number_in(*peak.categories, "parameter");
    if (number_in(*peak.categories, "gathered") != 0) shape.copies_data = true;
  }
  for (const rows::Module& module : sections.modules) {
    const auto found = by_process.find(module.process);
    if (found == by_process.end() || !module.path) continue;
    RankShape& shape = *found->second;
    if (module.path->starts_with("DistributedDataParallel")) shape.copies_data = true;
    if (number_in(module.categories, "parameter") == 0) continue;
    shape.layers.insert(*module.path + ' ' + module.name.value_or(""));
  }
  std::vector<RankShape> shapes;
  for (auto& [rank, shape] : by_rank) shapes.push_back(std::move(shape));
  return shapes;
}

// Classes of ranks with the same layers and about as many bytes of parameters. Stages of a pipeline
// and shards of another size are classes of their own.
std::vector<Ranks> alike_ranks(const std::vector<RankShape>& shapes) {
  constexpr std::uint64_t kNoise = 1 << 20;
  constexpr std::uint64_t kNoiseShare = 20;
  std::map<std::set<std::string>, std::vector<const RankShape*>> by_layers;
  for (const RankShape& shape : shapes) by_layers[shape.layers].push_back(&shape);
  std::vector<Ranks> classes;
  for (auto& [layers, members] : by_layers) {
    std::ranges::stable_sort(members, {}, &RankShape::parameter_bytes);
    std::optional<std::uint64_t> before;
    for (const RankShape* const shape : members) {
      const std::uint64_t bytes = shape->parameter_bytes;
      const bool is_like = before && bytes <= *before + *before / kNoiseShare + kNoise;
      if (!is_like) classes.emplace_back();
      classes.back().push_back(shape->rank);
      before = bytes;
    }
  }
  for (Ranks& ranks : classes) std::ranges::sort(ranks);
  std::ranges::sort(classes);
  return classes;
}

// The number of ranks of the whole job: that of the known ranks, or a larger one that a process
// gives, since the traces may be of one node of several.
std::uint64_t world_size(const rows::Report& sections, const std::vector<RankShape>& shapes) {
  std::uint64_t size = shapes.empty() ? 0 : shapes.back().rank + 1;
  for (const rows::Process& process : sections.processes) {
    if (process.rank) size = std::max(size, process.world_size.value_or(0));
  }
  return size;
}

// The group sizes that the user or the program gave; no value if neither gave any.
std::optional<GroupSizes> given_sizes(const rows::Report& sections,
                                      const std::vector<RankShape>& shapes) {
  if (!sections.groups_given || shapes.empty()) return std::nullopt;
  return fit_group_sizes(parse_group_sizes(*sections.groups_given), world_size(sections, shapes));
}

// One list of ranks for each value of key_of(rank).
template <class Key>
std::vector<Ranks> ranks_by(const std::vector<RankShape>& shapes, const Key& key_of) {
  std::map<decltype(key_of(0)), Ranks> by_key;
  for (const RankShape& shape : shapes) by_key[key_of(shape.rank)].push_back(shape.rank);
  std::vector<Ranks> lists;
  for (auto& [key, ranks] : by_key) lists.push_back(std::move(ranks));
  return lists;
}

void add_groups(std::vector<Ranks> lists, std::optional<GroupKind> kind, GroupBasis basis,
                std::vector<rows::RankGroup>& groups) {
  std::ranges::sort(lists);
  for (Ranks& ranks : lists) {
    if (ranks.size() > 1) groups.push_back({kind, std::move(ranks), basis});
  }
}

// Adds the groups that the given sizes describe: ranks that differ along one axis only are a group.
void add_given(const std::vector<RankShape>& shapes, const GroupSizes& sizes,
               std::vector<rows::RankGroup>& groups) {
  for (const GroupKind kind : {GroupKind::kData, GroupKind::kTensor, GroupKind::kPipeline}) {
    const GroupAxis* const axis = sizes.axis(kind);
    if (axis == nullptr || axis->size == 1) continue;
    add_groups(
        ranks_by(shapes,
                 [&](std::uint64_t rank) { return rank - axis->coordinate(rank) * axis->stride; }),
        kind, GroupBasis::kGiven, groups);
  }
  if (sizes.experts == 1) return;
  const GroupAxis& data = *sizes.axis(GroupKind::kData);
  add_groups(ranks_by(shapes,
                      [&](std::uint64_t rank) {
                        return rank - data.coordinate(rank) % sizes.experts * data.stride;
                      }),
             GroupKind::kExpert, GroupBasis::kGiven, groups);
}

// The ranks of one communicator, as the rows of several processes give them.
struct Members {
  std::set<std::uint64_t> ranks;    // the ranks' numbers in the job
  std::set<std::uint64_t> numbers;  // the ranks' numbers in the communicator
  std::set<std::uint64_t> sizes;
  std::size_t rows = 0;

  // False if rows contradict each other, so that they cannot be of one communicator.
  [[nodiscard]] bool is_one() const {
    return sizes.size() == 1 && ranks.size() == rows && numbers.size() == rows &&
           rows <= *sizes.begin();
  }
};

// Rows of different processes are of one communicator if NCCL's hash says so, or if the
// communicator has all ranks of the job. Other rows could be joined in several ways, and are not
// joined.
std::set<Ranks> communicating_ranks(const rows::Report& sections,
                                    const std::vector<RankShape>& shapes) {
  std::map<std::string, std::uint64_t> rank_of;
  for (const RankShape& shape : shapes) rank_of[shape.process] = shape.rank;
  const std::uint64_t all = world_size(sections, shapes);
  std::map<std::string, Members> by_hash;
  std::set<std::uint64_t> with_all;
  for (const rows::Communicator& row : sections.communicators) {
    const auto rank = rank_of.find(row.process);
    if (rank == rank_of.end() || !row.ranks || !row.rank) continue;
    if (*row.ranks == all) with_all.insert(rank->second);
    if (!row.nccl_hash) continue;
    Members& members = by_hash[*row.nccl_hash];
    members.ranks.insert(rank->second);
    members.numbers.insert(*row.rank);
    members.sizes.insert(*row.ranks);
    ++members.rows;
  }
  std::set<Ranks> groups;
  for (const auto& [hash, members] : by_hash) {
    if (members.is_one()) groups.insert(Ranks(members.ranks.begin(), members.ranks.end()));
  }
  if (with_all.size() == shapes.size()) groups.insert(Ranks(with_all.begin(), with_all.end()));
  return groups;
}

// True if no two of these ranks have a layer in common.
bool have_different_layers(const std::vector<const RankShape*>& members) {
  std::set<std::string> seen;
  for (const RankShape* const shape : members) {
    if (shape->layers.empty()) return false;
    for (const std::string& layer : shape->layers) {
      if (!seen.insert(layer).second) return false;
    }
  }
  return true;
}

// The kind of a group of ranks that communicate or are alike, as far as their memory shows. Stages
// of a pipeline have no layer in common. Ranks that show data parallelism are a data group if they
// are alike and in no other group that communicates.
std::optional<GroupKind> kind_of(const Ranks& ranks, const std::vector<RankShape>& shapes,
                                 const std::vector<Ranks>& classes,
                                 const std::set<Ranks>& communicating) {
  std::vector<const RankShape*> members;
  for (const RankShape& shape : shapes) {
    if (std::ranges::binary_search(ranks, shape.rank)) members.push_back(&shape);
  }
  if (have_different_layers(members)) return GroupKind::kPipeline;
  if (!std::ranges::all_of(members, &RankShape::copies_data)) return std::nullopt;
  const bool are_alike = std::ranges::any_of(
      classes, [&](const Ranks& alike) { return std::ranges::includes(alike, ranks); });
  const bool are_in_others = std::ranges::any_of(communicating, [&](const Ranks& other) {
    return other.size() > 1 && other != ranks &&
           std::ranges::find_first_of(other, ranks) != other.end();
  });
  return are_alike && !are_in_others ? std::optional(GroupKind::kData) : std::nullopt;
}

// The groups of ranks that hold the same part of the model, by the given group sizes. Ranks of one
// expert group hold different experts; if too few ranks hold the same experts, all ranks of a
// pipeline stage are one group, compared without the memory of experts.
std::vector<Ranks> given_peers(const std::vector<RankShape>& shapes, const GroupSizes& sizes) {
  const auto coordinate = [&](GroupKind kind, std::uint64_t rank) {
    const GroupAxis* const axis = sizes.axis(kind);
    return axis == nullptr ? 0 : axis->coordinate(rank);
  };
  const auto stage = [&](std::uint64_t rank) { return coordinate(GroupKind::kPipeline, rank); };
  constexpr std::size_t kFewPeers = 3;
  std::vector<Ranks> peers = ranks_by(shapes, [&](std::uint64_t rank) {
    return std::pair(stage(rank), coordinate(GroupKind::kData, rank) % sizes.experts);
  });
  const bool are_few =
      std::ranges::any_of(peers, [](const Ranks& ranks) { return ranks.size() < kFewPeers; });
  return sizes.experts > 1 && are_few ? ranks_by(shapes, stage) : peers;
}

// Joins two classes if one is a single rank that differs from all others: they are compared, since
// it holds something in addition. Several different ranks may be stages of a pipeline.
std::vector<Ranks> inferred_peers(std::vector<Ranks> classes) {
  constexpr std::size_t kLeastOthers = 3;
  if (classes.size() != 2) return classes;
  Ranks& first = classes.front();
  Ranks& second = classes.back();
  const bool is_one_of_many = std::min(first.size(), second.size()) == 1 &&
                              std::max(first.size(), second.size()) >= kLeastOthers;
  if (!is_one_of_many) return classes;
  first.insert(first.end(), second.begin(), second.end());
  std::ranges::sort(first);
  classes.pop_back();
  return classes;
}

}  // namespace

rows::OptionalText report_groups_given(const rows::Report& sections, const std::string& option) {
  const std::uint64_t ranks = world_size(sections, rank_shapes(sections));
  if (!option.empty()) {
    if (!fit_group_sizes(parse_group_sizes(option), ranks)) {
      throw InputError("--groups " + option + " does not make the " + std::to_string(ranks) +
                       " ranks of this job. Give sizes whose product is that number.");
    }
    return option;
  }
  std::set<std::string> texts;
  for (const rows::Process& process : sections.processes) {
    if (process.rank) texts.insert(group_sizes_of_command(process.command));
  }
  if (texts.size() != 1 || texts.begin()->empty()) return std::nullopt;
  const bool fits = fit_group_sizes(parse_group_sizes(*texts.begin()), ranks).has_value();
  return fits ? rows::OptionalText(*texts.begin()) : std::nullopt;
}

std::vector<rows::RankGroup> report_rank_groups(const rows::Report& sections) {
  const std::vector<RankShape> shapes = rank_shapes(sections);
  const std::vector<Ranks> classes = alike_ranks(shapes);
  const std::set<Ranks> communicating = communicating_ranks(sections, shapes);
  const std::optional<GroupSizes> given = given_sizes(sections, shapes);
  std::vector<rows::RankGroup> groups;
  if (given) add_given(shapes, *given, groups);
  for (const Ranks& ranks : communicating) {
    add_groups({ranks}, kind_of(ranks, shapes, classes, communicating), GroupBasis::kCommunicator,
               groups);
  }
  if (given) return groups;
  for (const Ranks& ranks : classes) {
    const auto member = std::ranges::find(shapes, ranks.front(), &RankShape::rank);
    if (member->layers.empty() && member->parameter_bytes == 0) continue;
    add_groups({ranks}, kind_of(ranks, shapes, classes, communicating), GroupBasis::kInferred,
               groups);
  }
  return groups;
}

std::map<std::string, std::uint64_t> peer_groups(const rows::Report& sections) {
  const std::vector<RankShape> shapes = rank_shapes(sections);
  const std::optional<GroupSizes> given = given_sizes(sections, shapes);
  std::map<std::uint64_t, std::string> process_of;
  for (const RankShape& shape : shapes) process_of[shape.rank] = shape.process;
  std::vector<Ranks> lists =
      given ? given_peers(shapes, *given) : inferred_peers(alike_ranks(shapes));
  std::ranges::sort(lists);
  std::map<std::string, std::uint64_t> numbers;
  std::uint64_t number = 0;
  for (const Ranks& ranks : lists) {
    if (ranks.size() < 2) continue;
    for (const std::uint64_t rank : ranks) numbers[process_of[rank]] = number;
    ++number;
  }
  return numbers;
}

}  // namespace gpumemtrace::analyzer
