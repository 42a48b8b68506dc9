// SPDX-License-Identifier: Apache-2.0
// How the job was recorded: traces, processes, devices, what was wrapped and what was lost.
#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <string>

#include "analyzer/findings/rule_table.hpp"
#include "analyzer/owners/owners.hpp"
#include "analyzer/report/link.hpp"
#include "analyzer/report/sections.hpp"

namespace gpumemtrace::analyzer {
namespace {

Json text_json(const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); }

// null where the text is no number.
Json number_json(const std::string& text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || text.empty() || end != text.data() + text.size()) return nullptr;
  return value;
}

std::uint64_t dropped_of(const Losses& losses) {
  return losses[Loss::dropped_allocations] + losses[Loss::dropped_frees] +
         losses[Loss::dropped_copies] + losses[Loss::dropped_blocks] + losses[Loss::dropped_others];
}

// What an event costs the program's thread is in no trace: docs/performance.md.
Json overhead_json(const ReportProcess& process) {
  const std::uint64_t cpu_ns = process.process->preview().background_cpu_ns;
  return {{"events", process.model().course().events},
          {"ns_per_event", nullptr},
          {"cpu_ns", cpu_ns == 0 ? Json(nullptr) : Json(cpu_ns)}};
}

Json duration_json(const ReportProcess& process) {
  const Course& course = process.model().course();
  if (course.first_time == 0) return nullptr;
  return process.process->time_ns(course.last_time) - process.process->time_ns(course.first_time);
}

Json command_json(const std::string& command_line, Redaction& redaction) {
  Json words = Json::array();
  if (command_line.empty()) return words;
  std::size_t begin = 0;
  for (;;) {
    const std::size_t end = command_line.find('\0', begin);
    words.push_back(redaction.replace(Secret::kArgument, command_line.substr(begin, end - begin)));
    if (end == std::string::npos) return words;
    begin = end + 1;
  }
}

// The digits and dots that follow `prefix` in a file's name: 3.12 in libpython3.12.so.1.0.
std::string version_after(std::string_view name, std::string_view prefix) {
  if (name.substr(0, prefix.size()) != prefix) return {};
  std::string version;
  for (const char c : name.substr(prefix.size())) {
    if ((c < '0' || c > '9') && c != '.') break;
    version += c;
  }
  while (!version.empty() && version.back() == '.') version.pop_back();
  return version;
}

Json python_json(const Dictionary& dictionary, Redaction& redaction) {
  const std::string executable = dictionary.text(trace::TextKey::kExecutable);
  const std::string_view program = base_name(executable);
  const std::string_view library = base_name(dictionary.find_module("libpython"));
  if (program.substr(0, 6) != "python" && library.empty()) return nullptr;
  std::string version = dictionary.text(trace::TextKey::kPythonVersion);
  if (version.empty()) version = version_after(program, "python");
  if (version.empty()) version = version_after(library, "libpython");
  const bool stacks = !dictionary.python_stacks().empty();
  std::string reason = dictionary.text(trace::TextKey::kPythonStacksOff);
  if (reason.empty() && !stacks) reason = "this trace holds no Python stacks";
  return {{"version", text_json(version)},
          {"stacks", stacks},
          {"reason", text_json(redaction.replace_paths(reason))}};
}

Json torch_json(const ReportProcess& process) {
  if (!uses_pytorch(process)) return nullptr;
  const Dictionary& dictionary = process.model().dictionary();
  const std::string version = dictionary.text(trace::TextKey::kTorchVersion);
  std::string allocator = dictionary.text(trace::TextKey::kTorchAllocator);
  if (allocator.empty()) allocator = "native";
  return {{"version", text_json(version)}, {"allocator", text_json(allocator)}};
}

