// SPDX-License-Identifier: Apache-2.0
// Finds the file that an address lies in, by the loader and by our own list, and its build-id.

#include "preload/loader/loaded_module.hpp"

#include <dlfcn.h>
#include <gnu/libc-version.h>
#include <stdlib.h>

#include <cmath>
#include <cstdio>
#include <memory>
#include <string>

#include "preload/loader/loader_list.hpp"
#include "preload/native/unwind_cache.hpp"
#include "tests/catch.hpp"

namespace gpumemtrace::preload::loaded_module_test {
namespace {

// Publishes the list of modules, as the background thread does after each refresh.
void publish_now() {
  LoaderList modules;
  modules.find_list();
  (void)modules.refresh();
  publish_modules(modules);
}

void publish_list_now() {
  LoaderList modules;
  modules.find_list();
  (void)modules.refresh();
  publish_module_list(modules);
}

int some_data = 1;

std::string build_id_text(const LoadedModule& module) {
  const BuildId id = find_build_id(module);
  std::string text;
  for (std::uint32_t i = 0; i < id.bytes; ++i) {
    char digits[3];
    std::snprintf(digits, sizeof digits, "%02x", id.content[i]);
    text += digits;
  }
  return text;
}

std::string readelf_build_id(const std::string& path) {
  const std::string command = "readelf --notes '" + path + "' 2>/dev/null";
  const std::unique_ptr<FILE, int (*)(FILE*)> output(popen(command.c_str(), "r"), pclose);
  char line[1024];
  constexpr std::string_view kLabel = "Build ID: ";
  while (output != nullptr && std::fgets(line, sizeof line, output.get()) != nullptr) {
    const std::string text = line;
    const std::size_t at = text.find(kLabel);
    if (at == text.npos) continue;
    const std::string id = text.substr(at + kLabel.size());
    return id.substr(0, id.find('\n'));
  }
  return {};
}

}  // namespace

TEST_CASE("our list of modules finds what the loader finds", "[unit]") {
  choose_module_lookup();
  publish_list_now();
  const void* const addresses[] = {reinterpret_cast<void*>(&qsort), &some_data,
                                   reinterpret_cast<void*>(&build_id_text), stdout};
  for (const void* pointer : addresses) {
    const auto address = reinterpret_cast<std::uintptr_t>(pointer);
    LoadedModule listed;
    REQUIRE(find_listed_module(address, listed));
    LoadedModule found;
    REQUIRE(find_module(address, found));
    CHECK(listed.base == found.base);
    CHECK(listed.begin <= address);
    CHECK(address < listed.end);
    CHECK(listed.unwind.header == found.unwind.header);
    CHECK(listed.unwind.begin == found.unwind.begin);
    CHECK(std::string(listed.path) == found.path);
  }
  LoadedModule none;
  CHECK_FALSE(find_listed_module(1, none));
  CHECK_FALSE(find_listed_module(~std::uint64_t{0}, none));
  CHECK_FALSE(find_module(16, none));
  const auto heap = std::make_unique<int>(1);
  CHECK_FALSE(find_listed_module(reinterpret_cast<std::uintptr_t>(heap.get()), none));
}

TEST_CASE("our list of modules is not believed after an unload", "[unit]") {
  publish_list_now();
  const auto address = reinterpret_cast<std::uintptr_t>(&gnu_get_libc_version);
  LoadedModule module;
  REQUIRE(find_listed_module(address, module));
  const std::uint32_t count = unload_count();
  unload_begins();
  CHECK(unload_is_running());
  CHECK_FALSE(find_listed_module(address, module));
  unload_ends();  // nothing was unloaded, so the list is as good as it was
  CHECK(find_listed_module(address, module));
  CHECK_FALSE(unload_is_running());
  CHECK(unload_count() == count);
  unload_was_noticed();
  CHECK(unload_count() != count);
  CHECK_FALSE(find_listed_module(address, module));
}

TEST_CASE("a build-id is the one that readelf prints", "[unit]") {
  choose_module_lookup();
  publish_now();
  LoadedModule module;
  REQUIRE(find_module(reinterpret_cast<std::uintptr_t>(&gnu_get_libc_version), module));
  const std::string expected = readelf_build_id(module.path);
  if (expected.empty()) WARN("readelf printed no build-id: there is nothing to compare with");
  CHECK(build_id_text(module) == expected);
}

TEST_CASE("a packed rule comes back as it was", "[unit]") {
  using namespace native;
  CachedRule rule;
  rule.kind = CachedKind::kPlain;
  rule.by_rbp = true;
  rule.guessed = true;
  rule.frame_offset = kMaxCachedBytes;
  rule.rbp_distance = 16;
  rule.module_serial = kMaxModuleSerial;
  const CachedRule back = unpack(pack(rule));
  CHECK(back.kind == rule.kind);
  CHECK(back.by_rbp);
  CHECK(back.guessed);
  CHECK(back.frame_offset == rule.frame_offset);
  CHECK(back.rbp_distance == rule.rbp_distance);
  CHECK(back.module_serial == rule.module_serial);
}

TEST_CASE("rules are found by address and generation, however full the table is", "[unit]") {
  native::RuleCache table;
  REQUIRE(table.reset());
  constexpr std::uint64_t kFirst = 0x7f00'0000'1000;
  for (std::uint64_t i = 0; i < 1'000'000; ++i) {
    table.insert(kFirst + i, 3, i + 1);
    if (table.find(kFirst + i, 3) != i + 1) FAIL("a rule is not found right after its insertion");
  }
  std::size_t kept = 0;
  for (std::uint64_t i = 0; i < 1'000'000; ++i) {
    const std::uint64_t rule = table.find(kFirst + i, 3);
    if (rule != 0 && rule != i + 1) FAIL("another address's rule is found");
    kept += rule != 0;
    if (table.find(kFirst + i, 4) != 0) FAIL("an older generation's rule is found");
  }
  CHECK(kept > 12'000);
  REQUIRE(table.reset());
  CHECK(table.find(kFirst + 999'999, 3) == 0);
}

}  // namespace gpumemtrace::preload::loaded_module_test
