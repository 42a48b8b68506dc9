// SPDX-License-Identifier: Apache-2.0
#include <dlfcn.h>
#include <gnu/libc-version.h>
#include <sys/mman.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "analyzer/base/row_text.hpp"
#include "tools/base/failure.hpp"
#include "tools/base/sizes.hpp"
#include "tools/base/terminal.hpp"
#include "tools/base/text.hpp"
#include "tools/commands/command.hpp"
#include "tools/commands/input_options.hpp"
#include "tools/launch/launch_environment.hpp"
#include "tools/traces/output_folder.hpp"
#include "trace/ring_layout.hpp"

namespace gpumemtrace::tools {
namespace {

enum class CheckState {
  kOk,
  kNote,  // recording works, but something that it can do without is missing or slower
  kBad    // programs cannot be recorded on this machine, or in this folder
};

constexpr std::string_view name_of(CheckState state) {
  return state == CheckState::kOk ? "ok" : state == CheckState::kNote ? "note" : "bad";
}

struct CheckResult {
  CheckState state = CheckState::kOk;
  std::string subject;
  std::string finding;
  std::string remedy;  // the way to fix it; empty if there is nothing to do

  static void fields(auto& self, auto& v) {
    v("state", self.state);
    v("subject", self.subject);
    v("finding", self.finding);
    v.or_null("remedy", self.remedy);
  }
};

constexpr std::uint64_t kComfortableFreeBytes = std::uint64_t{4} << 30;

// Runs `probe` in a child and returns its output, so that a crash in foreign code is a finding.
// `probe` runs in a forked copy of this process, which has one thread only.
std::string run_in_child(std::string (*probe)()) {
  std::array<int, 2> ends = {-1, -1};
  if (pipe(ends.data()) != 0) return format_text("pipe failed: {}", std::strerror(errno));
  const pid_t child = fork();
  if (child == 0) {
    const std::string text = probe();
    [[maybe_unused]] const ssize_t written = write(ends[1], text.data(), text.size());
    _exit(0);
  }
  close(ends[1]);
  std::string text;
  std::array<char, 512> part;
  for (ssize_t got = 0; (got = read(ends[0], part.data(), part.size())) > 0;) {
    text.append(part.data(), static_cast<std::size_t>(got));
  }
  close(ends[0]);
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) < 0) return "cannot start another process";
  if (WIFSIGNALED(status)) return format_text("crashed with signal {}", WTERMSIG(status));
  return text;
}

// The text of the answer "ok TEXT" or "no TEXT"; any other answer is a crash.
std::string answer_text(const std::string& answer) {
  return answer.starts_with("ok ") || answer.starts_with("no ") ? answer.substr(3) : answer;
}

template <class Function>
Function symbol(void* library, const char* name) {
  return reinterpret_cast<Function>(dlsym(library, name));
}

// Loads the recording library; returns "" or the loader's error.
std::string probe_library() {
  return dlopen(find_library().c_str(), RTLD_NOW | RTLD_LOCAL) != nullptr ? "" : dlerror();
}

// The functions of the CUDA driver that `doctor` calls after cuInit().
struct Driver {
  std::string trouble;  // why the driver does not work; empty if it does
  int (*get_version)(int*) = nullptr;
  int (*get_count)(int*) = nullptr;
  int (*get_name)(char*, int, int) = nullptr;
};

Driver open_driver() {
  Driver driver;
  void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    driver.trouble = "libcuda.so.1 is not installed";
    return driver;
  }
  const auto initialize = symbol<int (*)(unsigned)>(library, "cuInit");
  driver.get_version = symbol<int (*)(int*)>(library, "cuDriverGetVersion");
  driver.get_count = symbol<int (*)(int*)>(library, "cuDeviceGetCount");
  driver.get_name = symbol<int (*)(char*, int, int)>(library, "cuDeviceGetName");
  if (initialize == nullptr || driver.get_version == nullptr || driver.get_count == nullptr ||
      driver.get_name == nullptr) {
    driver.trouble = "libcuda.so.1 lacks basic functions";
  } else if (const int result = initialize(0); result != 0) {
    driver.trouble = format_text("cuInit failed with {}", result);
  }
  return driver;
}

std::string cuda_version(const Driver& driver) {
  int version = 0;
  driver.get_version(&version);
  return format_text("{}.{}", version / 1000, version % 1000 / 10);
}

int count_devices(const Driver& driver) {
  int count = 0;
  return driver.get_count(&count) == 0 ? count : 0;
}

// The name of the first CUDA device; "" if there is none.
std::string first_device(const Driver& driver) {
  std::array<char, 256> name = {};
  if (count_devices(driver) == 0) return "";
  return driver.get_name(name.data(), static_cast<int>(name.size()) - 1, 0) == 0 ? name.data() : "";
}

// Tries the CUDA driver. Returns "ok TEXT" or "no TEXT".
std::string probe_driver() {
  const Driver driver = open_driver();
  if (!driver.trouble.empty()) return "no " + driver.trouble;
  const int count = count_devices(driver);
  const std::string name = first_device(driver);
  return format_text("ok CUDA {}, {} device{}{}{}", cuda_version(driver), count,
                     count == 1 ? "" : "s", name.empty() ? "" : ", the first is ", name);
}

