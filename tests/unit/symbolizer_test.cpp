// SPDX-License-Identifier: Apache-2.0
// Names of code, read from files with sound, missing or wrong content; for sound files they must be
// those that addr2line prints.
#include "analyzer/symbols/symbolizer.hpp"

#include <fstream>
#include <random>
#include <sstream>

#include "analyzer/base/input_error.hpp"
#include "analyzer/symbols/readable_name.hpp"
#include "tests/catch.hpp"
#include "tests/support/compiled_library.hpp"
#include "tests/support/error_text.hpp"

namespace gpumemtrace::symbolizer_test {

using namespace gpumemtrace::analyzer;
using namespace gpumemtrace::tests;

namespace {

namespace fs = std::filesystem;

constexpr const char* kSource = R"(
namespace shop {
int stock[16];
inline __attribute__((always_inline)) int count(int shelf) {
  return stock[shelf & 15] += 1;
}
inline __attribute__((always_inline)) int restock(int shelf) {
  int sum = 0;
  for (int i = 0; i < shelf; ++i) {
    sum += count(i);
  }
  return sum;
}
struct Till {
  int total = 0;
  __attribute__((noinline)) void add(int price);
};
void Till::add(int price) {
  total += restock(price);
}
namespace {
__attribute__((noinline)) int hidden(int x) { return stock[x & 7] * 3 + restock(x); }
}
}
extern "C" __attribute__((noinline)) int plain_c(int x) { return shop::hidden(x) + 1; }
extern "C" void sell(shop::Till& till) { till.add(plain_c(3)); }
)";

struct Library : CompiledLibrary {
  explicit Library(const std::string& flags = "-g -O2")
      : CompiledLibrary("libshop.so", kSource, flags) {}
  ModuleIdentity identity() const { return {path.string(), build_id}; }
};

const char* const kAdd = "_ZN4shop4Till3addEi";

// The frames at an address as addr2line -fiC prints them: "function file:line" for each.
std::string addr2line(const fs::path& file, std::uint64_t address) {
  std::ostringstream command;
  command << "addr2line -fiC -e " << file.string() << " 0x" << std::hex << address
          << " | sed 's/ (discriminator.*//'";
  return output_of(command.str());
}

std::string as_addr2line(const std::vector<SymbolFrame>& frames) {
  std::string text;
  for (const SymbolFrame& frame : frames) {
    text += frame.function + '\n' + frame.file + ':' + std::to_string(frame.line) + '\n';
  }
  return text;
}

}  // namespace

TEST_CASE("inlined functions, files and lines are those that addr2line prints", "[unit]") {
  for (const char* flags : {"-g -O2", "-g -O2 -gdwarf-4", "-g -O2 -gz", "-g -O0"}) {
    INFO(flags);
    const Library library(flags);
    Symbolizer symbolizer({});
    int compared = 0;
    std::size_t deepest = 0;
    for (const auto& [name, place] : library.functions) {
      if (name.find("shop") == std::string::npos && name != "plain_c" && name != "sell") continue;
      if (name.find("stock") != std::string::npos && name.find("re") == std::string::npos) continue;
      for (std::uint64_t at = place.first; at < place.first + place.second; ++at) {
        const auto& frames = symbolizer.frames_at(library.identity(), at);
        REQUIRE_FALSE(frames.empty());
        deepest = std::max(deepest, frames.size());
        // For a local function, addr2line prints the name in the debug information, which lacks the
        // namespaces.
        if (frames.back().function.find("hidden") != std::string::npos) continue;
        INFO(name << " at " << at);
        CHECK(as_addr2line(frames) == addr2line(library.path, at));
        ++compared;
      }
    }
    CHECK(compared > 50);
    if (std::string(flags).find("-O2") != std::string::npos) CHECK(deepest == 3);
  }
}

TEST_CASE("a symbol without debug information gives the function alone", "[unit]") {
  const Library library("-O2");
  Symbolizer symbolizer({});
  const auto& frames = symbolizer.frames_at(library.identity(), library.begin_of(kAdd) + 2);
  REQUIRE(frames.size() == 1);
  CHECK(frames[0].function == "shop::Till::add(int)");
  CHECK(frames[0].file.empty());
  CHECK(frames[0].line == 0);
}

TEST_CASE("a stripped library still names what it exports", "[unit]") {
  const Library library;
  run_command("strip " + library.path.string());
  Symbolizer symbolizer({});
  const auto& frames = symbolizer.frames_at(library.identity(), library.begin_of(kAdd) + 2);
  REQUIRE(frames.size() == 1);
  CHECK(frames[0].function == "shop::Till::add(int)");
  CHECK(symbolizer.frames_at(library.identity(), 8).empty());
}

