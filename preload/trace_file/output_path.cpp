// SPDX-License-Identifier: Apache-2.0
#include "preload/trace_file/output_path.hpp"

#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "preload/base/config.hpp"

namespace gpumemtrace::preload {
namespace {

std::string_view first_set(std::initializer_list<std::string_view> names) noexcept {
  for (const std::string_view name : names) {
    if (const std::string_view value = environment(name); !value.empty()) return value;
  }
  return {};
}

// Characters that would leave the folder or be hard to type become underscores, and so do "." and
// "..", which are no file names.
void append_file_name_part(Line& path, std::string_view text) noexcept {
  const bool is_folder = text == "." || text == "..";
  for (const char c : text) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '-' || c == '_' || (c == '.' && !is_folder) || c == '+';
    path << (plain ? std::string_view(&c, 1) : std::string_view("_"));
  }
}

class Expansion {
 public:
  Expansion(std::string_view pattern, const JobFacts& job, Line& path) noexcept
      : pattern_(pattern), job_(job), path_(path) {}

  void run() noexcept {
    while (position_ < pattern_.size()) {
      const char c = pattern_[position_++];
      if (c == '%' && position_ < pattern_.size()) {
        placeholder(pattern_[position_++]);
      } else if (!skip_unset_rank(c)) {
        path_ << std::string_view(&c, 1);
      }
    }
  }

 private:
  // If `c` is the dot of ".r%r" or ".%r" and the process has no rank, skips the rest of that text
  // and returns true.
  bool skip_unset_rank(char c) noexcept {
    if (c != '.' || !job_.rank.empty()) return false;
    for (const std::string_view part : {std::string_view("r%r"), std::string_view("%r")}) {
      if (!slice(pattern_, position_).starts_with(part)) continue;
      position_ += part.size();
      return true;
    }
    return false;
  }

  void placeholder(char name) noexcept {
    switch (name) {
      case 'h':
        append_file_name_part(path_, host_name());
        break;
      case 'n':
        append_file_name_part(path_, slice(host_name(), 0, host_name().find('.')));
        break;
      case 'p':
        path_ << static_cast<std::uint64_t>(getpid());
        break;
      case 'e':
        append_file_name_part(path_, executable_name());
        break;
      case 't':
        path_ << static_cast<std::uint64_t>(time(nullptr));
        break;
      case 'r':
        append_file_name_part(path_, job_.rank);
        break;
      case 'j':
        append_file_name_part(path_, job_.job);
        break;
      case 'q':
        variable();
        break;
      case '%':
        path_ << "%";
        break;
      default:
        path_ << "%" << std::string_view(&name, 1);
        break;
    }
  }

  void variable() noexcept {
    const std::size_t end = pattern_.find('}', position_);
    if (position_ >= pattern_.size() || pattern_[position_] != '{' || end == pattern_.npos) {
      path_ << "%q";
      return;
    }
    append_file_name_part(path_, environment(slice(pattern_, position_ + 1, end - position_ - 1)));
    position_ = end + 1;
  }

  std::string_view pattern_;
  const JobFacts& job_;
  Line& path_;
  std::size_t position_ = 0;
};

}  // namespace

JobFacts read_job_facts() noexcept {
  JobFacts facts;
  facts.rank = first_set({"RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID"});
  facts.local_rank =
      first_set({"LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID"});
  facts.world_size = first_set({"WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS"});
  facts.job = first_set({"SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "PMIX_NAMESPACE"});
  facts.attempt = facts.job.empty() ? environment("TORCHELASTIC_RESTART_COUNT")
                                    : environment("SLURM_RESTART_COUNT");
  if (facts.job.empty()) facts.job = environment("TORCHELASTIC_RUN_ID");
  facts.run = environment("GPUMEMTRACE_RUN_ID");
  facts.restart = environment("TORCHELASTIC_RESTART_COUNT");
  facts.array = environment("SLURM_ARRAY_JOB_ID");
  facts.task = environment("SLURM_ARRAY_TASK_ID");
  // A rank counts only together with the number of ranks.
  if (facts.world_size.empty()) facts.rank = facts.local_rank = {};
  return facts;
}

std::string_view executable_path() noexcept {
  // Needs no lock: the first call comes while the session starts, before other threads may call.
  static char path[4096];
  static ssize_t length = -1;
  if (length < 0) length = readlink("/proc/self/exe", path, sizeof path);
  return {path, length > 0 ? static_cast<std::size_t>(length) : 0};
}

std::string_view executable_name() noexcept {
  const std::string_view path = executable_path();
  const std::size_t slash = path.rfind('/');
  const std::string_view name = slash == path.npos ? path : slice(path, slash + 1);
  return name.empty() ? std::string_view("unknown") : name;
}

std::string_view host_name() noexcept {
  static utsname names;
  if (uname(&names) != 0 || names.nodename[0] == '\0') return "host";
  return names.nodename;
}

void expand_output_path(std::string_view pattern, const JobFacts& job, Line& path) noexcept {
  constexpr std::string_view kDefaultName = "gpumemtrace-%e.%h.r%r.%p.gmt";
  if (pattern.empty() || pattern.front() != '/') {
    static char folder[4096];
    if (getcwd(folder, sizeof folder) != nullptr) path << std::string_view(folder) << "/";
  }
  const bool several = !job.rank.empty() && job.world_size != "1";
  if (pattern.empty() && several) {
    Expansion(job.job.empty() ? "gpumemtrace-job/" : "gpumemtrace-%j/", job, path).run();
  }
  Expansion(pattern, job, path).run();
  if (path.text().ends_with("/")) Expansion(kDefaultName, job, path).run();
  if (!path.text().ends_with(".gmt")) path << ".gmt";
}

}  // namespace gpumemtrace::preload
