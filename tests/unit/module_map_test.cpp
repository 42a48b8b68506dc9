// SPDX-License-Identifier: Apache-2.0
// Which file an address belonged to, when files come and go.
#include "analyzer/stacks/module_map.hpp"

#include "tests/catch.hpp"

using namespace gpumemtrace::analyzer;
namespace trace = gpumemtrace::trace;

namespace {

trace::Module module_record(std::uint64_t time, std::uint64_t begin, std::uint64_t end,
                            bool unloaded = false) {
  trace::Module record;
  record.record.time = time;
  record.base = begin;
  record.begin = begin;
  record.end = end;
  record.unloaded = unloaded ? 1 : 0;
  return record;
}

std::string name_at(const ModuleMap& map, std::uint64_t address, std::uint64_t time) {
  const LoadedModule* module = map.find(address, time);
  return module == nullptr ? "none" : module->identity.path;
}

}  // namespace

TEST_CASE("an address belongs to the file that lay around it at its time", "[unit]") {
  ModuleMap map;
  map.add(module_record(100, 0x1000, 0x2000), "first");
  map.add(module_record(200, 0x1000, 0x2000, true), "");
  map.add(module_record(300, 0x1800, 0x3000), "second");
  map.add(module_record(300, 0x8000, 0x9000), "elsewhere");
  CHECK(name_at(map, 0x1900, 150) == "first");
  CHECK(name_at(map, 0x1900, 350) == "second");
  CHECK(name_at(map, 0x1100, 350) == "first");  // nothing else was ever there
  CHECK(name_at(map, 0x2900, 350) == "second");
  CHECK(name_at(map, 0x3000, 350) == "none");
  CHECK(name_at(map, 0x0fff, 150) == "none");
  CHECK(name_at(map, 0x1900, ModuleMap::kLatest) == "second");
}

TEST_CASE("a file that was seen late is found for addresses before that", "[unit]") {
  ModuleMap map;
  map.add(module_record(100, 0x1000, 0x2000), "first");
  map.add(module_record(200, 0x1000, 0x2000, true), "");
  map.add(module_record(300, 0x1000, 0x2000), "second");
  map.add(module_record(400, 0x1000, 0x2000, true), "");
  map.add(module_record(500, 0x1000, 0x2000), "third");
  CHECK(name_at(map, 0x1500, 50) == "first");
  CHECK(name_at(map, 0x1500, 250) == "second");
  CHECK(name_at(map, 0x1500, 450) == "third");
}

TEST_CASE("a file that is told twice is one", "[unit]") {
  ModuleMap map;
  map.add(module_record(100, 0x1000, 0x2000), "first");
  map.add(module_record(500, 0x1000, 0x2000), "first");
  CHECK(map.find(0x1500, 200)->loaded == 100);
  CHECK(map.find(0x1500, 600)->loaded == 100);
}

TEST_CASE("a record whose end lies before its begin holds no address", "[unit]") {
  ModuleMap map;
  map.add(module_record(100, 0x5000, 0x1000), "odd");
  map.add(module_record(100, 0, ~std::uint64_t{0}), "everything");
  CHECK(name_at(map, 0x5000, 200) == "everything");
  CHECK(name_at(map, ~std::uint64_t{0}, 200) == "none");
}
