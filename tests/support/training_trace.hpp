// SPDX-License-Identifier: Apache-2.0
// A training program in a trace: blocks with Python stacks as PyTorch has them, on the program's
// own thread, and blocks on an engine thread, which has no Python stacks.
#pragma once

#include <cstdint>
#include <cstring>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "tests/support/trace_builder.hpp"

namespace gpumemtrace::tests {

struct PlainFrame {
  std::string_view function;
  std::string_view file;
  std::uint32_t instruction = 0;
};

class TrainingTrace {
  static constexpr std::string_view kModules = "/lib/torch/nn/modules/module.py";
  static constexpr std::string_view kOptimizers = "/lib/torch/optim/optimizer.py";
  static constexpr std::uint64_t kSegment = 0x200000000;
  const std::uint64_t segment_bytes_;

  // These members are declared first, because the initializers of the stacks use them.
  TraceBuilder trace_;
  std::map<std::string, std::uint32_t> codes_;  // ids of code objects, by function and file
  std::uint32_t stacks_ = 0;
  std::map<std::string, std::uint32_t> names_;
  std::uint64_t next_address_ = kSegment;
  std::uint64_t allocated_ = 0;
  static constexpr std::uint64_t kCublas = 0x7f0000000000;
  static constexpr std::uint64_t kCublasBytes = 0x10000;
  bool has_cublas_ = false;
  std::uint64_t next_handle_ = 0x100000000;

 public:
  static constexpr std::uint32_t kMain = 1;
  static constexpr std::uint32_t kEngine = 2;
  static constexpr std::uint64_t kProcessId = 100;

  // The stacks of a plain training script.
  const std::uint32_t move = stack({{"Module.to.<locals>.convert", kModules, 0},
                                    {"Module._apply", kModules, 300},
                                    {"main", "train.py", 1}});
  const std::uint32_t move_buffer = stack({{"Module.to.<locals>.convert", kModules, 0},
                                           {"Module._apply", kModules, 900},
                                           {"main", "train.py", 1}});
  const std::uint32_t load = stack({{"main", "train.py", 2}});
  const std::uint32_t forward = stack({{"Net.forward", "train.py", 1},
                                       {"Module._call_impl", kModules, 2},
                                       {"main", "train.py", 3}});
  const std::uint32_t loss = stack({{"main", "train.py", 4}});
  const std::uint32_t backward =
      stack({{"Tensor.backward", "/lib/torch/_tensor.py", 1}, {"main", "train.py", 5}});
  const std::uint32_t zero_grad =
      stack({{"Optimizer.zero_grad", kOptimizers, 1}, {"main", "train.py", 6}});
  const std::uint32_t optimize =
      stack({{"Adam._init_group", "/lib/torch/optim/adam.py", 1},
             {"Adam.step", "/lib/torch/optim/adam.py", 2},
             {"Optimizer.profile_hook_step.<locals>.wrapper", kOptimizers, 3},
             {"main", "train.py", 7}});
  const std::uint32_t report_loss = stack({{"main", "train.py", 8}});

  explicit TrainingTrace(std::uint64_t process_id = kProcessId,
                         std::uint64_t segment_bytes = std::uint64_t{1} << 40)
      : segment_bytes_(segment_bytes), trace_(static_cast<std::uint32_t>(process_id)) {
    trace_.text(trace::TextKey::kProcessId, std::to_string(process_id));
    thread(kMain, process_id, "python3");
    thread(kEngine, process_id + 1, "pt_autograd_0");
    trace_.allocate(kSegment, segment_bytes_);
  }

  TraceBuilder& builder() { return trace_; }

  std::uint32_t stack(const std::vector<PlainFrame>& frames, std::uint16_t flags = 0) {
    std::vector<std::uint64_t> words;
    for (const PlainFrame& frame : frames) {
      const std::uint32_t code = code_of(frame);
      words.push_back(std::uint64_t{code} << 32 | frame.instruction);
    }
    trace::Stack record;
    record.record.flags = flags;
    record.id = trace::StackId{++stacks_};
    record.python_frames = static_cast<std::uint32_t>(frames.size());
    record.python_version = 0x030c0300;
    trace_.add(record, kMain,
               {reinterpret_cast<const char*>(words.data()), words.size() * sizeof words[0]});
    return stacks_;
  }
  void thread(std::uint32_t writer, std::uint64_t id, std::string_view name) {
    trace::Thread record;
    record.thread_id = id;
    trace_.add(record, writer, name);
  }