// NVIDIA's way of writing it: 16 bytes as they stand in memory, in groups of 4, 2, 2, 2 and 6.
std::string uuid_text(std::uint64_t low, std::uint64_t high) {
  std::string text = "GPU";
  for (std::size_t i = 0; i < 16; ++i) {
    if (i == 0 || i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    const std::uint64_t half = i < 8 ? low : high;
    char digits[3];
    std::snprintf(digits, sizeof digits, "%02x",
                  static_cast<unsigned>((half >> (8 * (i % 8))) & 0xff));
    text += digits;
  }
  return text;
}

std::string_view severity_name(LossSeverity severity) {
  switch (severity) {
    case LossSeverity::data_loss:
      return "error";
    case LossSeverity::inferred:
      return "warning";
    case LossSeverity::info:
      break;
  }
  return "info";
}

Json suppressions_json(const Dictionary& dictionary, Redaction& redaction) {
  Json lines = Json::array();
  for (const std::string& line : dictionary.lines(trace::TextKey::kSuppression)) {
    lines.push_back(redaction.replace(Secret::kSuppression, line));
  }
  return lines;
}

// Remarks of the recorder, and on how much of the process's end is known.
Json notes_json(const ReportProcess& process, Redaction& redaction) {
  const Dictionary& dictionary = process.model().dictionary();
  Json notes = Json::array();
  for (const std::string& note : dictionary.notes()) {
    notes.push_back(redaction.replace_paths(note));
  }
  if (dictionary.text(trace::TextKey::kCommandLine).size() >= trace::kMaxCommandLineBytes) {
    notes.push_back("The command line is longer than 64 KiB; its end was not recorded.");
  }
  const int signal = process.process->file().ended_by_signal();
  if (process.end == TraceEnd::kSignal) {
    notes.push_back("The process was ended by signal " + std::to_string(signal) + " (" +
                    strsignal(signal) + ").");
  } else if (process.end == TraceEnd::kKilled && signal == 0) {
    notes.push_back(
        "The process ended without an exit. `gpumemtrace run` would have seen by which signal, had "
        "it "
        "started this process.");
  }
  if (const std::string& reason = process.model().course().stopped_because; !reason.empty()) {
    notes.push_back("Recording stopped before the process ended: " + reason + ".");
  }
  return notes;
}

}  // namespace

Json report_traces(const ReportContext& context) {
  Json rows = Json::array();
  for (const ReportProcess& process : context.processes()) {
    const trace::TraceFile& file = process.process->file();
    const Course& course = process.model().course();
    const bool complete = !process.losses.any_data_loss() && process.losses[Loss::paused] == 0 &&
                          process.losses[Loss::missing_ring] == 0;
    rows.push_back(
        {{"file", context.redaction().replace(Secret::kTrace, file.path().filename().string())},
         {"process", process.id},
         {"recorder_version",
          text_json(process.model().dictionary().text(trace::TextKey::kToolVersion))},
         {"complete", complete},
         {"end", name_of(process.end)},
         {"events", course.events},
         {"dropped", dropped_of(process.losses)},
         {"bytes", file.file_bytes()},
         {"duration_ns", duration_json(process)},
         {"overhead", overhead_json(process)},
         {"notes", notes_json(process, context.redaction())}});
  }
  return rows;
}

Json report_processes(const ReportContext& context) {
  Redaction& redaction = context.redaction();
  Json rows = Json::array();
  for (const ReportProcess& process : context.processes()) {
    const Dictionary& dictionary = process.model().dictionary();
    const auto secret = [&](Secret kind, trace::TextKey key) {
      return text_json(redaction.replace(kind, dictionary.text(key)));
    };
    const auto number = [&](trace::TextKey key) { return number_json(dictionary.text(key)); };
    const trace::FileHeader& header = process.process->file().header();
    const Clock& clock = process.process->clock();
    rows.push_back(
        {{"id", process.id},
         {"pid", header.process_id},
         {"ppid", number(trace::TextKey::kParentProcessId)},
         {"host", secret(Secret::kHost, trace::TextKey::kHost)},
         {"boot_id", secret(Secret::kBoot, trace::TextKey::kBootId)},
         {"rank", number(trace::TextKey::kRank)},
         {"local_rank", number(trace::TextKey::kLocalRank)},
         {"world_size", number(trace::TextKey::kWorldSize)},
         {"executable", secret(Secret::kProgram, trace::TextKey::kExecutable)},
         {"command", command_json(dictionary.text(trace::TextKey::kCommandLine), redaction)},
         {"start_unix_ns",
          header.start_realtime_ns == 0 ? Json(nullptr) : Json(header.start_realtime_ns)},
         {"clock_error_ns", clock.calibrated() ? Json(clock.error_ns()) : Json(nullptr)},
         {"cuda", {{"driver_version", number(trace::TextKey::kDriverVersion)}}},
         {"cupti", cupti_json(process, redaction)},
         {"suppressions", suppressions_json(dictionary, redaction)},
         {"python", python_json(dictionary, redaction)},
         {"torch", torch_json(process)}});
  }
  return rows;
}

