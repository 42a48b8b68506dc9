// SPDX-License-Identifier: Apache-2.0
// The texts of out-of-memory errors in all wordings, alone and in logs of many ranks.
#include <algorithm>
#include <cstdint>
#include <random>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "tests/catch.hpp"
#include "tests/support/error_text.hpp"
#include "tools/base/terminal.hpp"
#include "tools/explain/explanation.hpp"

namespace gpumemtrace::tools::explain_test {
namespace {

using enum FailureVerdict;

FailureLog log_of(const std::string& text) {
  std::istringstream input(text);
  FailureLog log;
  log.read(input);
  return log;
}

FailureGroup only_failure(const std::string& text) {
  const FailureLog log = log_of(text);
  REQUIRE(log.groups().size() == 1);
  return log.groups().front();
}

std::string shown(const std::string& text) {
  return styled(explanation_text(explain_failures(log_of(text))), TextStyle());
}

double mebibytes(const std::optional<ByteRange>& bytes) {
  return bytes ? static_cast<double>(bytes->low_bytes + bytes->high_bytes) / 2 / 0x1p20 : -1;
}

// The error text of PyTorch 2.2 and later, which most test cases vary.
std::string new_text(const std::string& requested, const std::string& free,
                     const std::string& processes, const std::string& allocated,
                     const std::string& unallocated) {
  return "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate " + requested +
         ". GPU 0 has a total capacity of 79.19 GiB of which " + free + " is free. " + processes +
         "Of the allocated memory " + allocated + " is allocated by PyTorch, and " + unallocated +
         " is reserved by PyTorch but unallocated. If reserved but unallocated memory is large try "
         "setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation.  See "
         "documentation for Memory Management  (https://pytorch.org/docs/stable/notes/cuda.html)\n";
}

// An error text and its expected verdict. `mib`: the missing MiB; for a fragmented request the MiB
// that would have been left.
struct Wording {
  const char* source;
  const char* text;
  FailureVerdict verdict;
  double mib;
};

const std::vector<Wording> kWordings = {
    {"PyTorch 1.0 to 1.3, c10/cuda/CUDACachingAllocator.cpp; user's log",
     "RuntimeError: CUDA out of memory. Tried to allocate 160.00 MiB (GPU 0; 3.81 GiB total "
     "capacity; 3.08 GiB already allocated; 55.38 MiB free; 9.78 MiB cached)",
     kExhausted, 94},
    {"PyTorch 1.4 to 1.8, same file",
     "RuntimeError: CUDA out of memory. Tried to allocate 37.25 GiB (GPU 0; 23.68 GiB total "
     "capacity; 192.29 MiB already allocated; 15.77 GiB free; 5.05 GiB reserved in total by "
     "PyTorch)",
     kExhausted, 17000},
    {"PyTorch 1.8 to 2.0 with a limit, same file",
     "RuntimeError: CUDA out of memory. Tried to allocate 37.25 GiB (GPU 0; 23.68 GiB total "
     "capacity; 192.29 MiB already allocated; 15.79 GiB free; 2.37 GiB allowed; 5.05 GiB reserved "
     "in total by PyTorch)",
     kExhausted, 17000},
    {"PyTorch 1.8 to 2.0 with a limit that alone refused, same file",
     "RuntimeError: CUDA out of memory. Tried to allocate 6.25 GiB (GPU 0; 11.17 GiB total "
     "capacity; 0 bytes already allocated; 10.91 GiB free; 5.59 GiB allowed; 0 bytes reserved in "
     "total by PyTorch)",
     kLimited, 676},
    {"PyTorch 1.10 to 2.0, same file",
     "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 6.52 GiB (GPU 0; 23.56 "
     "GiB total capacity; 7.50 GiB already allocated; 320.12 MiB free; 13.88 GiB reserved in total "
     "by PyTorch) If reserved memory is >> allocated memory try setting max_split_size_mb to avoid "
     "fragmentation.  See documentation for Memory Management and PYTORCH_CUDA_ALLOC_CONF",
     kFragmented, 177},
    {"PyTorch 2.1, which writes capacty, same file",
     "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 8.00 GiB. GPU 0 has a "
     "total capacty of 23.69 GiB of which 7.11 GiB is free. Process 2006998 has 256.00 MiB memory "
     "in use. Including non-PyTorch memory, this process has 16.31 GiB memory in use. Of the "
     "allocated memory 16.01 GiB is allocated by PyTorch, and 7.47 MiB is reserved by PyTorch but "
     "unallocated. If reserved but unallocated memory is large try setting max_split_size_mb to "
     "avoid fragmentation.  See documentation for Memory Management and PYTORCH_CUDA_ALLOC_CONF",
     kExhausted, 903},
    {"PyTorch 2.2 to 2.8, same file",
     "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 200.00 MiB. GPU 0 has a total "
     "capacity of 47.53 GiB of which 896.00 KiB is free. Process 3814292 has 47.50 GiB memory in "
     "use. Of the allocated memory 47.14 GiB is allocated by PyTorch, with 982.17 MiB allocated in "
     "private pools (e.g., CUDA Graphs), and 19.85 MiB is reserved by PyTorch but unallocated.",
     kExhausted, 178},
    {"PyTorch 2.9 and later, which names PYTORCH_ALLOC_CONF, same file",
     "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 18.84 GiB. GPU 1 has a total "
     "capacity of 39.38 GiB of which 464.56 MiB is free. Including non-PyTorch memory, this "
     "process has 38.80 GiB memory in use. Of the allocated memory 35.58 GiB is allocated by "
     "PyTorch, and 2.13 GiB is reserved by PyTorch but unallocated. If reserved but unallocated "
     "memory is large try setting PYTORCH_ALLOC_CONF=expandable_segments:True",
     kExhausted, 16645},
    {"PyTorch 2.4 and later with a limit, same file",
     "OutOfMemoryError: CUDA out of memory. Tried to allocate 996.00 MiB. GPU 0 has a total "
     "capacity of 44.43 GiB of which 9.06 GiB is free. Process 2102129 has 17.54 GiB memory in "
     "use. Including non-PyTorch memory, this process has 17.81 GiB memory in use. 17.69 GiB "
     "allowed; Of the allocated memory 17.44 GiB is allocated by PyTorch, and 59.88 MiB is "
     "reserved by PyTorch but unallocated.",
     kLimited, 739},
    {"ROCm, hipified from the same file",
     "torch.OutOfMemoryError: HIP out of memory. Tried to allocate 978.00 MiB. GPU 0 has a total "
     "capacity of 15.98 GiB of which 630.00 MiB is free. Of the allocated memory 0 bytes is "
     "allocated by PyTorch, and 0 bytes is reserved by PyTorch but unallocated. If reserved but "
     "unallocated memory is large try setting PYTORCH_HIP_ALLOC_CONF=expandable_segments:True",
     kExhausted, 347},
    {"Intel GPUs, c10/xpu/XPUCachingAllocator.cpp",
     "torch.OutOfMemoryError: XPU out of memory. Tried to allocate 192.00 MiB. GPU 3 has a total "
     "capacity of 31.89 GiB of which 13.22 GiB is free. Of the allocated memory 18.00 GiB is "
     "allocated by PyTorch, and 1.00 GiB is reserved by PyTorch but unallocated. Please use "
     "`empty_cache` to release all unoccupied cached memory.",
     kUnexplained, -1},
    {"cudaMallocAsync, c10/cuda/CUDAMallocAsyncAllocator.cpp",
     "torch.OutOfMemoryError: Allocation on device 0 would exceed allowed memory. (out of memory)\n"
     "Currently allocated     : 29.97 GiB\nRequested               : 7.17 GiB\n"
     "Device limit            : 15.92 GiB\nFree (according to CUDA): 0 bytes\n"
     "PyTorch limit (set by user-supplied memory fraction)\n"
     "                        : 17179869184.00 GiB\n",
     kExhausted, 7342},
    {"JAX, XLA's allocator",
     "jax.errors.JaxRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to\n allocate "
     "30.55GiB. [executable_name='jit_step']",
     kNotSaid, -1},
    {"cudaErrorMemoryAllocation, c10/cuda/CUDAException.cpp",
     "RuntimeError: CUDA error: out of memory\nCUDA kernel errors might be asynchronously reported",
     kNotSaid, -1},
    {"PyTorch, cut", "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to all", kNotSaid, -1},
};

}  // namespace

TEST_CASE("every wording of an out-of-memory error gives its verdict and its numbers", "[unit]") {
  for (const Wording& wording : kWordings) {
    INFO(wording.source);
    const FailureGroup failure = only_failure(wording.text);
    CHECK(name_of(failure.cause.verdict) == name_of(wording.verdict));
    const auto& bytes = wording.verdict == kFragmented ? failure.cause.left : failure.cause.missing;
    CHECK(mebibytes(bytes) == Approx(wording.mib).margin(wording.mib < 1000 ? 7.0 : 30.0));
    CHECK(failure.count == 1);
    CHECK_FALSE(shown(wording.text).empty());
  }
}

TEST_CASE("a message that is wrapped anywhere says the same", "[unit]") {
  for (const Wording& wording : kWordings) {
    INFO(wording.source);
    const FailureGroup whole = only_failure(wording.text);
    for (const std::size_t width : {30U, 80U, 100U}) {
      std::istringstream words(wording.text);
      std::size_t column = 0;
      std::string wrapped = "\x1b[31m";
      for (std::string word; words >> word; column += word.size() + 1) {
        if (column + word.size() > width) {
          wrapped += "\x1b[0m\n2026-11-28T16:00:00.123Z [default7]:[rank23]: ";
          column = 0;
        }
        wrapped += word + " ";
      }
      const FailureLog log = log_of("[default7]:[rank23]: " + wrapped + "\n");
      REQUIRE(log.groups().size() == 1);
      const FailureGroup& failure = log.groups().front();
      CHECK(failure.cause.verdict == whole.cause.verdict);
      CHECK(failure.cause.missing == whole.cause.missing);
      CHECK(failure.message.processes == whole.message.processes);
      CHECK(failure.ranks == std::vector<std::uint64_t>{23});
    }
  }
}

TEST_CASE("a difference below the rounding of the text is none", "[unit]") {
  // The text is rounded: a request of 40.00 GiB may be 39.996 GiB, and 40.00 GiB of free bytes and
  // cache 40.004 GiB.
  CHECK(
      only_failure(new_text("40.00 GiB", "39.00 GiB", "", "39.00 GiB", "1.00 GiB")).cause.verdict ==
      kTooClose);
  CHECK(
      only_failure(new_text("40.00 GiB", "39.00 GiB", "", "39.00 GiB", "1.02 GiB")).cause.verdict ==
      kFragmented);
  CHECK(
      only_failure(new_text("40.00 GiB", "38.95 GiB", "", "39.00 GiB", "1.00 GiB")).cause.verdict ==
      kExhausted);
  // PyTorch asks the driver for 20 MiB even if a tensor needs 2 MiB, so 12 MiB may have been
  // enough.
  CHECK(
      only_failure(new_text("20.00 MiB", "2.00 MiB", "", "78.00 GiB", "10.00 MiB")).cause.verdict ==
      kTooClose);
  CHECK(
      only_failure(new_text("22.00 MiB", "2.00 MiB", "", "78.00 GiB", "10.00 MiB")).cause.verdict ==
      kExhausted);
}

TEST_CASE("other processes are named where the text tells them from this one", "[unit]") {
  const std::string other = "Process 1 has 40.00 GiB memory in use. ";
  const std::string own =
      "Including non-PyTorch memory, this process has 38.00 GiB memory in use. ";
  const auto failure_with = [](const std::string& processes) {
    return only_failure(new_text("4.00 GiB", "1.00 GiB", processes, "36.00 GiB", "0 bytes"));
  };
  CHECK(failure_with(other + own).cause.verdict == kOtherProcess);
  CHECK(mebibytes(failure_with(other + own).cause.non_pytorch) == Approx(2048).margin(11));
  // In a container PyTorch does not find its own process in the driver's list.
  const FailureGroup unclear = failure_with(other);
  CHECK(unclear.cause.verdict == kExhausted);
  CHECK_FALSE(unclear.cause.other_processes);
  CHECK(mebibytes(unclear.cause.elsewhere) == Approx(42.19 * 1024).margin(16));
  // The driver of Windows does not know a process's bytes and reports 2^64.
  const FailureGroup unknown =
      failure_with("Process 9 has 17179869184.00 GiB memory in use. " + own);
  CHECK(unknown.cause.verdict == kExhausted);
  CHECK(unknown.message.processes.empty());
}

TEST_CASE("a traceback names the user's line and the script", "[unit]") {
  const std::string text =
      "Traceback (most recent call last):\n"
      "  File \"/home/me/my train.py\", line 180, in <module>\n    main()\n"
      "  File \"/home/me/model.py\", line 35, in forward\n    return attention(x)\n"
      "  File \"/opt/lib/python3.12/site-packages/torch/nn/functional.py\", line 3504, in softmax\n"
      "    ret = input.softmax(dim)\n" +
      new_text("4.00 GiB", "1.00 GiB", "", "36.00 GiB", "0 bytes");
  const FailureGroup failure = only_failure(text);
  REQUIRE(failure.failed_at);
  CHECK(failure.failed_at->file == "/home/me/model.py");
  CHECK(failure.failed_at->line == 35);
  CHECK(failure.failed_at->function == "forward");
  CHECK(tests::contains(shown(text), "at model.py:35 (forward)"));
  CHECK(tests::contains(shown(text), "run -o traces/ -- python '/home/me/my train.py'\n"));
  CHECK(tests::contains(shown(new_text("4.00 GiB", "1.00 GiB", "", "36.00 GiB", "0 bytes")),
                        "train.py stands for your program"));
}

TEST_CASE("the ranks of a log are grouped by their sizes", "[unit]") {
  std::string text;
  for (int rank = 0; rank < 8; ++rank) {
    const std::string prefix =
        "[default" + std::to_string(rank % 4) + "]:[rank" + std::to_string(rank) + "]: ";
    const std::string free = rank == 5 ? "512.00 MiB" : "1.00 GiB";
    text += prefix + "step 12\n" + prefix +
            new_text("4.00 GiB", free, "", "36.00 GiB", rank == 5 ? "8.00 GiB" : "0 bytes");
  }
  const FailureLog log = log_of(text + text);
  REQUIRE(log.groups().size() == 2);
  CHECK(log.groups()[0].ranks == std::vector<std::uint64_t>{0, 1, 2, 3, 4, 6, 7});
  CHECK(log.groups()[0].count == 14);
  CHECK(log.groups()[0].line == 2);
  CHECK(log.groups()[1].ranks == std::vector<std::uint64_t>{5});
  const std::string lines = shown(text);
  CHECK(tests::contains(lines, "8 messages: 7 exhausted, 1 fragmented\n"));
  CHECK(tests::contains(lines, "ranks 0-4, 6-7: exhausted\n"));
  CHECK(tests::contains(lines, "Free: least 512.00 MiB (rank 5), most 1.00 GiB (ranks 0-4, 6-7)"));
  CHECK(tests::contains(lines, "gpumemtrace whatif traces/"));
}

TEST_CASE("torchrun's local ranks are not called ranks", "[unit]") {
  const FailureGroup failure =
      only_failure("[default3]:" + new_text("4.00 GiB", "1.00 GiB", "", "36.00 GiB", "0 bytes"));
  CHECK(failure.ranks.empty());
  CHECK(failure.local_ranks == std::vector<std::uint64_t>{3});
}

TEST_CASE("a text that only speaks of such errors has no message", "[unit]") {
  CHECK(log_of("if CUDA out of memory happens, use a smaller batch\nCUDA out of memory?\n")
            .groups()
            .empty());
  CHECK(log_of("").groups().empty());
  CHECK(log_of("Out of memory: Killed process 12 (python)\n").groups().empty());
}

TEST_CASE("nothing in a log steers the terminal", "[unit]") {
  const std::string text =
      "Traceback (most recent call last):\n  File \"/x/\x1b]0;title\x07\xe2\x80\xae.py\", line 1, "
      "in <module>\n" +
      new_text("4.00 GiB", "1.00 GiB", "", "36.00 GiB", "0 bytes");
  const std::string json = explanation_json(explain_failures(log_of(text)));
  for (const std::string& output : {shown(text), json}) {
    CHECK_FALSE(tests::contains(output, "\x1b"));
    CHECK_FALSE(tests::contains(output, "\x07"));
    CHECK_FALSE(tests::contains(output, "\xe2\x80\xae"));
  }
}

TEST_CASE("a log without bounds is read with bounded memory", "[unit]") {
  std::string text;
  for (std::uint64_t i = 0; i < FailureLog::kMostGroups + 5; ++i) {
    const std::string rank = "[rank" + std::to_string(i * 7) + "]: ";
    text +=
        rank + new_text(std::to_string(100 + i) + ".00 MiB", "1.00 MiB", "", "1.00 GiB", "0 bytes");
  }
  const FailureLog log = log_of(text);
  CHECK(log.groups().size() == FailureLog::kMostGroups);
  CHECK(log.left_out() == 5);
  // A log of a single long line without an end, with a message in it.
  const std::string end(100'000, 'x');
  CHECK(only_failure(end + " Error: " + kWordings.front().text + end).cause.verdict == kExhausted);
}

TEST_CASE("changed texts are read to their end", "[unit]") {
  std::mt19937 random(41);  // NOLINT: the same texts in every run
  const auto below = [&](std::size_t end) { return random() % end; };
  for (int round = 0; round < 4000; ++round) {
    std::string text;
    for (std::size_t part = below(3) + 1; part != 0; --part) {
      text += "[rank" + std::to_string(below(3)) + "]: " + kWordings[below(kWordings.size())].text +
              "\n";
    }
    for (std::size_t changes = below(12); changes != 0 && !text.empty(); --changes) {
      const std::size_t place = below(text.size());
      switch (below(4)) {
        case 0:
          text.erase(place, below(40));
          break;
        case 1:
          text.insert(place, text.substr(below(text.size()), below(60)));
          break;
        case 2:
          text[place] = static_cast<char>(below(256));
          break;
        default:
          text.insert(place, std::string(1, "0.\n\r[ "[below(6)]));
      }
    }
    const FailureLog log = log_of(text);
    if (log.groups().empty()) continue;
    const Explanation explanation = explain_failures(log);
    CHECK_FALSE(explanation_text(explanation).letters().empty());
    CHECK_FALSE(explanation_json(explanation).empty());
    for (const ExplainedFailure& message : explanation.messages) {
      const auto& missing = message.failure.cause.missing;
      CHECK((!missing || (missing->low_bytes > 0 && missing->low_bytes <= missing->high_bytes)));
    }
  }
}

}  // namespace gpumemtrace::tools::explain_test