  // Allocates a block of the framework and returns its address.
  std::uint64_t take(std::uint64_t bytes, std::uint32_t stack, std::uint32_t writer = kMain) {
    const std::uint64_t address = next_address_;
    next_address_ += bytes;
    add_block(address, static_cast<std::int64_t>(bytes), stack, writer);
    return address;
  }
  void give_back(std::uint64_t address, std::uint64_t bytes, std::uint32_t stack,
                 std::uint32_t writer = kMain) {
    add_block(address, -static_cast<std::int64_t>(bytes), stack, writer);
  }
  // Makes a handle of cuBLAS, for which cuBLAS takes memory from the driver.
  void make_handle(std::uint32_t stack, std::uint32_t writer = kMain) {
    if (!has_cublas_) trace_.module(kCublas, kCublas + kCublasBytes, "/lib/libcublas.so.13");
    has_cublas_ = true;
    trace::Allocation record;
    record.address = next_handle_ += kCublasBytes;
    record.bytes = 1024;
    record.call.stack = trace::StackId{stack};
    trace_.add_call(record, {.writer = writer, .caller = kCublas + 0x10});
  }
  void upload(std::uint64_t address, std::uint64_t bytes, std::uint32_t stack) {
    trace::Copy copy;
    copy.destination = address;
    copy.destination_type = trace::EndType::kDevice;
    copy.source = 0x1000;
    copy.source_type = trace::EndType::kHost;
    copy.bytes = bytes;
    copy.call.stack = trace::StackId{stack};
    trace_.add_call(copy, {});
  }
  // Adds the record that gpumemtrace_tensor() makes.
  void name(std::uint64_t address, std::uint64_t bytes, trace::TensorRole role,
            std::string_view name, std::string_view state = {}, std::string_view layer = {}) {
    trace::Tensor record;
    record.address = address;
    record.bytes = bytes;
    record.role = role;
    record.name = text(name);
    record.state = text(state);
    record.layer = text(layer);
    trace_.add(record, kMain);
  }
  void annotate(trace::AnnotationOperation operation, std::string_view name = {},
                std::uint64_t value = 0,
                trace::AnnotationSource source = trace::AnnotationSource::kApi,
                std::uint32_t writer = kMain) {
    trace::Annotation record;
    record.operation = operation;
    record.value = value;
    record.source = source;
    record.name = text(name, writer);
    trace_.add(record, writer);
  }

 private:
  // A function has one code object, whichever of its lines runs.
  std::uint32_t code_of(const PlainFrame& frame) {
    const auto next = static_cast<std::uint32_t>(codes_.size() + 1);
    const std::string key = std::string(frame.function) + ' ' + std::string(frame.file);
    const auto [found, added] = codes_.try_emplace(key, next);
    if (added) {
      add_code(next, trace::CodeText::kName, frame.function);
      add_code(next, trace::CodeText::kFile, frame.file);
    }
    return found->second;
  }
  // Returns the id of a text, which is added to the trace if it is new; 0 for an empty text.
  std::uint32_t text(std::string_view name, std::uint32_t writer = kMain) {
    const auto [known, is_new] = names_.try_emplace(std::string(name), names_.size() + 1);
    if (name.empty()) return 0;
    if (is_new) {
      trace::Name record;
      record.id = known->second;
      trace_.add(record, writer, name);
    }
    return known->second;
  }
  void add_code(std::uint32_t id, trace::CodeText which, std::string_view text) {
    trace::Code record;
    record.id = id;
    record.first_line = 1;
    record.text = which;
    record.bytes = static_cast<std::uint32_t>(text.size());
    trace_.add(record, kMain, text);
  }
  void add_block(std::uint64_t address, std::int64_t bytes, std::uint32_t stack,
                 std::uint32_t writer) {
    allocated_ += static_cast<std::uint64_t>(bytes);
    trace::Block record;
    record.address = address;
    record.bytes = bytes;
    record.allocated = allocated_;
    record.reserved_bytes = segment_bytes_;
    record.stack = trace::StackId{stack};
    record.device_type = 1;
    record.device = 0;
    record.framework = 1;
    trace_.add(record, writer);
  }
};

}  // namespace gpumemtrace::tests
