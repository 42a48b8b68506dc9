// SPDX-License-Identifier: Apache-2.0
// Another tool for NVTX, besides the recorder. It returns its own nesting levels from 40 on and its
// own range id 1000, and prints at the end which of its functions were called. With
// NVTX_TOOL_REFUSES it sets a callback and then reports that its initialization failed.
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "preload/hooks/nvtx_abi.hpp"

namespace {

namespace abi = gpumemtrace::preload::nvtx;

std::atomic<int> pushes = 0;
std::atomic<int> pops = 0;
std::atomic<int> ends = 0;
std::atomic<int> registered = 0;
int level = 40;

int push(const char*) {
  ++pushes;
  return level++;
}
int push_wide(const wchar_t*) {
  ++pushes;
  return level++;
}
int pop() {
  ++pops;
  return --level;
}
int pop_payload(const void*, const abi::PayloadData*, std::size_t) { return pop(); }
std::uint64_t start(const abi::EventAttributes*) { return 1000; }
void end(std::uint64_t id) {
  if (id == 1000) ++ends;
}
const void* register_string(const void*, const char*) {
  static const int handle = 0;
  ++registered;
  return &handle;
}

void set(abi::FunctionTable table, unsigned id, abi::Function function) { *table[id] = function; }

template <class Id, class Function>
void set(abi::FunctionTable table, Id id, Function* function) {
  set(table, static_cast<unsigned>(id), reinterpret_cast<abi::Function>(function));
}

[[gnu::destructor]] void print_counts() {
  std::printf("tool: %d pushes, %d pops, %d ends, %d registered\n", pushes.load(), pops.load(),
              ends.load(), registered.load());
}

}  // namespace

extern "C" [[gnu::visibility("default")]] int InitializeInjectionNvtx2(
    abi::GetExportTable get_export_table) {
  const auto* const callbacks =
      static_cast<const abi::Callbacks*>(get_export_table(abi::kCallbacksTable));
  abi::FunctionTable core = nullptr;
  abi::FunctionTable core2 = nullptr;
  unsigned size = 0;
  callbacks->get_module_function_table(abi::Module::kCore, &core, &size);
  callbacks->get_module_function_table(abi::Module::kCore2, &core2, &size);
  set(core, abi::Core::kRangePushA, &push);
  if (std::getenv("NVTX_TOOL_REFUSES") != nullptr) return 0;
  set(core, abi::Core::kRangePushW, &push_wide);
  set(core, abi::Core::kRangePop, &pop);
  set(core, abi::Core::kRangeStartEx, &start);
  set(core, abi::Core::kRangeEnd, &end);
  set(core2, abi::Core2::kDomainRegisterStringA, &register_string);
  return 1;
}

extern "C" [[gnu::visibility("default")]] int InitializeInjectionNvtxExtension(
    abi::ExtensionModule* module) {
  if (module->module_id != abi::kPayloadModule) return 0;
  const auto id = static_cast<std::size_t>(abi::Payload::kRangePop);
  module->segments[0].slots[id] = reinterpret_cast<abi::Function>(&pop_payload);
  return std::getenv("NVTX_TOOL_REFUSES") == nullptr ? 1 : 0;
}
