#include "analyzer/report/report_context.hpp"

#include <algorithm>
#include <tuple>

#include "analyzer/owners.hpp"

namespace gpumemtrace::analyzer {
namespace {

constexpr std::size_t kMaxHolders = 20;

// What the background thread and other threads still wrote when a thread was about to exec is not
// later than this; what is later says that the exec failed.
constexpr std::uint64_t kExecTakesNs = 2'000'000'000;

bool ended_by_exec(const Process& process) {
  const Course& course = process.model().course();
  return course.exec_time != 0 &&
         process.time_ns(course.last_time) < process.time_ns(course.exec_time) + kExecTakesNs;
}

TraceEnd end_of(const Process& process) {
  constexpr int kSigkill = 9;
  if (process.file().still_running()) return TraceEnd::kRunning;
  if (ended_by_exec(process)) return TraceEnd::kExec;
  if (const int signal = process.file().ended_by_signal(); signal != 0) {
    return signal == kSigkill ? TraceEnd::kKilled : TraceEnd::kSignal;
  }
  if (process.file().exit_seen() || process.model().course().exit_seen) return TraceEnd::kExit;
  return process.file().has_ring() ? TraceEnd::kKilled : TraceEnd::kUnknown;
}

Losses losses_of(const Process& process, TraceEnd end) {
  const Course& course = process.model().course();
  const trace::ReadLosses& read = process.read_losses();
  const trace::TraceFile& file = process.file();
  Losses losses;
  // The ring counts all drops of the run; gap records say what was dropped where.
  losses.add(Loss::dropped_allocations, std::max(course.dropped.allocations, file.dropped(0)));
  losses.add(Loss::dropped_frees, std::max(course.dropped.frees, file.dropped(1)));
  losses.add(Loss::dropped_copies, std::max(course.dropped.copies, file.dropped(2)));
  losses.add(Loss::dropped_blocks, std::max(course.dropped.blocks, file.dropped(3)));
  losses.add(Loss::dropped_others, std::max(course.dropped.others, file.dropped(4)));
  losses.add(Loss::recording_disabled, course.disabled ? 1 : 0);
  losses.add(Loss::paused, course.pauses);
  losses.add(Loss::corrupt_blocks, read.corrupt_blocks);
  // What a killed process was about to pack is still in its ring.
  losses.add(Loss::truncated_tail, file.has_ring() ? 0 : read.truncated_tail);
  losses.add(Loss::missing_chunks, read.missing_chunks);
  losses.add(Loss::missing_ring, end == TraceEnd::kUnknown ? 1 : 0);
  losses.add(Loss::malformed_records, read.malformed_records);
  losses.add(Loss::unknown_records, read.unknown_records);
  losses.add(Loss::unfinished_calls, course.unfinished_calls);
  losses.add(Loss::clock_not_calibrated, process.clock().calibrated() ? 0 : 1);
  losses.add(Loss::order_repaired, course.order_repaired);
  losses.add(Loss::live_address_allocated, course.live_address_allocated);
  losses.add(Loss::unknown_frees, course.unknown_frees);
  losses.add(Loss::unknown_context, course.unknown_context);
  losses.add(Loss::framework_mismatch, course.framework_mismatch);
  losses.add(Loss::implicit_frees, course.implicit_frees);
  losses.add(Loss::detail_replaced_by_checkpoint, course.folded_records);
  return losses;
}

Inexact inexact_of(const Losses& losses) {
  const bool anything = losses[Loss::paused] + losses[Loss::corrupt_blocks] +
                            losses[Loss::missing_chunks] + losses[Loss::malformed_records] +
                            losses[Loss::truncated_tail] + losses[Loss::recording_disabled] +
                            losses[Loss::missing_ring] !=
                        0;
  Inexact inexact;
  inexact.memory = anything || losses[Loss::dropped_allocations] + losses[Loss::dropped_frees] +
                                       losses[Loss::dropped_others] +
                                       losses[Loss::live_address_allocated] !=
                                   0;
  inexact.framework = anything || losses[Loss::dropped_blocks] != 0;
  inexact.copies = anything || losses[Loss::dropped_copies] != 0;
  return inexact;
}

}  // namespace

std::string_view name_of(TraceEnd end) {
  switch (end) {
    case TraceEnd::kExit:
      return "exit";
    case TraceEnd::kExec:
      return "exec";
    case TraceEnd::kSignal:
      return "signal";
    case TraceEnd::kKilled:
      return "killed";
    case TraceEnd::kRunning:
      return "running";
    case TraceEnd::kUnknown:
      break;
  }
  return "unknown";
}

ReportContext::ReportContext(const Job& job) {
  for (const auto& process : job.processes) {
    ReportProcess entry;
    entry.process = process.get();
    entry.id = "p" + std::to_string(processes_.size() + 1);
    entry.end = end_of(*process);
    entry.losses = losses_of(*process, entry.end);
    entry.inexact = inexact_of(entry.losses);
    if (process->model().course().peaks_are_inexact) entry.inexact.memory = true;
    processes_.push_back(std::move(entry));
  }
  name_devices();
}

void ReportContext::name_devices() {
  std::map<std::tuple<std::string, std::uint64_t, std::uint64_t>, std::size_t> by_uuid;
  for (const ReportProcess& process : processes_) {
    for (const auto& [ordinal, state] : process.model().devices().devices()) {
      if (ordinal < 0) continue;
      std::size_t index = devices_.size();
      if (state.uuid_low != 0 || state.uuid_high != 0) {
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

Json ReportContext::device_id(const ReportProcess& process, std::int32_t ordinal) const {
  const auto found = device_ids_.find({process.id, ordinal});
  return found == device_ids_.end() ? Json(nullptr) : Json(found->second);
}

Identity ReportContext::identity_of_site(const ReportProcess& process, const CallSite& site) const {
  const SiteName name = process.model().dictionary().name_of(site);
  Identity identity;
  identity.owner = name.owner;
  identity.api = name.api;
  if (name.known) {
    identity.has_site = true;
    identity.module = base_name(name.module);
    identity.offset = name.offset;
  }
  add_python_site(process, site.stack, identity);
  return identity;
}

// The innermost Python frame that is the user's is the site, whatever native code it called.
void ReportContext::add_python_site(const ReportProcess& process, std::uint32_t stack,
                                    Identity& identity) const {
  const std::vector<PythonFrame> frames =
      process.model().dictionary().python_stacks().frames_of(stack);
  if (frames.empty()) return;
  identity.stack = process.id + ":" + std::to_string(stack);
  for (const PythonFrame& frame : frames) {
    if (!is_users_python_file(frame.file)) continue;
    identity.has_site = true;
    identity.function = frame.function;
    identity.file = frame.file;
    identity.line = frame.line;
    identity.module.clear();
    identity.offset = 0;
    return;
  }
}

std::vector<PythonFrame> ReportContext::python_frames(const std::string& stack_id) const {
  for (const ReportProcess& process : processes_) {
    if (stack_id.compare(0, process.id.size() + 1, process.id + ":") != 0) continue;
    const auto stack =
        static_cast<std::uint32_t>(std::stoul(stack_id.substr(process.id.size() + 1)));
    return process.model().dictionary().python_stacks().frames_of(stack);
  }
  return {};
}

Identity ReportContext::identity_of(const ReportProcess& process, const HolderKey& holder) const {
  const GroupKey& key = process.model().accounts().group(holder.group).key;
  const bool segment = level_of(key.kind) == Level::kDriver && holder.segment;
  if (key.kind != Kind::kBlock && !segment) return identity_of_site(process, key.site);
  Identity identity;
  identity.owner = "pytorch";
  add_python_site(process, key.site.stack, identity);
  return identity;
}

TallyByIdentity ReportContext::tally(const ReportProcess& process, const Holders& holders) const {
  TallyByIdentity result;
  for (const auto& [holder, tally] : holders) result[identity_of(process, holder)].merge(tally);
  return result;
}

Json site_json(const Identity& identity) {
  if (!identity.has_site) return nullptr;
  const bool python = !identity.file.empty();
  return {{"function", text_or_null(identity.function)},
          {"file", text_or_null(identity.file)},
          {"line", identity.line == 0 ? Json(nullptr) : Json(identity.line)},
          {"module", text_or_null(identity.module)},
          {"kind", python ? "python" : "native"},
          {"offset", python ? Json(nullptr) : Json(identity.offset)},
          {"api", text_or_null(identity.api)}};
}

Json stack_json(const Identity& identity) { return text_or_null(identity.stack); }

Json text_or_null(const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); }

Json owner_json(const Identity& identity) { return text_or_null(identity.owner); }

std::string fingerprint_of(const Identity& identity) {
  return identity.owner + '|' + identity.function + '|' + identity.module + '|' +
         std::to_string(identity.offset);
}

Json holders_json(const TallyByIdentity& holders, std::uint64_t total_bytes) {
  using Holder = TallyByIdentity::value_type;
  std::vector<const Holder*> sorted;
  for (const Holder& holder : holders) sorted.push_back(&holder);
  std::sort(sorted.begin(), sorted.end(), [](const Holder* a, const Holder* b) {
    if (a->second.bytes != b->second.bytes) return a->second.bytes > b->second.bytes;
    return a->first < b->first;
  });
  const auto share_of = [&](std::uint64_t bytes) {
    if (total_bytes == 0) return 0.0;
    return std::min(1.0, static_cast<double>(bytes) / static_cast<double>(total_bytes));
  };
  Json rows = Json::array();
  std::uint64_t rest_bytes = total_bytes;
  std::uint64_t rest_count = 0;
  for (const Holder* holder : sorted) {
    const auto& [identity, tally] = *holder;
    if (rows.size() == kMaxHolders) {
      rest_count += tally.count;
      continue;
    }
    rest_bytes -= std::min(rest_bytes, tally.bytes);
    rows.push_back({{"bytes", tally.bytes},
                    {"count", tally.count},
                    {"share", share_of(tally.bytes)},
                    {"category", nullptr},
                    {"owner", owner_json(identity)},
                    {"site", site_json(identity)},
                    {"stack", stack_json(identity)}});
  }
  rows.push_back({{"bytes", rest_bytes},
                  {"count", rest_count},
                  {"share", share_of(rest_bytes)},
                  {"category", nullptr},
                  {"owner", "other"},
                  {"site", nullptr},
                  {"stack", nullptr}});
  return rows;
}

void mark_inexact(Json& row, bool inexact) {
  if (inexact) row["exact"] = false;
}

bool is_inexact(const ReportProcess& process, Level level) {
  return level == Level::kFramework ? process.inexact.framework : process.inexact.memory;
}

Json sorted_rows(std::vector<Json> rows, const char* key) {
  std::stable_sort(rows.begin(), rows.end(), [&](const Json& a, const Json& b) {
    return a.at(key).get<std::uint64_t>() > b.at(key).get<std::uint64_t>();
  });
  Json array = Json::array();
  for (Json& row : rows) array.push_back(std::move(row));
  return array;
}

}  // namespace gpumemtrace::analyzer
