// SPDX-License-Identifier: Apache-2.0
// Records of stacks, modules and threads for traces that tests build.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "tests/support/trace_builder.hpp"

namespace gpumemtrace::tests {

inline constexpr std::uint32_t kPython312 = 0x030c03f0;

// Adds a code object. With `line`, its line table puts the first instructions on `line`; without,
// it has no line table, so that no instruction has a known line.
inline void add_code(TraceBuilder& trace, std::uint32_t id, std::string_view function,
                     std::string_view file, std::uint32_t line = 0) {
  const auto add_text = [&](trace::CodeText which, std::string_view text) {
    trace::Code record;
    record.id = id;
    record.first_line = line;
    record.text = which;
    record.bytes = static_cast<std::uint32_t>(text.size());
    trace.add(record, 1, text);
  };
  add_text(trace::CodeText::kName, function);
  add_text(trace::CodeText::kFile, file);
  // One entry of the location table of CPython 3.11 and later: no columns, eight code units, the
  // line unchanged.
  if (line != 0) add_text(trace::CodeText::kLineTable, std::string_view("\xef\x00", 2));
}

struct StackFrames {
  std::vector<std::uint32_t> python;  // ids of code objects, innermost first
  std::vector<std::uint64_t> native;  // return addresses, innermost first
};

inline void add_stack(TraceBuilder& trace, std::uint32_t id, const StackFrames& frames,
                      std::uint32_t writer = 1) {
  trace::Stack record;
  record.id = trace::StackId{id};
  record.python_version = kPython312;
  record.python_frames = static_cast<std::uint32_t>(frames.python.size());
  record.native_frames = static_cast<std::uint32_t>(frames.native.size());
  std::vector<std::uint64_t> words;
  for (const std::uint32_t code : frames.python) words.push_back(std::uint64_t{code} << 32);
  words.insert(words.end(), frames.native.begin(), frames.native.end());
  const auto* tail = reinterpret_cast<const char*>(words.data());
  trace.add(record, writer, {tail, words.size() * sizeof(std::uint64_t)});
}

inline void add_thread(TraceBuilder& trace, std::uint32_t writer, std::uint64_t thread_id,
                       std::string_view name) {
  trace::Thread record;
  record.thread_id = thread_id;
  trace.add(record, writer, name);
}

// Adds the stack of a waiting thread as the background thread or another thread of the program saw
// it.
inline void add_waiting(TraceBuilder& trace, std::uint64_t thread_id, std::uint32_t stack,
                        std::uint64_t time = 0, std::uint32_t writer = 0) {
  trace::WaitingStack record;
  record.record.time = time;
  record.thread_id = thread_id;
  record.stack = trace::StackId{stack};
  trace.add(record, writer);
}

struct ModulePlace {
  std::uint64_t begin = 0;
  std::uint64_t bytes = 0x10000;
  std::uint64_t time = 0;
  bool unloaded = false;
};

inline void add_module(TraceBuilder& trace, std::string_view path, const std::string& build_id,
                       const ModulePlace& place) {
  trace::Module record;
  record.record.time = place.time;
  record.base = place.begin;
  record.begin = place.begin;
  record.end = place.begin + place.bytes;
  record.unloaded = place.unloaded ? 1 : 0;
  record.build_id_bytes = static_cast<std::uint32_t>(build_id.size());
  std::uint64_t words[3] = {};
  std::memcpy(words, build_id.data(), std::min(build_id.size(), sizeof words));
  record.build_id_0 = words[0];
  record.build_id_1 = words[1];
  record.build_id_2 = words[2];
  trace.add(record, 0, path);
}

inline void allocate_at(TraceBuilder& trace, std::uint64_t address, std::uint64_t bytes,
                        std::uint32_t stack, const Call& call = {}) {
  trace::Allocation record;
  record.address = address;
  record.bytes = bytes;
  record.memory = trace::MemoryKind::kDevice;
  record.call.stack = trace::StackId{stack};
  trace.add_call(record, call);
}

inline void block_at(TraceBuilder& trace, std::uint64_t address, std::int64_t bytes,
                     std::uint32_t stack, std::uint32_t writer = 1, std::uint64_t time = 0) {
  trace::Block record;
  record.record.time = time;
  record.address = address;
  record.bytes = bytes;
  record.device_type = 1;
  record.device = 0;
  record.stack = trace::StackId{stack};
  trace.add(record, writer);
}

}  // namespace gpumemtrace::tests