Json report_devices(const ReportContext& context, const Job& job) {
  Json rows = Json::array();
  for (const ReportContext::PhysicalDevice& device : context.devices()) {
    const DeviceState& first = *device.seen_as.front().second;
    Json seen_as = Json::array();
    bool inexact = false;
    for (const auto& [process, state] : device.seen_as) {
      seen_as.push_back({{"process", process->id}, {"ordinal", state->ordinal}});
      inexact = inexact || process->inexact.memory;
      inexact = inexact || (state->peak_is_restored && device.seen_as.size() > 1);
    }
    const SharedDevice& total = first.shared == nullptr ? first.own : *first.shared;
    Json peak = nullptr;
    if (total.peak_bytes != 0) {
      const Process& at = *job.processes[total.peak_process];
      peak = {{"bytes", total.peak_bytes}, {"time_ns", at.time_ns(total.peak_time)}};
      mark_inexact(peak, inexact);
    }
    const bool has_uuid = first.uuid_low != 0 || first.uuid_high != 0;
    rows.push_back(
        {{"id", device.id},
         {"name", text_json(first.name)},
         {"uuid", has_uuid ? Json(context.redaction().replace(
                                 Secret::kDevice, uuid_text(first.uuid_low, first.uuid_high)))
                           : Json(nullptr)},
         {"total_bytes", first.total_bytes == 0 ? Json(nullptr) : Json(first.total_bytes)},
         {"seen_as", std::move(seen_as)},
         {"physical_peak", std::move(peak)},
         {"link", link_json(first)}});
  }
  return rows;
}

// Rules that need single events, where a checkpoint replaced those of the beginning.
Json partial_rules_json(const ReportContext& context) {
  Json names = Json::array();
  for (const RuleInfo& rule : kRules) {
    if (rule.scope == RuleScope::kBehindCheckpoint) names.push_back(rule.name);
  }
  Json rows = Json::array();
  for (const ReportProcess& process : context.processes()) {
    const std::uint64_t cut = process.model().course().checkpoint_time;
    if (cut == 0) continue;
    rows.push_back({{"process", process.id}, {"from_ns", process.time_ns(cut)}, {"rules", names}});
  }
  return rows;
}

Json report_coverage(const ReportContext& context) {
  std::size_t wrapped = 0;
  Json unwrapped = Json::array();
  for (const ReportProcess& process : context.processes()) {
    const Dictionary& dictionary = process.model().dictionary();
    wrapped = std::max(wrapped, dictionary.function_count());
    for (const auto& [name, count] : dictionary.unwrapped()) {
      unwrapped.push_back({{"process", process.id}, {"name", name}, {"count", count}});
    }
  }
  return {{"wrapped", wrapped == 0 ? Json(nullptr) : Json(wrapped)},
          {"resolved_unwrapped", std::move(unwrapped)},
          {"memory2_disagreements", report_memory2_disagreements(context)},
          {"memory2", report_memory2(context)},
          {"pools", report_pool_activity(context)},
          {"partial_rules", partial_rules_json(context)}};
}

Json report_losses(const ReportContext& context) {
  Losses unnamed;
  unnamed.add(Loss::symbols_of_another_build, context.symbolizer().mismatched_modules());
  unnamed.add(Loss::symbols_missing, context.symbolizer().missing_modules());
  Json rows = Json::array();
  for (std::size_t i = 0; i < kLosses.size(); ++i) {
    std::uint64_t count = unnamed[static_cast<Loss>(i)];
    for (const ReportProcess& process : context.processes()) {
      count += process.losses[static_cast<Loss>(i)];
    }
    if (count == 0) continue;
    rows.push_back({{"name", kLosses[i].name},
                    {"count", count},
                    {"severity", severity_name(kLosses[i].severity)},
                    {"remedy", kLosses[i].remedy}});
  }
  return rows;
}

}  // namespace gpumemtrace::analyzer
