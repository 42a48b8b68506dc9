// SPDX-License-Identifier: Apache-2.0
#include "analyzer/report/report_context.hpp"

#include <algorithm>
#include <tuple>

#include "analyzer/frameworks/frameworks.hpp"
#include "analyzer/owners/owners.hpp"

namespace gpumemtrace::analyzer {
namespace {

constexpr std::size_t kMaxHolders = 20;

// The time that exec() takes at most. Until then, other threads of the process may still write
// records; later records show that the exec failed.
constexpr std::uint64_t kExecTakesNs = 2'000'000'000;

bool ended_by_exec(const Process& process) {
  const RunStatistics& statistics = process.model().statistics();
  return statistics.exec_time != 0 && process.time_ns(statistics.last_time) <
                                          process.time_ns(statistics.exec_time) + kExecTakesNs;
}

rows::TraceEnd end_of(const Process& process) {
  using rows::TraceEnd;
  constexpr int kSigkill = 9;
  // A program that writes a snapshot of PyTorch's allocator continues afterwards.
  if (process.file().still_running() || process.preview().source) return TraceEnd::kRunning;
  if (ended_by_exec(process)) return TraceEnd::kExec;
  if (const int signal = process.file().ended_by_signal(); signal != 0) {
    return signal == kSigkill ? TraceEnd::kKilled : TraceEnd::kSignal;
  }
  if (!process.model().statistics().stopped_because.empty()) return TraceEnd::kUnknown;
  const bool has_exited = process.file().exit_seen() || process.model().statistics().exit_seen;
  return has_exited ? TraceEnd::kExit : TraceEnd::kUnknown;
}

}  // namespace

// The names in `known` are used again unless the process's dictionary has changed since.
ReportContext::ReportContext(const Job& job, Symbolizer& symbolizer, const CodeOwners& owners,
                             std::vector<NamedSites> known)
    : owners_(owners), named_sites_(std::move(known)) {
  named_sites_.resize(job.processes.size());
  for (const auto& process : job.processes) {
    ReportProcess entry;
    entry.process = process.get();
    entry.id = "p" + std::to_string(processes_.size() + 1);
    entry.end = end_of(*process);
    entry.losses = losses_of(*process, entry.end);
    entry.inexact = inexact_of(entry.losses);
    if (process->model().statistics().peaks_are_inexact) entry.inexact.memory = true;
    const std::uint64_t version = process->model().program().dictionary().names_version();
    NamedSites& named = named_sites_[processes_.size()];
    if (named.version != version) named = {version, {}};
    processes_.push_back(std::move(entry));
    stack_names_.emplace_back(process->model(), symbolizer, owners);
  }
  name_devices();
  in_parallel(processes_.size(), [this](std::size_t i) { name_groups_and_copies(processes_[i]); });
}

// Gives each physical device one id: the processes of a machine know it by the same UUID.
void ReportContext::name_devices() {
  std::map<std::tuple<std::string, std::uint64_t, std::uint64_t>, std::size_t> by_uuid;
  for (const ReportProcess& process : processes_) {
    for (const auto& [ordinal, state] : process.model().memory().devices.devices()) {
      if (ordinal < 0) continue;
      std::size_t index = devices_.size();
      if (state.has_uuid()) {
        const Preview& preview = process.process->preview();
        const std::string& machine = preview.boot_id.empty() ? preview.host : preview.boot_id;
        index =
            by_uuid.try_emplace({machine, state.uuid_high, state.uuid_low}, index).first->second;
      }
      if (index == devices_.size()) {
        devices_.push_back({"d" + std::to_string(index), {}});
      }
      devices_[index].seen_as.emplace_back(&process, &state);
      device_ids_[{process.id, ordinal}] = devices_[index].id;
    }
  }
}

// Names the sites of all allocations and copies in advance: later questions only look them up.
void ReportContext::name_groups_and_copies(const ReportProcess& process) {
  for (const Group& group : process.model().accounts().groups()) {
    const CallSite framework{0, group.key.site.stack, 0, false};
    if (group.key.kind == Kind::kBlock) {
      name_once(process, framework);
      continue;
    }
    name_once(process, group.key.site);
    if (group.segments != 0) name_once(process, framework);
  }
  for (const TransferRow& copies : process.model().transfers().rows()) {
    if (!copies.key.is_set) name_once(process, copies.key.site);
  }
}

void ReportContext::name_once(const ReportProcess& process, const CallSite& site) {
  const auto [known, added] = named_sites_[index_of(process)].sites.try_emplace(site);
  if (added) known->second = name_site(process, site);
}

rows::OptionalText ReportContext::device_id(const ReportProcess& process,
                                            std::int32_t ordinal) const {
  const auto found = device_ids_.find({process.id, ordinal});
  return found == device_ids_.end() ? rows::OptionalText() : found->second;
}

Identity ReportContext::identity_of_site(const ReportProcess& process, const CallSite& site) const {
  const std::map<CallSite, Identity>& named = named_sites_[index_of(process)].sites;
  const auto known = named.find(site);
  return known == named.end() ? name_site(process, site) : known->second;
}

// The identity of a call site. With native frames the stack gives the owner and the line; without
// them, the module that called gives the owner.
Identity ReportContext::name_site(const ReportProcess& process, const CallSite& site) const {
  const SiteName caller = process.model().program().dictionary().name_of(site);
  const bool through_runtime = caller.module.empty() || is_cuda_runtime(caller.module);
  Identity identity;
  if (names_of(process).has_native_frames(site.stack)) {
    identity.owner = names_of(process).owner_of(site.stack);
    identity.api = caller.api;
  } else if (!caller.module.empty()) {
    const std::string executable =
        process.model().program().dictionary().text(trace::TextKey::kExecutable);
    identity.owner = owners_.owner_of_caller(caller.module, executable);
    if (!through_runtime) {
      identity.api = caller.api;
      identity.has_site = true;
      identity.module = base_name(caller.module);
      identity.offset = caller.offset;
    }
  }
  add_stack(process, site.stack, identity);
  return identity;
}

void set_site(Identity& identity, const StackFrame& frame) {
  identity.has_site = true;
  identity.is_python = frame.is_python;
  identity.function = frame.function;
  identity.file = frame.file;
  identity.line = frame.line;
  identity.module = frame.module;
  identity.offset = frame.line == 0 ? frame.offset : 0;
}

// Takes the site from the stack's frames: they are better evidence than the caller's address.
void ReportContext::add_stack(const ReportProcess& process, trace::StackId stack,
                              Identity& identity) const {
  const StackNames& names = names_of(process);
  const bool is_native = names.has_native_frames(stack);
  const std::optional<StackFrame> users = names.users_frame(stack);
  identity.layers = names.layers_of(stack);
  if (is_native || !users) identity.node = names.autograd_node_of(stack);
  if (is_native || names.has_python_frames(stack)) {
    identity.stack = process.id + ":" + std::to_string(number_of(stack));
  }
  if (!users) {
    if (!identity.node.empty()) {
      identity.has_site = true;
      identity.function = identity.node;
    }
    return;
  }
  set_site(identity, *users);
}

Identity ReportContext::identity_of(const ReportProcess& process, const HolderKey& holder) const {
  const GroupKey& key = process.model().accounts().group(holder.group).key;
  const bool segment = level_of(key.kind) == Level::kDriver && holder.segment;
  if (key.kind != Kind::kBlock && !segment) return identity_of_site(process, key.site);
  return identity_of_framework(process, key.site.stack);
}

Identity ReportContext::identity_of_framework(const ReportProcess& process,
                                              trace::StackId stack) const {
  // The framework makes its requests to the driver and hands out blocks of that memory itself, so
  // it is the owner of both.
  CallSite site;
  site.stack = stack;
  Identity identity = identity_of_site(process, site);
  identity.owner = framework_with_blocks().owner;
  return identity;
}

TallyByIdentity ReportContext::tally(const ReportProcess& process, const Holders& holders) const {
  TallyByIdentity result;
  for (const auto* entry : largest_first(holders, &Tally::bytes)) {
    const auto& [holder, tally] = *entry;
    Identity identity = identity_of(process, holder);
    identity.phase = name_of(process.model().accounts().group(holder.group).key.phase);
    identity.guess = holder.guess;
    result[std::move(identity)].merge(tally);
  }
  return result;
}

std::optional<rows::Site> site_row(const Identity& identity) {
  if (!identity.has_site) return std::nullopt;
  rows::Site site;
  site.function = rows::text_or_none(identity.function);
  site.file = rows::text_or_none(identity.file);
  site.line = rows::number_or_none(identity.line);
  site.module = rows::text_or_none(identity.module);
  site.language = identity.is_python ? rows::Language::kPython : rows::Language::kNative;
  site.offset = rows::number_or_none(identity.offset);
  site.api = rows::text_or_none(identity.api);
  site.node = rows::text_or_none(identity.node);
  return site;
}

rows::Origin origin_of(const Identity& identity) {
  return {rows::text_or_none(identity.owner), site_row(identity),
          rows::text_or_none(identity.stack)};
}

bool loads_framework_with_blocks(const ReportProcess& process) {
  const Dictionary& dictionary = process.model().program().dictionary();
  const std::string_view library = *framework_with_blocks().code.libraries.begin();
  return !dictionary.text(trace::TextKey::kTorchVersion).empty() ||
         !dictionary.find_module(library).empty();
}

rows::OptionalLocation location_of(const ReportContext& context, const ReportProcess& process,
                                   const CallSite& site) {
  if (site == CallSite{}) return std::nullopt;
  const Identity identity = context.identity_of_site(process, site);
  std::optional<rows::Site> row = site_row(identity);
  if (!row) return std::nullopt;
  return rows::CodeLocation{*std::move(row), rows::text_or_none(identity.stack)};
}

bool is_freed_elsewhere(const ReportContext& context, const ReportProcess& process,
                        const Releases& releases) {
  const rows::OptionalLocation first = location_of(context, process, releases.first_at);
  return releases.has_unlisted_sites ||
         std::ranges::any_of(releases.others, [&](const CallSite& site) {
           const rows::OptionalLocation other = location_of(context, process, site);
           return !first || !other || other->site != first->site;
         });
}

rows::Releases releases_row(const ReportContext& context, const ReportProcess& process,
                            const Releases* releases) {
  if (releases == nullptr) return {};
  return {releases->count, location_of(context, process, releases->first_at),
          is_freed_elsewhere(context, process, *releases)};
}

std::vector<rows::Holder> holder_rows(const TallyByIdentity& holders, std::uint64_t total_bytes) {
  const auto share_of = [&](std::uint64_t bytes) {
    if (total_bytes == 0) return 0.0;
    return std::min(1.0, static_cast<double>(bytes) / static_cast<double>(total_bytes));
  };
  std::vector<rows::Holder> list;
  rows::Holder rest;
  rest.bytes = total_bytes;
  rest.origin.owner = "other";
  for (const auto* holder : largest_first(holders, &Tally::bytes)) {
    const auto& [identity, tally] = *holder;
    if (list.size() == kMaxHolders) {
      rest.count += tally.count;
      continue;
    }
    rest.bytes -= std::min(rest.bytes, tally.bytes);
    list.push_back({tally.bytes, tally.count, share_of(tally.bytes), identity.guess.category,
                    identity.guess.confidence, rows::text_or_none(identity.phase),
                    rows::text_or_none(identity.layers), origin_of(identity)});
  }
  rest.share = share_of(rest.bytes);
  list.push_back(std::move(rest));
  return list;
}

bool is_inexact(const ReportProcess& process, Level level) {
  return level == Level::kFramework ? process.inexact.framework : process.inexact.memory;
}

}  // namespace gpumemtrace::analyzer
