// SPDX-License-Identifier: Apache-2.0
// The frameworks: their names, how their code is recognized, their settings and the advice in their
// words. Sections, rules and texts look these up and name no framework themselves.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string_view>

namespace gpumemtrace::analyzer {

// A short list of texts in a row.
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

// Recognizes a framework's code.
struct FrameworkCode {
  Names libraries = {};         // the beginnings of their file names
  Names folders = {};           // parts of the paths of its modules and Python files
  Names namespaces = {};        // the beginnings of its C++ functions' names
  bool is_linked = false;       // its functions are its own in other libraries, too
  Names public_libraries = {};  // the whole names before ".so", which a redacted report keeps
  Names public_packages = {};   // of Python, which a redacted report keeps
};

// A pool that takes memory in large pieces and hands it out where a trace cannot see.
struct OpaquePool {
  std::string_view name;     // empty if the framework has none
  std::string_view setting;  // the setting that records it in the next trace
};

// An allocator that takes a large part of a card in advance.
struct Preallocation {
  std::string_view allocator;  // "XLA"; empty if the framework has none
  std::string_view advice;     // how to change it, without a full stop
};

// Advice on copies in a loop, a sentence each. The defaults are for programs without a framework.
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
  std::string_view owner = {};  // in reports; empty for a program without a framework
  std::string_view name = {};   // "JAX"
  FrameworkCode code;
  OpaquePool opaque_pool = {};
  Preallocation preallocation = {};
  CopyAdvice copies = {};
  std::string_view churn_advice = {};  // a sentence: it asks the driver again and again
  std::string_view choose_device = "Make the rank's own device the current one (cudaSetDevice)";

  // Its allocator, if its blocks are recorded.
  std::string_view settings_variable = {};   // of the environment
  std::string_view expandable_setting = {};  // makes one piece of the free memory in all segments
  std::string_view limit_function = {};      // sets how much of a device a process may take
  std::string_view limit_setting = {};       // the same as an option in settings_variable
  std::string_view empty_cache = {};         // gives free memory back to the driver
  std::uint64_t segment_bytes = 0;  // for blocks of 1 to 10 MiB; no request is rounded up more
  bool pins_powers_of_two = false;
  std::string_view mismatch_causes = {};  // a sentence: why a replay differs from the recorded run

  // Code that a finding's remedy names.
  std::string_view show_cycles = {};  // prints cycles of references that hold tensors
  std::string_view pin_exactly = {};  // pins memory without rounding
  std::string_view share_graph_pool = {};
  std::string_view end_communicator = {};
  std::string_view load_to_host = {};
  std::string_view zero_gradients = {};
  std::string_view without_gradients = {};

  // The names for sentences.
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

// Every framework. The first whose code fits is the owner.
[[nodiscard]] std::span<const FrameworkInfo> frameworks();

// The framework of that owner; the row without an owner if it is none.
[[nodiscard]] const FrameworkInfo& framework_named(std::string_view owner);

// The framework whose allocator is recorded block by block and replayed: rows of the level
// `framework` are its own.
[[nodiscard]] const FrameworkInfo& framework_with_blocks();

}  // namespace gpumemtrace::analyzer
