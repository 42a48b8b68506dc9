// SPDX-License-Identifier: Apache-2.0
#include "preload/loader/loader_list.hpp"

#include <dlfcn.h>

#include <atomic>
#include <cstring>
#include <fstream>
#include <map>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "preload/loader/elf_symbols.hpp"
#include "tests/catch.hpp"
#include "tests/support/trace_builder.hpp"

namespace gpumemtrace::preload::loader_list_test {
namespace {

// Modules by name, each with the parts that are compared: its base, and its program headers as
// bytes.
using Modules = std::map<std::string, std::pair<std::uint64_t, std::string>>;

auto collect_into(Modules& modules) {
  return [&](const dl_phdr_info& info) {
    modules[info.dlpi_name] = {info.dlpi_addr,
                               std::string(reinterpret_cast<const char*>(info.dlpi_phdr),
                                           info.dlpi_phnum * sizeof *info.dlpi_phdr)};
    return false;
  };
}

Modules seen_by_us(const LoaderList& loaded) {
  Modules modules;
  (void)loaded.visit(collect_into(modules));
  return modules;
}

Modules seen_by_the_loader() {
  Modules modules;
  (void)find_loaded(collect_into(modules));
  return modules;
}

std::string path_of_libm() {
  void* const library = dlopen("libm.so.6", RTLD_NOW);
  REQUIRE(library != nullptr);
  Dl_info info = {};
  REQUIRE(dladdr(dlsym(library, "cos"), &info) != 0);
  return info.dli_fname;
}

std::string content_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// A copy of libm under a name of its own.
std::string make_library(const gpumemtrace::tests::TemporaryFolder& folder,
                         const std::string& content) {
  const std::string path = (folder.path() / "copy.so").string();
  std::ofstream(path, std::ios::binary) << content;
  return path;
}

}  // namespace

TEST_CASE("the modules found without the loader's lock are those that it knows", "[unit]") {
  LoaderList loaded;
  loaded.find_list();
  REQUIRE(loaded.refresh());
  CHECK(seen_by_us(loaded) == seen_by_the_loader());
  CHECK_FALSE(loaded.refresh());
  CHECK(loaded.changes() == 1);
}

TEST_CASE("a library that is opened or closed changes the list of modules", "[unit]") {
  const gpumemtrace::tests::TemporaryFolder folder;
  const std::string path = make_library(folder, content_of(path_of_libm()));
  LoaderList loaded;
  loaded.find_list();
  REQUIRE(loaded.refresh());
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  REQUIRE(library != nullptr);
  CHECK(loaded.refresh());
  CHECK(seen_by_us(loaded).count(path) == 1);
  CHECK(seen_by_us(loaded) == seen_by_the_loader());
  dlclose(library);
  CHECK(loaded.refresh());
  CHECK(seen_by_us(loaded).count(path) == 0);
}

TEST_CASE("program headers that a tool moved behind everything else are found", "[unit]") {
  const gpumemtrace::tests::TemporaryFolder folder;
  std::string content = content_of(path_of_libm());
  ElfW(Ehdr) header;
  std::memcpy(&header, content.data(), sizeof header);
  const std::string segments =
      content.substr(header.e_phoff, std::size_t{header.e_phnum} * sizeof(ElfW(Phdr)));
  content.resize((content.size() + 15) / 16 * 16);
  header.e_phoff = content.size();
  content += segments;
  std::memcpy(content.data(), &header, sizeof header);
  const std::string path = make_library(folder, content);
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  REQUIRE(library != nullptr);
  LoaderList loaded;
  loaded.find_list();
  REQUIRE(loaded.refresh());
  CHECK(seen_by_us(loaded) == seen_by_the_loader());
  dlclose(library);
}

TEST_CASE("libraries that come and go while one looks do no harm", "[unit]") {
  const gpumemtrace::tests::TemporaryFolder folder;
  const std::string path = make_library(folder, content_of(path_of_libm()));
  const Modules before = seen_by_the_loader();
  std::atomic<bool> stop = false;
  std::thread program([&] {
    while (!stop.load()) dlclose(dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL));
  });
  LoaderList loaded;
  loaded.find_list();
  for (int found = 0; found < 200;) {
    if (!loaded.refresh()) continue;
    ++found;
    Modules modules = seen_by_us(loaded);
    modules.erase(path);
    REQUIRE(modules == before);
    find_symbol(loaded, "no_such_symbol");
  }
  stop.store(true);
  program.join();
}

TEST_CASE("a symbol is found through the kernel where dlsym finds it", "[unit]") {
  LoaderList loaded;
  loaded.find_list();
  REQUIRE(loaded.refresh());
  CHECK(find_symbol(loaded, "environ") == dlsym(RTLD_DEFAULT, "environ"));
  CHECK(find_symbol(loaded, "getpid") == dlsym(RTLD_DEFAULT, "getpid"));
  CHECK(find_symbol(loaded, "no_such_symbol") == nullptr);
}

}  // namespace gpumemtrace::preload::loader_list_test
