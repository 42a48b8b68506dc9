// SPDX-License-Identifier: Apache-2.0
// A program with a profiler of its own: it registers CUPTI's activity callbacks, switches kinds on
// and off around its work, and prints every record that it gets, without the parts that differ from
// run to run. The argument names the scene that it plays. Its output must be the same whether or
// not other code collects records in the process.
//
// Built twice: one program is linked with libcupti, the other one finds it by dlopen and dlsym (the
// file named in CUPTI_CLIENT_LIBRARY).
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "cupti/abi.hpp"
#include "cupti/functions.hpp"
#include "tests/end_to_end/victims/driver_calls.hpp"

#if defined(GPUMEMTRACE_LINKED)
namespace gpumemtrace::cupti {
extern "C" {
#define GPUMEMTRACE_CUPTI_CALLED(symbol, parameters) Result symbol parameters;
#include "cupti/functions.def"
}
}  // namespace gpumemtrace::cupti
#endif

namespace gpumemtrace::victims {
namespace {

using namespace cupti;
namespace layouts = cupti::layouts;

constexpr std::size_t kBufferBytes = 4096;

Functions cupti_functions() {
  Functions functions;
#if defined(GPUMEMTRACE_LINKED)
#define GPUMEMTRACE_CUPTI_CALLED(symbol, parameters) functions.symbol = &cupti::symbol;
#include "cupti/functions.def"
#else
  const char* const file = std::getenv("CUPTI_CLIENT_LIBRARY");
  void* const library = dlopen(file == nullptr ? "libcupti.so.13" : file, RTLD_NOW | RTLD_LOCAL);
  require(library != nullptr, "there is no libcupti");
  load(functions, [&](const char* name) { return dlsym(library, name); });
#endif
  return functions;
}

const Functions& real() {
  static const Functions functions = cupti_functions();
  return functions;
}

#if !defined(GPUMEMTRACE_LINKED)
// Subscribes by the functions of CUPTI 13.3 for several subscribers; false if that fails.
bool subscribe() {
  struct Parameters {
    std::size_t size;
    const char* name;
    char* other_name;
    std::size_t other_name_bytes;
    std::uint8_t allows_others;
  };
  using Subscribe = Result(void**, void*, void*, Parameters*);
  void* const library = dlopen("libcupti.so.13", RTLD_NOW | RTLD_LOCAL);
  require(library != nullptr, "there is no libcupti");
  auto* const function = reinterpret_cast<Subscribe*>(dlsym(library, "cuptiSubscribe_v2"));
  Parameters parameters = {sizeof parameters, "client", nullptr, 0, 1};
  void* subscriber = nullptr;
  return function(&subscriber, nullptr, nullptr, &parameters) == kSuccess;
}
#else
bool subscribe() { give_up("only by dlsym"); }
#endif

// --- Records that CUPTI has delivered

std::mutex mutex;  // guards all variables of this part
std::vector<std::string> lines;
std::set<std::uint32_t> call_correlations;
std::set<std::uint32_t> work_correlations;
std::atomic<bool> gives_buffers{true};
std::atomic<int> buffers_given{0};
std::atomic<int> buffers_back{0};

template <class Value>
Value at(const RawRecord& record, std::size_t offset) {
  Value value = 0;
  std::memcpy(&value, record.bytes + offset, sizeof value);
  return value;
}

void take(const RawRecord& record) {
  char line[128];
  const auto kind = at<std::uint32_t>(record, 0);
  const auto size = static_cast<unsigned>(record.size);
  if (kind == static_cast<std::uint32_t>(Kind::kDriver) ||
      kind == static_cast<std::uint32_t>(Kind::kRuntime)) {
    std::snprintf(line, sizeof line, "%u %u function %u", kind, size,
                  at<std::uint32_t>(record, layouts::Call::kFunction));
    call_correlations.insert(at<std::uint32_t>(record, layouts::Call::kCorrelation));
  } else {
    std::snprintf(line, sizeof line, "%u %u bytes %u", kind, size,
                  static_cast<unsigned>(at<std::uint64_t>(record, layouts::Memcpy::kBytesCopied)));
    work_correlations.insert(at<std::uint32_t>(record, layouts::Memcpy::kCorrelation));
  }
  lines.push_back(line);
}

void request(std::uint8_t** buffer, std::size_t* bytes, std::size_t* most_records) {
  *most_records = 0;
  *bytes = gives_buffers ? kBufferBytes : 0;
  *buffer =
      gives_buffers ? static_cast<std::uint8_t*>(std::aligned_alloc(8, kBufferBytes)) : nullptr;
  if (gives_buffers) ++buffers_given;
}

void complete(Context, std::uint32_t, std::uint8_t* buffer, std::size_t bytes,
              std::size_t valid_bytes) {
  require(bytes == kBufferBytes, "the buffer comes back as it was given");
  {
    const std::lock_guard lock(mutex);
    Walk walk(real(), buffer, valid_bytes);
    for (RawRecord record; walk.next(record);) take(record);
  }
  ++buffers_back;
  std::free(buffer);
}

void print(const char* title) {
  const std::lock_guard lock(mutex);
  std::sort(lines.begin(), lines.end());
  std::printf("%s: %zu records\n", title, lines.size());
  for (const std::string& line : lines) std::printf("  %s\n", line.c_str());
  lines.clear();
}

// --- Actions of the client

void expect(Result result, const char* what) { require(result == kSuccess, what); }

void register_callbacks() {
  expect(real().cuptiActivityRegisterCallbacks(request, complete), "register");
}
void enable(Kind kind) { expect(real().cuptiActivityEnable(kind), "enable"); }
void disable(Kind kind) { expect(real().cuptiActivityDisable(kind), "disable"); }
void flush() { expect(real().cuptiActivityFlushAll(0), "flush"); }

struct Memory {
  abi::CUdeviceptr device = 0;
  unsigned char host[4096] = {};
};
Memory& memory() {
  static Memory made;
  return made;
}

void copy(std::size_t bytes) {
  static auto* const function = victims::function<abi::cuMemcpyHtoD_v2_t>("cuMemcpyHtoD_v2");
  call(function(memory().device, memory().host, bytes), "cuMemcpyHtoD_v2");
}

void set(std::size_t bytes) {
  static auto* const function = victims::function<abi::cuMemsetD8_v2_t>("cuMemsetD8_v2");
  call(function(memory().device, 1, bytes), "cuMemsetD8_v2");
}

// Makes the driver calls in `work` as if the CUDA runtime's function `symbol` made them.
template <class Work>
void in_runtime(const char* symbol, Work&& work) {
  using Mark = void(const char*);
  static auto* const begins = victims::function<Mark>("cuSimulatedRuntimeBegins");
  static auto* const ended = victims::function<Mark>("cuSimulatedRuntimeEnded");
  begins(symbol);
  work();
  ended(symbol);
}
void runtime_copy(std::size_t bytes) {
  in_runtime("cudaMemcpy_v3020", [&] { copy(bytes); });
}
void runtime_allocate() {
  abi::CUdeviceptr address = 0;
  in_runtime("cudaMalloc_v3020", [&] { address = allocate(64); });
  in_runtime("cudaFree_v3020", [&] { free_memory(address); });
}

// Makes each kind of call once. The sizes count up from `base`, so that a record's size tells which
// call of work() it belongs to.
void work(std::size_t base) {
  copy(base);
  set(base + 1);
  runtime_copy(base + 2);
  runtime_allocate();
  free_memory(allocate(64));
}

void start() {
  start_driver();
  memory().device = allocate(sizeof memory().host);
}

void session(std::initializer_list<Kind> kinds, std::size_t base) {
  register_callbacks();
  for (const Kind kind : kinds) enable(kind);
  work(base);
  flush();
  for (const Kind kind : kinds) disable(kind);
}

void profile_in_sessions() {
  start();
  work(100);
  session({Kind::kMemcpy, Kind::kMemset, Kind::kRuntime, Kind::kDriver}, 200);
  print("all kinds");
  work(300);
  flush();
  print("between");
  session({Kind::kMemcpy}, 400);
  print("copies alone");
  session({Kind::kRuntime}, 500);
  print("runtime alone");
  session({Kind::kDriver, Kind::kMemset}, 600);
  work(700);
  flush();
  print("driver and sets");
  session({Kind::kMemcpy, Kind::kMemset, Kind::kRuntime, Kind::kDriver}, 800);
  print("all kinds again");
  std::set<std::uint32_t> unknown;
  std::set_difference(work_correlations.begin(), work_correlations.end(), call_correlations.begin(),
                      call_correlations.end(), std::inserter(unknown, unknown.begin()));
  std::printf("copies and sets without a call: %zu\n", unknown.size());
}

// Flushes only while CUPTI holds one of the program's buffers, as PyTorch's profiler does.
void profile_as_pytorch_does() {
  start();
  work(100);
  for (const std::size_t base : {std::size_t{200}, std::size_t{300}}) {
    register_callbacks();
    enable(Kind::kMemcpy);
    enable(Kind::kRuntime);
    copy(base);
    if (buffers_given != buffers_back) flush();  // drops records from before the profile
    print("thrown away");
    work(base + 50);
    disable(Kind::kMemcpy);
    disable(Kind::kRuntime);
    std::printf("a buffer is out: %d\n", buffers_given != buffers_back ? 1 : 0);
    flush();
    print("profile");
    work(base + 80);
  }
}

// Enables kinds before the first CUDA call, as a profiler that an environment variable switches on.
void profile_from_the_begin() {
  register_callbacks();
  enable(Kind::kMemcpy);
  enable(Kind::kDriver);
  start();
  work(100);
  flush();
  print("from the begin");
  disable(Kind::kDriver);
  work(200);
  flush();
  print("copies go on");
}

void select_functions() {
  constexpr CallbackId kCudaMalloc = 20;
  constexpr CallbackId kCudaMemcpy = 31;
  register_callbacks();
  expect(real().cuptiActivityEnableRuntimeApi(kCudaMalloc, 1), "select");
  expect(real().cuptiActivityEnableRuntimeApi(kCudaMemcpy, 1), "select");
  start();
  work(100);
  flush();
  print("two functions");
  expect(real().cuptiActivityEnableRuntimeApi(kCudaMemcpy, 0), "deselect");
  work(200);
  flush();
  print("one function");
  enable(Kind::kRuntime);
  expect(real().cuptiActivityEnableRuntimeApi(kCudaMemcpy, 0), "deselect");
  work(300);
  flush();
  print("all but one");
  disable(Kind::kRuntime);
  work(400);
  flush();
  print("none");
}

// Copies run late: a copy that is enqueued before a kind is switched runs after the switch.
void switch_while_copies_wait() {
  start();
  copy(100);
  register_callbacks();
  enable(Kind::kMemcpy);
  copy(200);
  disable(Kind::kMemcpy);
  copy(300);
  flush();
  print("copies that wait");
}

std::uint64_t own_clock() {
  static std::atomic<std::uint64_t> now{1};
  return now.fetch_add(1);
}

void exchange_clock() {
  start();
  register_callbacks();
  enable(Kind::kMemcpy);
  copy(100);
  flush();
  expect(real().cuptiActivityRegisterTimestampCallback(own_clock), "clock");
  copy(200);
  disable(Kind::kMemcpy);
  copy(300);
  flush();
  print("two clocks");
  std::printf("no clock: %d\n", real().cuptiActivityRegisterTimestampCallback(nullptr));
}

void finalize() {
  start();
  session({Kind::kMemcpy}, 100);
  print("before");
  expect(real().cuptiFinalize(), "finalize");
  work(200);
  session({Kind::kMemcpy, Kind::kRuntime}, 300);
  print("after");
}

void give_no_buffers() {
  start();
  register_callbacks();
  gives_buffers = false;
  enable(Kind::kMemcpy);
  copy(100);
  copy(200);
  flush();
  std::size_t dropped = 0;
  expect(real().cuptiActivityGetNumDroppedRecords(nullptr, 0, &dropped), "dropped");
  std::printf("dropped %zu", dropped);
  expect(real().cuptiActivityGetNumDroppedRecords(nullptr, 0, &dropped), "dropped");
  std::printf(", then %zu\n", dropped);
  gives_buffers = true;
  copy(300);
  flush();
  print("with buffers");
}

void ask_attributes() {
  start();
  const auto get = [](Attribute attribute) {
    std::size_t value = 0;
    std::size_t bytes = sizeof value;
    expect(real().cuptiActivityGetAttribute(attribute, &bytes, &value), "attribute");
    return value;
  };
  std::printf("%zu %zu\n", get(kDeviceBufferSize), get(kDeviceBufferPreAllocate));
  std::size_t value = 1 << 20;
  std::size_t bytes = sizeof value;
  expect(real().cuptiActivitySetAttribute(kDeviceBufferSize, &bytes, &value), "set");
  register_callbacks();
  std::printf("%zu %zu\n", get(kDeviceBufferSize), get(kDeviceBufferPreAllocate));
}

void answer_errors() {
  start();
  std::printf("%d %d %d\n", real().cuptiActivityRegisterCallbacks(nullptr, nullptr),
              real().cuptiActivityEnable(static_cast<Kind>(500)),
              real().cuptiActivityDisable(static_cast<Kind>(500)));
}

// As XLA's profiler: it tries to be a subscriber, and continues if it cannot.
void profile_as_xla_does() {
  start();
  std::printf("a subscriber: %d\n", subscribe() ? 1 : 0);
  session({Kind::kMemcpy, Kind::kRuntime}, 100);
  print("profile");
}

void subscribe_first() {
  const bool is_subscriber = subscribe();
  start();
  work(100);
  std::printf("a subscriber: %d\n", is_subscriber ? 1 : 0);
  std::exit(0);
}

// Several threads copy while profiling sessions begin and end.
void profile_threads() {
  constexpr int kThreads = 4;
  constexpr int kCopies = 500;
  start();
  const auto copy_in_threads = [&](std::size_t bytes) {
    std::vector<std::thread> threads;
    for (int i = 0; i < kThreads; ++i) {
      threads.emplace_back([bytes] {
        start_driver();
        for (int n = 0; n < kCopies; ++n) copy(bytes);
      });
    }
    for (std::thread& thread : threads) thread.join();
  };
  for (std::size_t round = 1; round <= 3; ++round) {
    copy_in_threads(10 * round);
    register_callbacks();
    enable(Kind::kMemcpy);
    enable(Kind::kDriver);
    copy_in_threads(10 * round + 1);
    flush();
    disable(Kind::kMemcpy);
    disable(Kind::kDriver);
    std::set<std::string> different;
    std::size_t count = 0;
    {
      const std::lock_guard lock(mutex);
      count = lines.size();
      different.insert(lines.begin(), lines.end());
      lines.clear();
    }
    std::printf("round %zu: %zu records of", round, count);
    for (const std::string& line : different) std::printf(" [%s]", line.c_str());
    std::printf("\n");
  }
}

// Several threads make the process's first calls of CUPTI at the same time.
void begin_in_a_crowd() {
  constexpr int kThreads = 8;
  start();
  std::atomic<int> waiting{kThreads};
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      --waiting;
      while (waiting.load() > 0) std::this_thread::yield();
      register_callbacks();
      enable(Kind::kMemcpy);
    });
  }
  for (std::thread& thread : threads) thread.join();
  copy(100);
  flush();
  print("crowd");
}

