// SPDX-License-Identifier: Apache-2.0
#include "preload/stacks/module_list.hpp"

#include <string.h>

#include <cstddef>

#include "preload/base/key_table.hpp"
#include "preload/loader/loaded_module.hpp"
#include "preload/loader/loader_list.hpp"
#include "preload/ring/recorder.hpp"
#include "preload/trace_file/output_path.hpp"

namespace gpumemtrace::preload {
namespace {

constexpr std::size_t kMaxModules = 4096;
constexpr std::size_t kLongestPath = 1024;
constexpr std::size_t kSerialSlots = std::size_t{1} << 14;

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
  std::uint32_t changes = 0;  // LoaderList::changes() at the last update
};
constinit ModuleTable table;
constinit KeyTable serials;

std::uint64_t hash_text(const char* text) noexcept {
  std::uint64_t hash = 0xcbf29ce484222325ull;  // FNV-1a
  for (; *text != '\0'; ++text) {
    hash = (hash ^ static_cast<unsigned char>(*text)) * 0x100000001b3ull;
  }
  return hash;
}

// Writes a Module record. False if the ring had no room.
bool write_module(const KnownModule& module, const char* path, const BuildId& id,
                  bool unloaded) noexcept {
  trace::Module record;
  record.base = module.base;
  record.begin = module.begin;
  record.end = module.end;
  record.unloaded = unloaded ? 1 : 0;
  std::uint64_t words[] = {0, 0, 0};
  static_assert(sizeof words == sizeof id.content);
  memcpy(words, id.content, sizeof words);
  record.build_id_0 = words[0];
  record.build_id_1 = words[1];
  record.build_id_2 = words[2];
  record.build_id_bytes = id.bytes;
  std::size_t length = strlen(path);
  if (length > kLongestPath) length = kLongestPath;
  return write_record(record, {path, length});
}

// The loader's name for the main program is empty.
const char* path_of(const char* name) noexcept {
  return name == nullptr || name[0] == '\0' ? executable_path().data() : name;
}

// Marks a file in the loader's list as still loaded; writes its Module record if it is new.
void note_loaded_file(const dl_phdr_info& info) noexcept {
  KnownModule module;
  module.base = info.dlpi_addr;
  const AddressRange range = range_of(info);
  module.begin = range.begin;
  module.end = range.end;
  const char* const path = path_of(info.dlpi_name);
  module.path_hash = hash_text(path);
  for (std::size_t i = 0; i < table.count; ++i) {
    KnownModule& known = table.modules[i];
    if (known.begin == module.begin && known.path_hash == module.path_hash) {
      known.seen = true;
      return;
    }
  }
  if (table.count == kMaxModules) return;
  module.seen = true;
  table.modules[table.count++] = module;
  write_module(module, path, find_build_id(info.dlpi_addr, info.dlpi_phdr, info.dlpi_phnum), false);
}

// A hash that identifies a file at its address. The first bytes of the unwind search table tell
// files without a build-id apart if they have the same name.
std::uint64_t identity_of(const LoadedModule& module, const BuildId& id) noexcept {
  std::uint64_t hash = hash_text(module.path);
  const auto add = [&](std::uint64_t value) noexcept { hash = (hash ^ value) * 0x100000001b3ull; };
  add(module.base);
  add(module.begin);
  add(module.end);
  for (const std::uint8_t byte : id.content) add(byte);
  constexpr std::size_t kTableBytes = 64;
  const UnwindTables& tables = module.unwind;
  for (std::size_t i = 0; i < kTableBytes && tables.header + i < tables.end; ++i) {
    add(tables.header[i]);
  }
  return hash;
}

}  // namespace

void record_modules(const CallGuard&, LoaderList& modules) noexcept {
  (void)modules.refresh();
  if (table.changes == modules.changes()) return;
  table.changes = modules.changes();
  for (std::size_t i = 0; i < table.count; ++i) table.modules[i].seen = false;
  (void)modules.visit([](const dl_phdr_info& info) noexcept {
    note_loaded_file(info);
    return false;
  });
  publish_modules(modules);
  std::size_t kept = 0;
  for (std::size_t i = 0; i < table.count; ++i) {
    if (table.modules[i].seen) {
      table.modules[kept++] = table.modules[i];
    } else {
      write_module(table.modules[i], "", {}, true);
      unload_was_noticed();
    }
  }
  table.count = kept;
}

std::uint32_t module_serial(const LoadedModule& module) noexcept {
  const BuildId id = find_build_id(module);
  bool emitted = false;
  const std::uint32_t serial = serials.intern(identity_of(module, id), emitted);
  if (serial != 0 && !emitted &&
      write_module({module.base, module.begin, module.end}, path_of(module.path), id, false)) {
    serials.mark_emitted(serial);
  }
  return serial;
}

void forget_modules() noexcept {
  table.count = 0;
  table.changes = 0;
  static_cast<void>(serials.map(kSerialSlots));  // if this fails, no stack names a file
}

}  // namespace gpumemtrace::preload