// The first CUDA device as "ok NAME", with an empty NAME if there is no device; "" if the driver
// does not work.
std::string probe_first_device() {
  const Driver driver = open_driver();
  return driver.trouble.empty() ? "ok " + first_device(driver) : "";
}

std::string probe_nvml() {
  void* const library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return "no libnvidia-ml.so.1 is not installed";
  const auto initialize = symbol<int (*)()>(library, "nvmlInit_v2");
  if (initialize == nullptr) return "no libnvidia-ml.so.1 lacks nvmlInit_v2";
  const int result = initialize();
  return result == 0 ? "ok" : format_text("no nvmlInit_v2 failed with {}", result);
}

// Finds libcupti as programs do, by its name, or else in the toolkit's folders.
std::string probe_cupti() {
  constexpr auto kNames = std::to_array<const char*>(
      {"libcupti.so.13", "libcupti.so.12", "libcupti.so.11.8",
       "/usr/local/cuda/extras/CUPTI/lib64/libcupti.so", "/usr/local/cuda/lib64/libcupti.so"});
  for (const char* name : kNames) {
    void* const library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) continue;
    const auto get_version = symbol<int (*)(std::uint32_t*)>(library, "cuptiGetVersion");
    Dl_info file = {};
    std::uint32_t version = 0;
    if (get_version == nullptr || get_version(&version) != 0 ||
        dladdr(reinterpret_cast<void*>(get_version), &file) == 0) {
      continue;
    }
    return format_text("ok {}, version {}", file.dli_fname, version);
  }
  return "no libcupti is not on the loader's path";
}

CheckResult check_library() {
  CheckResult check{CheckState::kOk, "recording library", "", ""};
  try {
    check.finding = find_library().string();
    const std::string trouble = run_in_child(probe_library);
    if (trouble.empty()) return check;
    check.finding += " does not load: " + trouble;
    check.remedy = "build it on this machine or on one with an older glibc";
  } catch (const Failure& failure) {
    check.finding = failure.what();
  }
  check.state = CheckState::kBad;
  return check;
}

CheckResult check_libc() {
  const std::string_view version = gnu_get_libc_version();
  int major = 0;
  int minor = 0;
  const bool known = std::sscanf(version.data(), "%d.%d", &major, &minor) == 2;
  const bool new_enough = known && (major > 2 || minor >= 28);
  return {new_enough ? CheckState::kOk : CheckState::kBad, "glibc", std::string(version),
          new_enough ? "" : "glibc 2.28 or newer is needed"};
}

CheckResult check_driver() {
  const std::string answer = run_in_child(probe_driver);
  if (!answer.starts_with("ok ")) {
    return {CheckState::kBad, "CUDA driver", answer_text(answer),
            "only `gpumemtrace run --simulate` works until a driver is installed"};
  }
  const std::string device = run_in_child(probe_first_device);
  if (device.starts_with("ok ") && device != "ok ") {
    return {CheckState::kOk, "CUDA driver", answer_text(answer), ""};
  }
  return {CheckState::kBad, "CUDA driver", answer_text(answer),
          "look at CUDA_VISIBLE_DEVICES, and whether this container was given a GPU"};
}

CheckResult check_nvml() {
  const std::string answer = run_in_child(probe_nvml);
  if (answer == "ok") return {CheckState::kOk, "NVML", "gives the driver's count per process", ""};
  return {CheckState::kNote, "NVML", answer_text(answer),
          "the report then splits the device's memory by cuMemGetInfo, which counts all processes"};
}

CheckResult check_cupti() {
  const std::string answer = run_in_child(probe_cupti);
  if (answer.starts_with("ok ")) return {CheckState::kOk, "CUPTI", answer.substr(3), ""};
  return {CheckState::kNote, "CUPTI", answer_text(answer),
          "programs that bring their own, as PyTorch and JAX do, are not affected; others have no "
          "times of copies on the device"};
}

CheckResult check_simulated_driver() {
  try {
    return {CheckState::kOk, "simulated driver", find_simulated_driver().string(), ""};
  } catch (const Failure& failure) {
    return {CheckState::kNote, "simulated driver", failure.what(), ""};
  }
}

CheckResult check_clock() {
#if defined(__x86_64__)
  std::ifstream processor("/proc/cpuinfo");
  for (std::string line; std::getline(processor, line);) {
    if (!line.starts_with("flags")) continue;
    if (line.find(" constant_tsc") != std::string::npos &&
        line.find(" nonstop_tsc") != std::string::npos) {
      return {CheckState::kOk, "clock", "the processor's time stamp counter is invariant", ""};
    }
    break;
  }
  return {CheckState::kNote, "clock", "the processor's time stamp counter is not invariant",
          "each event takes its time from the system instead, which costs some 20 ns more"};
#else
  return {CheckState::kOk, "clock", "the processor's virtual counter", ""};
#endif
}