void fork_in_session() {
  start();
  register_callbacks();
  enable(Kind::kMemcpy);
  copy(100);
  const pid_t child = fork();
  if (child == 0) _exit(real().cuptiActivityDisable(Kind::kMemcpy) == kSuccess ? 0 : 1);
  int status = 0;
  require(waitpid(child, &status, 0) == child && status == 0, "the child ends well");
  copy(200);
  flush();
  print("parent");
}

// Copies without a profiling session, and then ends the process as `how` (the second argument)
// says.
void end_after_copies(const char* how) {
  start();
  for (std::size_t n = 1; n <= 20; ++n) copy(n);
  if (std::strcmp(how, "return") == 0) return;
  if (std::strcmp(how, "exit") == 0) _exit(0);
  std::printf("copied\n");
  std::fflush(stdout);
  for (;;) pause();
}

struct Scene {
  const char* name;
  void (*play)();
};
constexpr Scene kScenes[] = {
    {"sessions", profile_in_sessions}, {"early", profile_from_the_begin},
    {"functions", select_functions},   {"waiting", switch_while_copies_wait},
    {"clock", exchange_clock},         {"finalize", finalize},
    {"no_buffers", give_no_buffers},   {"attributes", ask_attributes},
    {"errors", answer_errors},         {"threads", profile_threads},
    {"fork", fork_in_session},         {"pytorch", profile_as_pytorch_does},
    {"xla", profile_as_xla_does},      {"subscriber", subscribe_first},
    {"crowd", begin_in_a_crowd},
};

int run(int count, char** arguments) {
  require(count > 1, "usage: cupti_client SCENE [HOW]");
  if (std::getenv("CUPTI_CLIENT_NOT_BEFORE") == nullptr) real();
  if (std::strcmp(arguments[1], "end") == 0 && count > 2) {
    end_after_copies(arguments[2]);
    return 0;
  }
  for (const Scene& scene : kScenes) {
    if (std::strcmp(scene.name, arguments[1]) != 0) continue;
    scene.play();
    for (const Kind kind : {Kind::kMemcpy, Kind::kMemset, Kind::kDriver, Kind::kRuntime}) {
      disable(kind);
    }
    flush();
    std::printf("buffers that did not come back: %d\n", buffers_given - buffers_back);
    return 0;
  }
  give_up("no such scene");
}

}  // namespace
}  // namespace gpumemtrace::victims

int main(int count, char** arguments) { return gpumemtrace::victims::run(count, arguments); }
