// SPDX-License-Identifier: Apache-2.0
#include "tools/traces/untraced_reason.hpp"

#include <elf.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <optional>
#include <sstream>
#include <string_view>

#include "tools/base/text.hpp"
#include "tools/traces/output_folder.hpp"

namespace gpumemtrace::tools {
namespace {

namespace fs = std::filesystem;

#if defined(__x86_64__)
constexpr Elf64_Half kOwnMachine = EM_X86_64;
#elif defined(__aarch64__)
constexpr Elf64_Half kOwnMachine = EM_AARCH64;
#endif

// A disk with fewer free blocks than this counts as full: a trace needs more from its start on.
constexpr std::uint64_t kLeastBlocks = 2;

constexpr std::size_t kMostBytesRead = 1 << 20;

// Programs that start other programs in another environment than their own.
struct Launcher {
  std::string_view name;
  std::string_view effect;
};
constexpr auto kLaunchers = std::to_array<Launcher>({
    {"docker", "starts the program in a container; see `gpumemtrace env --for docker`"},
    {"podman", "starts the program in a container; see `gpumemtrace env --for docker`"},
    {"docker-compose", "starts containers; see `gpumemtrace env --for compose`"},
    {"systemd-run", "hands the program to systemd; see `gpumemtrace env --for systemd`"},
    {"kubectl", "starts the program in a pod; see `gpumemtrace env --for k8s`"},
    {"ray", "hands the program to workers that run already; see `gpumemtrace env --for ray`"},
    {"ssh", "starts the program on another machine; run gpumemtrace there"},
    {"sudo", "drops LD_PRELOAD; write `sudo gpumemtrace run -- ...`"},
    {"su", "drops LD_PRELOAD; run gpumemtrace inside it"},
});

struct PreloadingText {
  Preloading preloading;
  std::string_view text;
};
constexpr auto kPreloadingTexts = std::to_array<PreloadingText>({
    {Preloading::kStaticallyLinked,
     "is statically linked, so nothing can be preloaded into it; link it dynamically (a static "
     "CUDA runtime is fine)"},
    {Preloading::kOtherArchitecture,
     "is built for another processor or for 32 bits than the recording library"},
    {Preloading::kOtherLibc,
     "is not linked against glibc, which the recording library needs; build it on a glibc system"},
    {Preloading::kAddressSanitizer,
     "is built with AddressSanitizer, whose runtime must be the first library; write "
     "`LD_PRELOAD=libasan.so.N gpumemtrace run -- ...` with the one that `ldd` shows"},
    {Preloading::kPrivileged,
     "is setuid, setgid or has file capabilities, so the loader drops LD_PRELOAD; run a copy "
     "without them"},
});

std::optional<fs::path> find_program(const std::string& name) {
  if (name.find('/') != std::string::npos) return fs::path(name);
  const char* const path = std::getenv("PATH");
  std::istringstream folders(path == nullptr ? "/usr/bin:/bin" : path);
  for (std::string folder; std::getline(folders, folder, ':');) {
    const fs::path candidate = fs::path(folder.empty() ? "." : folder) / name;
    if (access(candidate.c_str(), X_OK) == 0 && fs::is_regular_file(candidate)) return candidate;
  }
  return std::nullopt;
}

bool is_privileged(const fs::path& file) {
  struct stat status = {};
  if (stat(file.c_str(), &status) != 0) return false;
  const bool changes_user = (status.st_mode & S_ISUID) != 0 && status.st_uid != getuid();
  const bool changes_group = (status.st_mode & S_ISGID) != 0 && status.st_gid != getgid();
  const bool has_capabilities = getxattr(file.c_str(), "security.capability", nullptr, 0) > 0;
  return changes_user || changes_group || has_capabilities;
}

std::string read_start(const fs::path& file, std::size_t most_bytes) {
  std::error_code ignored;
  if (!fs::is_regular_file(file, ignored)) return {};
  std::string content(most_bytes, '\0');
  std::ifstream stream(file, std::ios::binary);
  stream.read(content.data(), static_cast<std::streamsize>(most_bytes));
  content.resize(static_cast<std::size_t>(stream.gcount()));
  return content;
}

// True if the file is linked with AddressSanitizer's runtime: the name is in the dynamic string
// table, which is near the start of an ELF file.
bool needs_address_sanitizer(const fs::path& file) {
  const std::string start = read_start(file, kMostBytesRead);
  return start.find(std::string("\0libasan.so.", 12)) != std::string::npos;
}

// The path of the loader that an ELF file names; empty without one.
std::string read_loader_path(std::ifstream& file, const Elf64_Ehdr& header) {
  for (Elf64_Half i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr segment;
    file.seekg(static_cast<std::streamoff>(header.e_phoff + i * sizeof(segment)));
    if (!file.read(reinterpret_cast<char*>(&segment), sizeof(segment))) return {};
    if (segment.p_type != PT_INTERP || segment.p_filesz > 4096) continue;
    std::string path(segment.p_filesz, '\0');
    file.seekg(static_cast<std::streamoff>(segment.p_offset));
    if (!file.read(path.data(), static_cast<std::streamsize>(path.size()))) return {};
    return path;
  }
  return {};
}

// The program that the first line of a script names; empty if `file` is no script.
std::string script_interpreter(const fs::path& file) {
  const std::string start = read_start(file, 256);
  if (!start.starts_with("#!")) return {};
  std::istringstream words(start.substr(2, start.find('\n') - 2));
  std::string interpreter;
  words >> interpreter;
  if (fs::path(interpreter).filename() == "env") words >> interpreter;
  return interpreter;
}

bool replaces_preload(const std::string& text) {
  return text.find("LD_PRELOAD=") != std::string::npos ||
         text.find("unset LD_PRELOAD") != std::string::npos ||
         text.find("env -i ") != std::string::npos;
}

// The first word of the command that overwrites or removes LD_PRELOAD, or names a script that does.
std::optional<std::string> find_replacing_word(const std::vector<std::string>& command) {
  for (const std::string& word : command) {
    const std::string content = read_start(word, kMostBytesRead);
    const bool is_text = content.find('\0') == std::string::npos;
    if (replaces_preload(word) || (is_text && replaces_preload(content))) return word;
  }
  return std::nullopt;
}

std::string_view text_for(Preloading preloading) {
  const auto* const row =
      std::ranges::find(kPreloadingTexts, preloading, &PreloadingText::preloading);
  return row == kPreloadingTexts.end() ? std::string_view() : row->text;
}

}  // namespace

// Reads the ELF header and the loader's path of `file`, without starting it.
Preloading examine_executable(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  Elf64_Ehdr header;
  if (!stream.read(reinterpret_cast<char*>(&header), sizeof(header)) ||
      std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) {
    return Preloading::kNotAnExecutable;
  }
  if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_machine != kOwnMachine) {
    return Preloading::kOtherArchitecture;
  }
  if (is_privileged(file)) return Preloading::kPrivileged;
  const std::string loader = read_loader_path(stream, header);
  if (loader.empty()) return Preloading::kStaticallyLinked;
  if (loader.find("ld-linux") == std::string::npos) return Preloading::kOtherLibc;
  if (needs_address_sanitizer(file)) return Preloading::kAddressSanitizer;
  return Preloading::kWorks;
}

