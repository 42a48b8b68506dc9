// SPDX-License-Identifier: Apache-2.0
// Unwind rules, compared with readelf's output for the same files and read from damaged tables.

#include "preload/native/frame_rules.hpp"

#include <dlfcn.h>

#include <cstdio>
#include <memory>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "preload/loader/loaded_module.hpp"
#include "preload/loader/loader_list.hpp"
#include "preload/native/frame_registers.hpp"
#include "tests/catch.hpp"

namespace gpumemtrace::preload::native::frame_rules_test {
namespace {

// Publishes the list of modules, as the background thread does after each refresh.
void publish_now() {
  LoaderList modules;
  modules.find_list();
  (void)modules.refresh();
  publish_modules(modules);
}

struct Library {
  LoadedModule module;
  std::string path;
};

Library open_library(const char* name, const char* symbol) {
  choose_module_lookup();
  publish_now();
  void* const handle = dlopen(name, RTLD_NOW);
  REQUIRE(handle != nullptr);
  publish_now();
  Library library;
  REQUIRE(find_module(reinterpret_cast<std::uintptr_t>(dlsym(handle, symbol)), library.module));
  library.path = library.module.path;
  return library;
}

std::vector<std::string> words_of(const std::string& line) {
  std::istringstream stream(line);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

constexpr const char* kNames[kRegisters] = {"rax", "rdx", "rcx", "rbx", "rsi", "rdi",
                                            "rbp", "rsp", "r8",  "r9",  "r10", "r11",
                                            "r12", "r13", "r14", "r15", "ra"};

std::string signed_text(std::int64_t value) {
  return (value < 0 ? "" : "+") + std::to_string(value);
}

// The rules as readelf's display_debug_frames writes them.
std::string frame_text(const FrameRules& rules) {
  if (rules.frame_is_expression) return "exp";
  const std::string name = rules.frame_register < kRegisters ? kNames[rules.frame_register] : "?";
  return name + signed_text(rules.frame_offset);
}
std::string register_text(const RegisterRule& rule) {
  switch (rule.kind) {
    case RuleKind::kSame:
    case RuleKind::kUndefined:
      return "u";
    case RuleKind::kOffset:
      return "c" + signed_text(rule.value);
    case RuleKind::kValueOffset:
      return "v" + signed_text(rule.value);
    case RuleKind::kRegister:
      return kNames[rule.value];
    case RuleKind::kExpression:
      return "exp";
    case RuleKind::kValueExpression:
      return "vexp";
  }
  return "?";
}

// One row of readelf's table: address, CFA, then the registers named in `columns`.
std::string row_text(const Library& library, std::uint64_t address,
                     const std::vector<std::string>& columns) {
  FrameDescription description;
  FrameRules rules;
  if (!find_frame_description(library.module.unwind, address, description)) return "no entry";
  if (!rules_at(description, address, rules)) return "no rules";
  std::string text = frame_text(rules);
  for (std::size_t i = 2; i < columns.size(); ++i) {
    for (std::size_t number = 0; number < kRegisters; ++number) {
      if (columns[i] == kNames[number]) text += " " + register_text(rules.registers[number]);
    }
  }
  return text;
}

struct Comparison {
  std::size_t rows = 0;
  std::vector<std::string> differences;
};

Comparison compare_with_readelf(const Library& library) {
  const std::string command =
      "readelf --debug-dump=frames-interp '" + library.path + "' 2>/dev/null";
  const std::unique_ptr<FILE, int (*)(FILE*)> output(popen(command.c_str(), "r"), pclose);
  REQUIRE(output != nullptr);
  Comparison comparison;
  std::vector<std::string> columns;
  bool in_function = false;
  char line[4096];
  while (std::fgets(line, sizeof line, output.get()) != nullptr) {
    const std::string text = line;
    const std::vector<std::string> words = words_of(text);
    if (text.find(" FDE ") != text.npos || text.find(" CIE ") != text.npos) {
      in_function = text.find(" FDE ") != text.npos;
    } else if (!words.empty() && words[0] == "LOC") {
      columns = words;
    } else if (in_function && words.size() == columns.size() && words[0].size() == 16) {
      std::string expected = words[1];
      for (std::size_t i = 2; i < words.size(); ++i) expected += " " + words[i];
      const std::uint64_t address = library.module.base + std::stoull(words[0], nullptr, 16);
      const std::string ours = row_text(library, address, columns);
      ++comparison.rows;
      if (ours != expected) {
        comparison.differences.push_back(words[0] + ": " + ours + " instead of " + expected);
      }
    }
  }
  return comparison;
}

void check_library(const char* name, const char* symbol) {
  const Library library = open_library(name, symbol);
  CAPTURE(library.path);
  const Comparison comparison = compare_with_readelf(library);
  if (comparison.rows == 0) {
    WARN("readelf printed nothing: there is nothing to compare with");
    return;
  }
  CHECK(comparison.rows > 5000);
  CHECK(comparison.differences == std::vector<std::string>{});
}

}  // namespace

TEST_CASE("the rules of all functions of libc are those that readelf prints", "[unit]") {
  check_library("libc.so.6", "qsort");
}

TEST_CASE("the rules of all functions of libstdc++ are those that readelf prints", "[unit]") {
  check_library("libstdc++.so.6", "_ZSt9terminatev");
}

TEST_CASE("damaged unwind tables end a look-up and never crash it", "[unit]") {
  const Library library = open_library("libm.so.6", "sin");
  const UnwindTables& sound = library.module.unwind;
  REQUIRE(sound.header != nullptr);
  // Each damaged copy has exactly the size of the segment, so that sanitizers see a read past its
  // end. Offsets from one place of the segment to another stay valid in the copy.
  const std::vector<std::uint8_t> original(sound.begin, sound.end);
  std::mt19937_64 random(1);
  std::size_t found = 0;
  for (int round = 0; round < 100; ++round) {
    std::vector<std::uint8_t> copy = original;
    const auto header = static_cast<std::size_t>(sound.header - sound.begin);
    for (int flips = 0; flips < 2000; ++flips) {
      copy[header + random() % (copy.size() - header)] ^=
          static_cast<std::uint8_t>(1u << random() % 8);
    }
    // The search table's own header stays intact, or nothing behind it would be reached.
    std::copy_n(original.begin() + static_cast<std::ptrdiff_t>(header), 12,
                copy.begin() + static_cast<std::ptrdiff_t>(header));
    const UnwindTables tables{copy.data() + header, copy.data(), copy.data() + copy.size()};
    const std::uint64_t code =
        reinterpret_cast<std::uintptr_t>(copy.data()) -
        (reinterpret_cast<std::uintptr_t>(sound.begin) - library.module.base);
    for (int look = 0; look < 2000; ++look) {
      FrameDescription description;
      FrameRules rules;
      const std::uint64_t address = code + random() % (library.module.end - library.module.base);
      if (!find_frame_description(tables, address, description) ||
          !rules_at(description, address, rules)) {
        continue;
      }
      ++found;
      std::uint64_t words[64] = {};
      Registers registers;
      for (std::size_t i = 0; i < kRegisters; ++i) {
        registers.set(i, reinterpret_cast<std::uintptr_t>(&words[i]));
      }
      StackMemory memory(registers.values[kRsp]);
      step(rules, registers, memory);
    }
  }
  CHECK(found > 1000);
}

}  // namespace gpumemtrace::preload::native::frame_rules_test
