// SPDX-License-Identifier: Apache-2.0
// Facts about frameworks: their names, how their code is recognized, their settings, and advice in
// their terms. Other parts of the analyzer look these up and name no framework themselves.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string_view>

namespace gpumemtrace::analyzer {

// A short list of texts, stored in place.
class Names {
 public:
  constexpr Names(std::initializer_list<std::string_view> texts = {}) : count_(texts.size()) {
    std::ranges::copy(texts, texts_.begin());
  }
  [[nodiscard]] constexpr const std::string_view* begin() const { return texts_.data(); }
  [[nodiscard]] constexpr const std::string_view* end() const { return begin() + count_; }

 private:
  std::array<std::string_view, 8> texts_;
  std::size_t count_;
};

// The features by which a framework's code is recognized.
struct FrameworkCode {
  Names libraries = {};   // the beginnings of its libraries' file names
  Names folders = {};     // parts of the paths of its modules and Python files
  Names namespaces = {};  // the beginnings of its C++ functions' names
  // functions with a name in `namespaces` count as the framework's in any other library, too
  bool is_linked = false;
  // the whole names, before ".so", of libraries that a redacted report still names
  Names public_libraries = {};
  Names public_packages = {};  // the names of Python packages that a redacted report still names
};

// A memory pool that takes memory in large pieces, and whose blocks in them a trace does not see.
struct OpaquePool {
  std::string_view name;     // the pool's name; empty if the framework has none
  std::string_view setting;  // the setting with which the next trace records the pool's blocks
};

// An allocator that takes a large part of a card's memory in advance.
struct Preallocation {
  std::string_view allocator;  // such as "XLA"; empty if the framework has none
  std::string_view advice;     // how to change the preallocation, without a full stop
};

// Advice on copies in a loop, as sentences. The defaults are for programs without a framework.
struct CopyAdvice {
  std::string_view copy_once =
      "Copy the data once, before the loop, and keep the buffer on the GPU.";
  std::string_view pin_source =
      "Copy from pinned memory (cudaMallocHost, cuMemHostAlloc): this buffer on the host is "
      "pageable, no call of CUDA allocated it. The calls then return at once.";
  std::string_view pin_destination =
      "Copy into pinned memory (cudaMallocHost, cuMemHostAlloc): this buffer on the host is "
      "pageable, no call of CUDA allocated it. The calls then return at once.";
  std::string_view send_without_wait =
      "Use an asynchronous copy from pinned memory, or copy once before the loop.";
  std::string_view read_seldom =
      "Keep the result on the GPU and read it every so many rounds, or copy it asynchronously to "
      "pinned memory.";
  std::string_view pin_for_bandwidth =
      "Allocate the host buffer with cudaMallocHost or cuMemHostAlloc: pageable memory goes "
      "through a buffer of the driver.";
  std::string_view overlap_with_kernels =
      "Copy for the next round on a stream of its own from pinned memory while this round's "
      "kernels run.";
};

struct FrameworkInfo {
  // the owner's name in reports; empty for a program without a framework
  std::string_view owner = {};
  std::string_view name = {};  // the framework's name in sentences, such as "JAX"
  FrameworkCode code;
  OpaquePool opaque_pool = {};
  Preallocation preallocation = {};
  CopyAdvice copies = {};
  // advice, a sentence, for programs that allocate from the driver again and again
  std::string_view churn_advice = {};
  std::string_view choose_device = "Make the rank's own device the current one (cudaSetDevice)";

  // The members up to mismatch_causes describe the framework's allocator; they are empty if its
  // blocks are not recorded.
  std::string_view settings_variable = {};  // environment variable with the allocator's settings
  // setting that joins the free memory of all segments to one piece
  std::string_view expandable_setting = {};
  // function that sets how much of a device a process may take
  std::string_view limit_function = {};
  // the same limit as limit_function sets, as an option in settings_variable
  std::string_view limit_setting = {};
  std::string_view empty_cache = {};  // function that gives free memory back to the driver
  // size of segments for blocks of 1 to 10 MiB; no request is rounded up by more
  std::uint64_t segment_bytes = 0;
  bool pins_powers_of_two = false;
  // a sentence: the reasons why a replay differs from the recorded run
  std::string_view mismatch_causes = {};

  // Calls of the framework that the remedies of findings name.
  std::string_view show_cycles = {};  // prints reference cycles that hold tensors
  std::string_view pin_exactly = {};  // pins memory without rounding
  std::string_view share_graph_pool = {};
  std::string_view end_communicator = {};
  std::string_view load_to_host = {};
  std::string_view zero_gradients = {};
  std::string_view without_gradients = {};

  // Lists the values that sentences of findings can name, each with its name.
  static void fields(auto& self, auto& v) {
    v("framework", self.name);
    v("settings_variable", self.settings_variable);
    v("expandable_setting", self.expandable_setting);
    v("limit_function", self.limit_function);
    v("limit_setting", self.limit_setting);
    v("empty_cache", self.empty_cache);
    v("show_cycles", self.show_cycles);
    v("pin_exactly", self.pin_exactly);
    v("share_graph_pool", self.share_graph_pool);
    v("end_communicator", self.end_communicator);
    v("load_to_host", self.load_to_host);
    v("zero_gradients", self.zero_gradients);
    v("without_gradients", self.without_gradients);
  }
};

// Every framework. Code belongs to the first framework in this list whose features fit.
[[nodiscard]] std::span<const FrameworkInfo> frameworks();

// The framework with that owner's name; if there is none, the row for programs without a framework.
[[nodiscard]] const FrameworkInfo& framework_named(std::string_view owner);

// The framework whose allocator is recorded block by block and replayed: the report's rows of the
// level `framework` are about it.
[[nodiscard]] const FrameworkInfo& framework_with_blocks();

}  // namespace gpumemtrace::analyzer
