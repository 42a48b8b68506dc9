// SPDX-License-Identifier: Apache-2.0
// The file that an address belonged to, when files are loaded and unloaded.
#include "analyzer/stacks/module_map.hpp"

#include <algorithm>
#include <random>
#include <tuple>
#include <vector>

#include "tests/catch.hpp"

namespace gpumemtrace::module_map_test {

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
  CHECK(name_at(map, 0x1100, 350) == "first");  // no other file was ever there
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

TEST_CASE("of files that lie over one another the one that fits the time best is found", "[unit]") {
  struct Known {
    std::uint64_t begin, end, loaded, unloaded;
    std::string name;
  };
  std::mt19937_64 random(1);
  for (int round = 0; round < 50; ++round) {
    ModuleMap map;
    std::vector<Known> all;
    for (std::uint64_t i = 0; i < 30; ++i) {
      const std::uint64_t begin = random() % 40;
      const std::uint64_t time = 10 * i + random() % 10;
      const bool is_end = random() % 3 == 0;
      const Known next{begin, begin + 1 + random() % 20, time, LoadedModule::kStillLoaded,
                       std::to_string(i)};
      for (Known& known : all) {
        const bool is_over =
            is_end ? known.begin == begin : known.begin < next.end && known.end > begin;
        if (is_over && known.unloaded == LoadedModule::kStillLoaded) known.unloaded = time;
      }
      map.add(module_record(time, begin, next.end, is_end), next.name);
      if (!is_end) all.push_back(next);
    }
    for (std::uint64_t address = 0; address < 64; ++address) {
      const std::uint64_t time = random() % 330;
      const auto misfit = [&](const Known& known) {
        const auto [kind, distance] = known.loaded > time      ? std::pair(1, known.loaded - time)
                                      : known.unloaded <= time ? std::pair(2, time - known.unloaded)
                                                               : std::pair(0, time - known.loaded);
        return std::tuple(kind, distance, ~known.begin);
      };
      const Known* best = nullptr;
      for (const Known& known : all) {
        if (address < known.begin || address >= known.end) continue;
        if (best == nullptr || misfit(known) < misfit(*best)) best = &known;
      }
      CHECK(name_at(map, address, time) == (best == nullptr ? "none" : best->name));
    }
  }
}

}  // namespace gpumemtrace::module_map_test
