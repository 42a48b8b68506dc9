// SPDX-License-Identifier: Apache-2.0
#include "preload/driver/nvml.hpp"

#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <new>

#include "preload/base/clock.hpp"
#include "preload/base/wait.hpp"
#include "preload/loader/lazy_symbols.hpp"
#include "preload/loader/own_thread.hpp"
#include "preload/loader/real_dlsym.hpp"
#include "trace/records.hpp"

namespace gpumemtrace::preload::nvml {
namespace {

// Declared as in the NVML API reference: nvmlMemory_v2_t, nvmlProcessInfo_t (third version).
struct Memory {
  unsigned int version;
  unsigned long long total;
  unsigned long long reserved;
  unsigned long long free;
  unsigned long long used;
};
constexpr unsigned int kMemoryVersion = sizeof(Memory) | (2u << 24);

struct ProcessInfo {
  unsigned int process_id;
  unsigned long long used_bytes;
  unsigned int gpu_instance;
  unsigned int compute_instance;
};
constexpr unsigned long long kNotAvailable = ~0ull;
constexpr int kSuccess = 0;

constexpr long kPollNs = 1'000'000;  // pause between two polls, if futexes are forbidden
// The longest sleep before the asker checks again whether NVML's thread has ended.
constexpr std::uint64_t kLongestLookNs = 5'000'000;

using Device = void*;
using Init = int();
using HandleByBusId = int(const char*, Device*);
using MemoryInfo = int(Device, Memory*);
using RunningProcesses = int(Device, unsigned int*, ProcessInfo*);
using LinkNumber = int(Device, unsigned int*);

struct Library {
  Init* init = nullptr;
  HandleByBusId* handle_by_bus_id = nullptr;
  MemoryInfo* memory_info = nullptr;
  RunningProcesses* running_processes = nullptr;
  LinkNumber* link_generation = nullptr;
  LinkNumber* link_width = nullptr;
};

struct Question {
  char pci_bus_id[32] = {};
  bool is_about_link = false;
  Answer answer;
  Link link;
};

enum class Life : std::uint32_t { kNone, kOpening, kInitialising, kReadyForQuestions, kEnded };

// One question at a time: the background thread writes it, then raises `asked`; NVML's thread
// answers, then sets `answered` to the same number.
struct State {
  std::atomic<Life> life = Life::kNone;
  std::atomic<std::uint32_t> asked = 0;
  std::atomic<std::uint32_t> answered = 0;
  Library library;
  Question question;
};
constinit State state;

template <class Function>
Function* load(void* handle, const char* name) noexcept {
  return reinterpret_cast<Function*>(real_dlsym(handle, name));
}

bool open() noexcept {
  void* handle = libc_dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) return false;
  Library& library = state.library;
  library.init = load<Init>(handle, "nvmlInit_v2");
  library.memory_info = load<MemoryInfo>(handle, "nvmlDeviceGetMemoryInfo_v2");
  library.running_processes =
      load<RunningProcesses>(handle, "nvmlDeviceGetComputeRunningProcesses_v3");
  library.link_generation = load<LinkNumber>(handle, "nvmlDeviceGetMaxPcieLinkGeneration");
  library.link_width = load<LinkNumber>(handle, "nvmlDeviceGetMaxPcieLinkWidth");
  library.handle_by_bus_id = load<HandleByBusId>(handle, "nvmlDeviceGetHandleByPciBusId_v2");
  return library.init != nullptr && library.handle_by_bus_id != nullptr &&
         library.memory_info != nullptr && library.running_processes != nullptr;
}

void read_memory(Device device, Answer& answer) noexcept {
  Memory memory = {};
  memory.version = kMemoryVersion;
  answer.has_memory = state.library.memory_info(device, &memory) == kSuccess;
  answer.total_bytes = memory.total;
  answer.reserved_bytes = memory.reserved;
  answer.free_bytes = memory.free;
}

Process process_of(const ProcessInfo& info) noexcept {
  const bool is_told = info.used_bytes != kNotAvailable;
  return {is_told ? info.used_bytes : trace::kBytesNotTold, info.process_id, 1};
}

void add(Process& sum, const Process& process) noexcept {
  const bool is_told = sum.bytes != trace::kBytesNotTold && process.bytes != trace::kBytesNotTold;
  sum.bytes = is_told ? sum.bytes + process.bytes : trace::kBytesNotTold;
}

// Puts the listed processes into the answer: this process first, its entries (one for each MIG
// instance of the device) added up, then the others; one entry sums those beyond kMostProcesses.
void fill_process_list(const ProcessInfo* listed, std::uint32_t count, Answer& answer) noexcept {
  const auto own_id = static_cast<std::uint32_t>(getpid());
  answer.process_count = 0;
  for (std::uint32_t i = 0; i < count; ++i) {
    if (listed[i].process_id != own_id) continue;
    if (answer.process_count++ == 0) {
      answer.processes[0] = process_of(listed[i]);
    } else {
      add(answer.processes[0], process_of(listed[i]));
    }
  }
  answer.process_count = std::min<std::uint32_t>(answer.process_count, 1);
  for (std::uint32_t i = 0; i < count; ++i) {
    if (listed[i].process_id == own_id) continue;
    const Process process = process_of(listed[i]);
    if (answer.process_count < Answer::kMostProcesses) {
      answer.processes[answer.process_count++] = process;
      continue;
    }
    Process& rest = answer.processes[Answer::kMostProcesses];
    if (answer.process_count++ == Answer::kMostProcesses) rest = {0, 0, 0};
    add(rest, process);
    ++rest.processes;
  }
  answer.process_count = std::min<std::uint32_t>(answer.process_count, Answer::kMostProcesses + 1);
}

// Reads the device's processes, the largest first; processes without a known size last.
void read_processes(Device device, Answer& answer) noexcept {
  constexpr std::uint32_t kMostListed = 256;
  static constinit ProcessInfo listed[kMostListed] = {};
  std::uint32_t count = kMostListed;
  answer.has_processes = state.library.running_processes(device, &count, listed) == kSuccess;
  answer.process_count = 0;
  if (!answer.has_processes) return;
  count = std::min(count, kMostListed);
  std::sort(listed, listed + count, [](const ProcessInfo& one, const ProcessInfo& other) noexcept {
    return one.used_bytes + 1 > other.used_bytes + 1;  // kNotAvailable becomes 0
  });
  fill_process_list(listed, count, answer);
}

Link read_link(Device device) noexcept {
  const Library& library = state.library;
  Link link;
  const bool is_told = library.link_generation != nullptr && library.link_width != nullptr &&
                       library.link_generation(device, &link.generation) == kSuccess &&
                       library.link_width(device, &link.width) == kSuccess;
  return is_told ? link : Link{};
}

void answer(Question& question) noexcept {
  question.answer.has_memory = false;
  question.answer.has_processes = false;
  question.link = {};
  Device device = nullptr;
  if (state.library.handle_by_bus_id(question.pci_bus_id, &device) != kSuccess) return;
  if (question.is_about_link) {
    question.link = read_link(device);
    return;
  }
  read_memory(device, question.answer);
  read_processes(device, question.answer);
}

void* thread_main(void*) noexcept {
  prctl(PR_SET_NAME, "gpumemtrace-ml", 0, 0, 0);
  const bool is_opened = open();
  state.life.store(is_opened ? Life::kInitialising : Life::kEnded);
  if (!is_opened) return nullptr;
  const bool works = state.library.init() == kSuccess;
  state.life.store(works ? Life::kReadyForQuestions : Life::kEnded);
  while (works) {
    const std::uint32_t answered = state.answered.load();
    if (state.asked.load() == answered) {
      wait_for_change(state.asked, answered, kLongestWaitNs, kPollNs);
      continue;
    }
    answer(state.question);
    state.answered.store(answered + 1);
    wake_all(state.answered);
  }
  return nullptr;
}

// Hands NVML's thread a question and waits for the answer until the deadline. True if it came;
// false at once if NVML is not loaded or an earlier question is still open.
bool ask_and_wait(const char* pci_bus_id, bool is_about_link, std::uint64_t deadline_ns) noexcept {
  const Life life = state.life.load();
  const std::uint32_t before = state.asked.load();
  const bool can_answer = life == Life::kInitialising || life == Life::kReadyForQuestions;
  if (!can_answer || state.answered.load() != before) return false;
  Question& question = state.question;
  strncpy(question.pci_bus_id, pci_bus_id, sizeof question.pci_bus_id - 1);
  question.is_about_link = is_about_link;
  state.asked.store(before + 1);
  wake_all(state.asked);
  while (state.answered.load() == before && state.life.load() != Life::kEnded) {
    const std::uint64_t now_ns = clock_ns(CLOCK_MONOTONIC);
    if (now_ns >= deadline_ns) return false;
    const auto left_ns = static_cast<long>(std::min(deadline_ns - now_ns, kLongestLookNs));
    wait_for_change(state.answered, before, left_ns, kPollNs);
  }
  return state.answered.load() != before;
}

}  // namespace

void open_library() noexcept {
  new (&state) State;
  state.life.store(Life::kOpening);
  if (!start_own_thread(thread_main)) {
    state.life.store(Life::kEnded);
    return;
  }
  // Waits at most a tenth of a second for NVML's thread to open the library.
  wait_until([] { return state.life.load() != Life::kOpening; }, 2000, 50);
}

const Answer* ask(const char* pci_bus_id, std::uint64_t deadline_ns) noexcept {
  return ask_and_wait(pci_bus_id, false, deadline_ns) ? &state.question.answer : nullptr;
}

Link ask_link(const char* pci_bus_id, std::uint64_t deadline_ns) noexcept {
  return ask_and_wait(pci_bus_id, true, deadline_ns) ? state.question.link : Link{};
}

}  // namespace gpumemtrace::preload::nvml
