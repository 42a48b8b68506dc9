#include "preload/module_list.hpp"

#include <string.h>

#include <cstddef>

#include "preload/loader_list.hpp"
#include "preload/output_path.hpp"
#include "preload/recorder.hpp"

namespace gpumemtrace::preload {
namespace {

constexpr std::size_t kMaxModules = 4096;
constexpr std::size_t kMaxPath = 1024;

struct KnownModule {
  std::uint64_t base = 0;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::uint64_t path_hash = 0;
  bool seen = false;
};

struct ModuleTable {
  KnownModule modules[kMaxModules];
  std::size_t count = 0;
  std::uint32_t changes = 0;  // of the list that was written
};
constinit ModuleTable table;

std::uint64_t hash_text(const char* text) noexcept {
  std::uint64_t hash = 0xcbf29ce484222325ull;  // FNV-1a
  for (; *text != '\0'; ++text) {
    hash = (hash ^ static_cast<unsigned char>(*text)) * 0x100000001b3ull;
  }
  return hash;
}

void write_module(const KnownModule& module, const char* path, bool unloaded) noexcept {
  trace::Module record;
  record.record.kind = trace::RecordKind::kModule;
  record.record.time = ticks();
  record.base = module.base;
  record.begin = module.begin;
  record.end = module.end;
  record.unloaded = unloaded ? 1 : 0;
  std::size_t length = strlen(path);
  if (length > kMaxPath) length = kMaxPath;
  write_record(&record, sizeof record, path, length);
}

int visit(dl_phdr_info* info, std::size_t, void*) noexcept {
  KnownModule module;
  module.base = info->dlpi_addr;
  module.begin = ~std::uint64_t{0};
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)& segment = info->dlpi_phdr[i];
    if (segment.p_type != PT_LOAD) continue;
    const std::uint64_t begin = info->dlpi_addr + segment.p_vaddr;
    if (begin < module.begin) module.begin = begin;
    if (begin + segment.p_memsz > module.end) module.end = begin + segment.p_memsz;
  }
  static char executable[kMaxPath + 1];
  const char* path = info->dlpi_name;
  if (path == nullptr || path[0] == '\0') {  // the loader's name for the main program
    const std::string_view full = executable_path();
    const std::size_t length = full.size() < kMaxPath ? full.size() : kMaxPath;
    memcpy(executable, full.data(), length);
    executable[length] = '\0';
    path = executable;
  }
  module.path_hash = hash_text(path);
  for (std::size_t i = 0; i < table.count; ++i) {
    KnownModule& known = table.modules[i];
    if (known.begin == module.begin && known.path_hash == module.path_hash) {
      known.seen = true;
      return 0;
    }
  }
  if (table.count == kMaxModules) return 0;
  module.seen = true;
  table.modules[table.count++] = module;
  write_module(module, path, false);
  return 0;
}

}  // namespace

void record_modules(const CallGuard&, LoaderList& modules) noexcept {
  modules.look();
  if (table.changes == modules.changes()) return;
  table.changes = modules.changes();
  for (std::size_t i = 0; i < table.count; ++i) table.modules[i].seen = false;
  modules.visit(visit, nullptr);
  std::size_t kept = 0;
  for (std::size_t i = 0; i < table.count; ++i) {
    if (table.modules[i].seen) {
      table.modules[kept++] = table.modules[i];
    } else {
      write_module(table.modules[i], "", true);
    }
  }
  table.count = kept;
}

void forget_modules() noexcept {
  table.count = 0;
  table.changes = 0;
}

}  // namespace gpumemtrace::preload
