// SPDX-License-Identifier: Apache-2.0
#include "tools/traces/untraced_reason.hpp"

#include <elf.h>

#include <cstring>

#include "tests/catch.hpp"
#include "tests/support/temporary_folder.hpp"

namespace gpumemtrace::tools::untraced_reason_test {
namespace {

// An ELF file of this machine whose only segment names `loader`; if that is empty, the file has no
// segment.
std::string elf_file(const std::string& loader, unsigned char elf_class = ELFCLASS64) {
  Elf64_Ehdr own;
  std::ifstream("/proc/self/exe", std::ios::binary)
      .read(reinterpret_cast<char*>(&own), sizeof(own));
  own.e_ident[EI_CLASS] = elf_class;
  own.e_phoff = sizeof(own);
  own.e_phnum = loader.empty() ? 0 : 1;
  Elf64_Phdr segment = {};
  segment.p_type = PT_INTERP;
  segment.p_offset = sizeof(own) + sizeof(segment);
  segment.p_filesz = loader.size();
  std::string content(sizeof(own) + sizeof(segment), '\0');
  std::memcpy(content.data(), &own, sizeof(own));
  std::memcpy(content.data() + sizeof(own), &segment, sizeof(segment));
  return content + loader;
}

}  // namespace

TEST_CASE("a dynamically linked program can be preloaded into", "[unit]") {
  const tests::TemporaryFolder folder;
  CHECK(examine_executable(folder.write("a", elf_file("/lib64/ld-linux-x86-64.so.2"))) ==
        Preloading::kWorks);
}

TEST_CASE("a program without a loader is statically linked", "[unit]") {
  const tests::TemporaryFolder folder;
  CHECK(examine_executable(folder.write("a", elf_file(""))) == Preloading::kStaticallyLinked);
}

TEST_CASE("a program with another loader than glibc's is told apart", "[unit]") {
  const tests::TemporaryFolder folder;
  CHECK(examine_executable(folder.write("a", elf_file("/lib/ld-musl-x86_64.so.1"))) ==
        Preloading::kOtherLibc);
}

TEST_CASE("a program that needs AddressSanitizer's runtime is told apart", "[unit]") {
  const tests::TemporaryFolder folder;
  const std::string needed("/lib64/ld-linux-x86-64.so.2\0libasan.so.8\0", 41);
  CHECK(examine_executable(folder.write("a", elf_file(needed))) == Preloading::kAddressSanitizer);
}

TEST_CASE("a 32-bit program is told apart", "[unit]") {
  const tests::TemporaryFolder folder;
  CHECK(examine_executable(folder.write("a", elf_file("/lib/ld-linux.so.2", ELFCLASS32))) ==
        Preloading::kOtherArchitecture);
}

TEST_CASE("a text or a truncated program is no executable", "[unit]") {
  const tests::TemporaryFolder folder;
  CHECK(examine_executable(folder.write("a", "#!/bin/sh\n")) == Preloading::kNotAnExecutable);
  CHECK(examine_executable(folder.write("b", elf_file("").substr(0, 20))) ==
        Preloading::kNotAnExecutable);
  CHECK(examine_executable(folder.path() / "missing") == Preloading::kNotAnExecutable);
}

TEST_CASE("a command that replaces LD_PRELOAD is named", "[unit]") {
  const tests::TemporaryFolder folder;
  const std::string script =
      folder.write("start.sh", "#!/bin/sh\nexport LD_PRELOAD=x.so\n").string();
  CHECK(why_untraced({"sh", "-c", "LD_PRELOAD=x.so ./a"}).find("replaces LD_PRELOAD") !=
        std::string::npos);
  CHECK(why_untraced({"sh", script}).find(script) != std::string::npos);
}

TEST_CASE("a launcher that is linked statically gets the launcher's hint", "[unit]") {
  const tests::TemporaryFolder folder;
  const std::string launcher = folder.write("kubectl", elf_file("")).string();
  CHECK(why_untraced({launcher}) ==
        "kubectl starts the program in a pod; see `gpumemtrace env --for k8s`");
  const std::string program = folder.write("program", elf_file("")).string();
  CHECK(why_untraced({program}).find("is statically linked") != std::string::npos);
}

TEST_CASE("a command without any visible obstacle made no CUDA call", "[unit]") {
  CHECK(why_untraced({"sh", "-c", "true"}).find("no process made a CUDA call") !=
        std::string::npos);
}

}  // namespace gpumemtrace::tools::untraced_reason_test