TEST_CASE("debug information is found apart from the code, by build-id", "[unit]") {
  const Library library;
  const std::string expected =
      as_addr2line(Symbolizer({}).frames_at(library.identity(), library.begin_of(kAdd) + 2));
  REQUIRE(expected.find("source.cpp:") != std::string::npos);
  const std::string digits = hexadecimal(library.build_id);
  const fs::path tree = library.folder.path() / "debug";
  const fs::path leaf = tree / ".build-id" / digits.substr(0, 2);
  fs::create_directories(leaf);
  const std::string path = library.path.string();
  SymbolOptions options;
  SECTION("in a tree of build-ids") {
    run_command("objcopy --only-keep-debug " + path + " " +
                (leaf / (digits.substr(2) + ".debug")).string());
    run_command("strip " + path);
    options.folders = {tree};
  }
  SECTION("by the name that the library links to") {
    const fs::path debug = library.folder.path() / ".debug" / "shop-debug";
    fs::create_directories(debug.parent_path());
    run_command("objcopy --only-keep-debug " + path + " " + debug.string());
    run_command("strip " + path);
    run_command("objcopy --add-gnu-debuglink=" + debug.string() + " " + path);
  }
  SECTION("where only a copy elsewhere is left") {
    fs::rename(library.path, tree / "libshop.so");
    options.folders = {tree};
  }
  SECTION("where a copy of the whole file system is left") {
    const fs::path copy = tree / library.path.relative_path();
    fs::create_directories(copy.parent_path());
    fs::rename(library.path, copy);
    options.folders = {tree};
  }
  Symbolizer symbolizer(options);
  CHECK(as_addr2line(symbolizer.frames_at(library.identity(), library.begin_of(kAdd) + 2)) ==
        expected);
  CHECK(symbolizer.unnamed_modules().empty());
}

TEST_CASE("a compressed symbol table in .gnu_debugdata names functions", "[unit]") {
  if (std::system("xz --version > /dev/null 2>&1") != 0) {
    WARN("xz is missing: .gnu_debugdata was not tested");
    return;
  }
  const Library library("-O2");
  const std::string path = library.path.string();
  const std::uint64_t hidden = library.begin_of("_ZN4shop12_GLOBAL__N_16hiddenEi");
  const std::string mini = (library.folder.path() / "mini").string();
  run_command("objcopy --strip-debug " + path + " " + mini + " && xz -f " + mini);
  run_command("strip " + path + " && objcopy --add-section .gnu_debugdata=" + mini + ".xz " + path);
  const auto frames = Symbolizer({}).frames_at(library.identity(), hidden + 1);
  REQUIRE(frames.size() == 1);
  CHECK(frames[0].function == "shop::(anonymous namespace)::hidden(int)");
}

TEST_CASE("a file of another build names nothing", "[unit]") {
  const Library library;
  ModuleIdentity other = library.identity();
  other.build_id[0] = static_cast<char>(other.build_id[0] + 1);
  Symbolizer symbolizer({});
  CHECK(symbolizer.frames_at(other, library.begin_of(kAdd)).empty());
  CHECK(symbolizer.unnamed_modules() == std::map<ModuleIdentity, bool>{{other, true}});
  CHECK(symbolizer.frames_at({library.path.string(), ""}, library.begin_of(kAdd)).empty());
  CHECK(symbolizer.unnamed_modules().size() == 2);
}

TEST_CASE("a missing file, a folder, a pipe and a text name nothing", "[unit]") {
  const TemporaryFolder folder;
  run_command("mkfifo " + (folder.path() / "pipe").string());
  std::ofstream(folder.path() / "text") << "#!/bin/sh\necho this is no ELF file\n";
  Symbolizer symbolizer({});
  for (const char* name : {"missing", "pipe", "text", "."}) {
    CHECK(symbolizer.frames_at({(folder.path() / name).string(), name}, 0x1000).empty());
  }
  CHECK(symbolizer.unnamed_modules().size() == 4);
}