// Maps a new file of this folder shared, as a recording maps its ring (a file beside the trace);
// some network file systems refuse that. Returns the error; "" if the mapping works.
std::string try_shared_mapping() {
  std::string path = "gpumemtrace-doctor-XXXXXX";
  const int descriptor = mkstemp(path.data());
  if (descriptor < 0) return format_text("cannot create a file: {}", std::strerror(errno));
  std::string trouble;
  if (ftruncate(descriptor, static_cast<off_t>(trace::kRingHeaderBytes)) != 0) {
    trouble = format_text("cannot grow a file: {}", std::strerror(errno));
  } else {
    void* const mapping =
        mmap(nullptr, trace::kRingHeaderBytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    if (mapping == MAP_FAILED) {
      trouble = format_text("cannot map a file shared: {}", std::strerror(errno));
    } else {
      munmap(mapping, trace::kRingHeaderBytes);
    }
  }
  close(descriptor);
  unlink(path.c_str());
  return trouble;
}

CheckResult check_folder() {
  CheckResult check{CheckState::kOk, "this folder", "", ""};
  const std::string trouble = try_shared_mapping();
  if (!trouble.empty()) {
    return {CheckState::kBad, "this folder", "traces cannot be written here: " + trouble,
            "go to a folder on a local disk, or name one with -o"};
  }
  if (const std::string_view network = network_file_system_of("."); !network.empty()) {
    return {CheckState::kNote, "this folder", format_text("it is on {}", network),
            "a program stands still while the server does not answer; record to a folder of this "
            "machine with -o"};
  }
  struct statvfs space = {};
  if (statvfs(".", &space) != 0) {
    check.finding = "traces can be written here";
    return check;
  }
  const std::uint64_t free_bytes = std::uint64_t{space.f_bavail} * space.f_frsize;
  check.finding = format_text("traces can be written here, {} free", size_text(free_bytes));
  if (free_bytes < kComfortableFreeBytes) {
    check.state = CheckState::kNote;
    check.remedy = "a long run can write up to 4 GiB; set --max-trace-bytes lower";
  }
  return check;
}

// Reports environment variables by which other tools may be loaded into the recorded program.
CheckResult check_other_tools() {
  constexpr auto kVariables = std::to_array<const char*>(
      {"LD_PRELOAD", "LD_AUDIT", "CUDA_INJECTION64_PATH", "NVTX_INJECTION64_PATH"});
  std::string found;
  for (const char* name : kVariables) {
    const char* const value = std::getenv(name);
    if (value == nullptr || *value == '\0') continue;
    found += format_text("{}{}={}", found.empty() ? "" : ", ", name, value);
  }
  if (found.empty()) return {CheckState::kOk, "other tools", "none is set to be loaded", ""};
  return {CheckState::kNote, "other tools", found,
          "they share the program with the recording; try without them if something looks odd"};
}

constexpr auto kChecks = std::to_array<CheckResult (*)()>({
    check_library,
    check_libc,
    check_folder,
    check_clock,
    check_driver,
    check_nvml,
    check_cupti,
    check_simulated_driver,
    check_other_tools,
});

// Every check, in the order in which they are shown. Drivers are loaded in processes of their own.
std::vector<CheckResult> check_machine() {
  std::vector<CheckResult> results;
  results.reserve(kChecks.size());
  for (const auto check : kChecks) results.push_back(check());
  return results;
}

constexpr const char* kDoctorFooter =
    R"TEXT(Each line says ok, note or bad, what was found, and for the last two what to do.

Exit codes: 0 programs can be recorded here, 1 they cannot, 2 usage.)TEXT";

StyledText word_for(CheckState state) {
  const std::string word(name_of(state));
  if (state == CheckState::kOk) return {word, Style::kGood};
  return {word, state == CheckState::kNote ? Style::kDoubtful : Style::kBad};
}

constexpr std::size_t kWordWidth = 6;

struct DoctorOptions {
  bool json = false;
  std::string color = "auto";
};

int print_checks(const DoctorOptions& options) {
  const std::vector<CheckResult> checks = check_machine();
  StyledText text;
  ExitCode exit_code = ExitCode::kSuccess;
  for (const CheckResult& check : checks) {
    const StyledText word = word_for(check.state);
    text += word + std::string(kWordWidth - word.letters().size(), ' ') +
            format_text("{}: {}{}{}\n", check.subject, check.finding,
                        check.remedy.empty() ? "" : "; ", check.remedy);
    if (check.state == CheckState::kBad) exit_code = ExitCode::kFailure;
  }
  write_text(stdout, options.json
                         ? analyzer::json_text(checks, analyzer::JsonLayout::kIndented) + "\n"
                         : styled(text, style_of(stdout, options.color)));
  return to_int(exit_code);
}

}  // namespace

Action define_doctor(CommandLine& line, const std::vector<std::string>&) {
  line.footer(kDoctorFooter);
  auto options = std::make_shared<DoctorOptions>();
  line.flag("--json", options->json, "Print a list of objects: state, subject, finding, remedy.");
  add_color_option(line, options->color);
  return [options] { return print_checks(*options); };
}

}  // namespace gpumemtrace::tools