std::string why_unwritable(const fs::path& folder) {
  const fs::path there = existing_folder(folder);
  std::error_code ignored;
  const std::string end = "; choose another place with -o";
  if (!fs::is_directory(there, ignored)) {
    return format_text("no trace could be written: {} is no folder{}", there.string(), end);
  }
  if (access(there.c_str(), W_OK) != 0) {
    return format_text("no trace could be written in {}: {}{}", there.string(),
                       std::strerror(errno), end);
  }
  struct statvfs space = {};
  if (statvfs(there.c_str(), &space) != 0 || space.f_blocks == 0) return {};
  const bool is_full = space.f_bavail < kLeastBlocks || (space.f_files != 0 && space.f_favail == 0);
  return is_full ? format_text("no trace could be written: the disk of {} is full{}",
                               there.string(), end)
                 : std::string();
}

std::string why_untraced(const std::vector<std::string>& command) {
  const std::optional<fs::path> program = find_program(command.front());
  if (program) {
    // A launcher's hint comes first: many launchers are setuid or statically linked, but their own
    // process need not be recorded.
    const std::string name = program->filename().string();
    for (const Launcher& launcher : kLaunchers) {
      if (launcher.name == name) return format_text("{} {}", name, launcher.effect);
    }
    const std::string interpreter = script_interpreter(*program);
    const std::optional<fs::path> started =
        interpreter.empty() ? program : find_program(interpreter);
    if (started) {
      const std::string_view text = text_for(examine_executable(*started));
      if (!text.empty()) return format_text("{} {}", started->string(), text);
    }
  }
  if (const std::optional<std::string> word = find_replacing_word(command)) {
    return format_text(
        "'{}' replaces LD_PRELOAD; let it keep the old value, as in "
        "LD_PRELOAD=other.so:$LD_PRELOAD",
        *word);
  }
  return "no process made a CUDA call that creates a context, allocates or copies; "
         "`gpumemtrace doctor` says what works on this machine";
}

}  // namespace gpumemtrace::tools