TEST_CASE("a side-car says elsewhere what was known here", "[unit]") {
  const Library library;
  Symbolizer here({});
  const std::string expected =
      as_addr2line(here.frames_at(library.identity(), library.begin_of(kAdd) + 2));
  (void)here.frames_at(library.identity(), 8);  // no function lies there, so no name is written
  const fs::path file = library.folder.path() / "symbols.json";
  std::ofstream(file) << here.answers().text();
  CHECK(here.answers().named_offset_count() == 1);
  fs::remove(library.path);
  SymbolOptions options;
  options.side_cars = {file};
  Symbolizer elsewhere(options);
  CHECK(as_addr2line(elsewhere.frames_at(library.identity(), library.begin_of(kAdd) + 2)) ==
        expected);
  ModuleIdentity other = library.identity();
  other.build_id[0] = static_cast<char>(other.build_id[0] + 1);
  CHECK(elsewhere.frames_at(other, library.begin_of(kAdd) + 2).empty());
}

TEST_CASE("a file that is no side-car is refused in one sentence that names it", "[unit]") {
  const TemporaryFolder folder;
  const fs::path path = folder.path() / "symbols.json";
  const std::pair<const char*, const char*> cases[] = {
      {"", " is no file of symbols ("},
      {"{}", " is no file of symbols ("},
      {"[1]", " is no file of symbols ("},
      {R"({"format": "gpumemtrace-symbols", "version": 2})",
       " is no file of symbols of this version"},
      {R"({"format": "gpumemtrace-symbols", "version": 1, "modules": [7]})",
       " is no file of symbols ("}};
  for (const auto& [text, reason] : cases) {
    std::ofstream(path, std::ios::trunc) << text;
    SymbolOptions options;
    options.side_cars = {path};
    const std::string refusal = error_of<InputError>([&] { return Symbolizer(options); });
    CAPTURE(text, refusal);
    CHECK(refusal.starts_with(path.string() + reason));
    CHECK(refusal.ends_with("make it with `gpumemtrace symbolize`."));
  }
}

TEST_CASE("names are demangled, without the marks of compiler-made copies", "[unit]") {
  CHECK(readable_name("_ZN4shop4Till3addEi") == "shop::Till::add(int)");
  CHECK(readable_name("_ZN4shop4Till3addEi.part.0.cold") == "shop::Till::add(int)");
  CHECK(readable_name("step.constprop.1") == "step");
  CHECK(readable_name(".hidden") == ".hidden");
  CHECK(readable_name("_Znonsense") == "_Znonsense");
  CHECK(readable_name("") == "");
  CHECK(readable_name(std::string(100'000, 'x').c_str()).size() == 4096);
}

TEST_CASE("a name that stands for gigabytes of text is cut", "[unit]") {
  if (!can_demangle_bounded()) {
    WARN("libstdc++ is linked as a shared library: the bound on names was not tested");
    return;
  }
  // The mangled name of pair<T, T> of pair<T, T> of ...: S_ is std::pair, S0_ the innermost type,
  // S1_ the next.
  constexpr int kDepth = 30;
  std::string symbol = "_Z1fSt4pairI";
  for (int i = 1; i < kDepth; ++i) symbol += "S_I";
  symbol += "iiE";
  for (int i = 0; i + 1 < kDepth; ++i) {
    symbol += std::string("S") + "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"[i] + "_E";
  }
  const std::string name = readable_name(symbol.c_str());
  CHECK(name.size() == 4096);
  CHECK(name.substr(0, 12) == "f(std::pair<");
}

TEST_CASE("damaged libraries give fewer names and never a crash", "[unit]") {
  const Library library;
  std::ifstream file(library.path, std::ios::binary);
  const std::string whole((std::istreambuf_iterator<char>(file)), {});
  const fs::path damaged = library.folder.path() / "damaged.so";
  std::mt19937 random(20260);
  const auto ask = [&](const std::string& content) {
    std::ofstream(damaged, std::ios::binary | std::ios::trunc) << content;
    const std::unique_ptr<ElfFile> opened = ElfFile::open(damaged);
    if (opened == nullptr) return;
    Symbolizer symbolizer({});
    const ModuleIdentity identity{damaged.string(), opened->build_id()};
    for (const auto& [name, place] : library.functions) {
      (void)symbolizer.frames_at(identity, place.first + 1);
    }
  };
  for (int i = 0; i < 200; ++i) ask(whole.substr(0, random() % whole.size()));
  for (int i = 0; i < 800; ++i) {
    std::string content = whole;
    const std::size_t flips = 1 + random() % 20;
    for (std::size_t k = 0; k < flips; ++k) {
      content[random() % content.size()] = static_cast<char>(random());
    }
    ask(content);
  }
}

}  // namespace gpumemtrace::symbolizer_test
