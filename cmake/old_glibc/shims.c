// SPDX-License-Identifier: Apache-2.0
// Functions of newer glibc that static libraries such as the compiler's call and glibc 2.28 lacks.
// Linked into the program if GPUMEMTRACE_OLD_GLIBC is on; x86-64 only.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <link.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/random.h>
#include <sys/stat.h>

// Before glibc 2.33, stat() and the like were functions of a header, which called these functions
// with the version of `struct stat`.
enum { kStatVersion = 1 };
int __xstat(int version, const char* path, struct stat* result);
int __fxstat(int version, int descriptor, struct stat* result);
int __lxstat(int version, const char* path, struct stat* result);
int __fxstatat(int version, int folder, const char* path, struct stat* result, int flags);

#define OURS __attribute__((visibility("hidden")))

OURS int stat(const char* path, struct stat* result) { return __xstat(kStatVersion, path, result); }
OURS int fstat(int descriptor, struct stat* result) {
  return __fxstat(kStatVersion, descriptor, result);
}
OURS int lstat(const char* path, struct stat* result) {
  return __lxstat(kStatVersion, path, result);
}
OURS int fstatat(int folder, const char* path, struct stat* result, int flags) {
  return __fxstatat(kStatVersion, folder, path, result, flags);
}
// On x86-64 `struct stat` and `struct stat64` are the same.
OURS int stat64(const char* path, struct stat64* result) {
  return __xstat(kStatVersion, path, (struct stat*)result);
}
OURS int fstat64(int descriptor, struct stat64* result) {
  return __fxstat(kStatVersion, descriptor, (struct stat*)result);
}
OURS int lstat64(const char* path, struct stat64* result) {
  return __lxstat(kStatVersion, path, (struct stat*)result);
}
OURS int fstatat64(int folder, const char* path, struct stat64* result, int flags) {
  return __fxstatat(kStatVersion, folder, path, (struct stat*)result, flags);
}

// With the value 0, libstdc++ always takes its locks.
OURS char __libc_single_threaded = 0;

OURS uint32_t arc4random(void) {
  uint32_t value = 0;
  while (getrandom(&value, sizeof(value), 0) != (ssize_t)sizeof(value)) {
  }
  return value;
}

// The unwinder's search for the tables of the code at an address.
struct search {
  uintptr_t address;
  struct dl_find_object* result;
};

static int look_in(struct dl_phdr_info* info, size_t size, void* data) {
  (void)size;
  struct search* const search = data;
  uintptr_t begin = UINTPTR_MAX;
  uintptr_t end = 0;
  void* tables = NULL;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)* const header = &info->dlpi_phdr[i];
    const uintptr_t at = info->dlpi_addr + header->p_vaddr;
    if (header->p_type == PT_GNU_EH_FRAME) tables = (void*)at;
    if (header->p_type != PT_LOAD) continue;
    if (at < begin) begin = at;
    if (at + header->p_memsz > end) end = at + header->p_memsz;
  }
  if (search->address < begin || search->address >= end) return 0;
  search->result->dlfo_map_start = (void*)begin;
  search->result->dlfo_map_end = (void*)end;
  search->result->dlfo_eh_frame = tables;
  return tables != NULL ? 1 : -1;
}

OURS int _dl_find_object(void* address, struct dl_find_object* result) {
  struct search search = {(uintptr_t)address, result};
  *result = (struct dl_find_object){0};
  return dl_iterate_phdr(look_in, &search) == 1 ? 0 : -1;
}
