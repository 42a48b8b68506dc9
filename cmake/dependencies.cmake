# SPDX-License-Identifier: Apache-2.0
# Every library that is not ours: what it is for, and what to install if it is missing.
# tools/quickstart and tools/test install all of them on Debian and Ubuntu.
include(CheckCXXSourceCompiles)

function(gpumemtrace_missing what package)
  message(FATAL_ERROR "${what} was not found. Install it, for example: apt-get install ${package}")
endfunction()

# zstd: compresses the blocks of a trace. Static, because the recorder may depend on glibc only.
find_path(ZSTD_INCLUDE_DIR zstd.h)
find_library(ZSTD_STATIC_LIBRARY NAMES libzstd.a)
if(NOT ZSTD_INCLUDE_DIR OR NOT ZSTD_STATIC_LIBRARY)
  gpumemtrace_missing("zstd (zstd.h and libzstd.a)" libzstd-dev)
endif()
add_library(gpumemtrace_zstd STATIC IMPORTED)
set_target_properties(gpumemtrace_zstd PROPERTIES
  IMPORTED_LOCATION ${ZSTD_STATIC_LIBRARY}
  INTERFACE_INCLUDE_DIRECTORIES ${ZSTD_INCLUDE_DIR})

# elfutils: names of functions, files and lines; zlib, bzip2 and xz unpack what it reads. Static, because
# the command line runs on machines that have only glibc. Newer versions use zstd as well.
find_path(LIBDW_INCLUDE_DIR elfutils/libdw.h)
find_path(LIBLZMA_INCLUDE_DIR lzma.h)
find_library(LIBDW_STATIC_LIBRARY NAMES libdw.a)
find_library(LIBELF_STATIC_LIBRARY NAMES libelf.a)
find_library(ZLIB_STATIC_LIBRARY NAMES libz.a)
find_library(LIBBZ2_STATIC_LIBRARY NAMES libbz2.a)
find_library(LIBLZMA_STATIC_LIBRARY NAMES liblzma.a)
if(NOT LIBDW_INCLUDE_DIR OR NOT LIBDW_STATIC_LIBRARY)
  gpumemtrace_missing("elfutils (elfutils/libdw.h and libdw.a)" libdw-dev)
endif()
if(NOT LIBELF_STATIC_LIBRARY)
  gpumemtrace_missing("elfutils (libelf.a)" libelf-dev)
endif()
if(NOT ZLIB_STATIC_LIBRARY)
  gpumemtrace_missing("zlib (libz.a)" zlib1g-dev)
endif()
if(NOT LIBBZ2_STATIC_LIBRARY)
  gpumemtrace_missing("bzip2 (libbz2.a)" libbz2-dev)
endif()
if(NOT LIBLZMA_INCLUDE_DIR OR NOT LIBLZMA_STATIC_LIBRARY)
  gpumemtrace_missing("xz (lzma.h and liblzma.a)" liblzma-dev)
endif()
# zlib on its own: packs the data of the report's page.
find_path(ZLIB_INCLUDE_DIR zlib.h)
if(NOT ZLIB_INCLUDE_DIR)
  gpumemtrace_missing("zlib (zlib.h)" zlib1g-dev)
endif()
add_library(gpumemtrace_zlib STATIC IMPORTED)
set_target_properties(gpumemtrace_zlib PROPERTIES
  IMPORTED_LOCATION ${ZLIB_STATIC_LIBRARY}
  INTERFACE_INCLUDE_DIRECTORIES ${ZLIB_INCLUDE_DIR})
set(elfutils_libraries ${LIBDW_STATIC_LIBRARY} ${LIBELF_STATIC_LIBRARY} ${LIBLZMA_STATIC_LIBRARY}
  ${LIBBZ2_STATIC_LIBRARY} ${ZLIB_STATIC_LIBRARY})
# The static libraries of elfutils 0.192 (Debian 13) lack a part of themselves:
# https://sourceware.org/bugzilla/show_bug.cgi?id=32293.
set(CMAKE_REQUIRED_INCLUDES ${LIBDW_INCLUDE_DIR})
set(CMAKE_REQUIRED_LIBRARIES ${elfutils_libraries} ${ZSTD_STATIC_LIBRARY} ${CMAKE_DL_LIBS})
check_cxx_source_compiles(
  "#include <elfutils/libdw.h>
   int main() { return dwarf_end(dwarf_begin_elf(nullptr, DWARF_C_READ, nullptr)); }"
  GPUMEMTRACE_ELFUTILS_IS_STATIC)
unset(CMAKE_REQUIRED_INCLUDES)
unset(CMAKE_REQUIRED_LIBRARIES)
if(NOT GPUMEMTRACE_ELFUTILS_IS_STATIC)
  message(STATUS "The static elfutils cannot be linked: gpumemtrace will need libdw.so where it runs.")
  set(elfutils_libraries dw elf ${LIBLZMA_STATIC_LIBRARY})
endif()
add_library(gpumemtrace_elfutils INTERFACE)
target_include_directories(gpumemtrace_elfutils SYSTEM INTERFACE
  ${LIBDW_INCLUDE_DIR} ${LIBLZMA_INCLUDE_DIR})
target_link_libraries(gpumemtrace_elfutils INTERFACE ${elfutils_libraries} gpumemtrace_zstd)

# protozero: protocol buffers, header-only. SQLite: databases, static.
find_path(PROTOZERO_INCLUDE_DIR protozero/pbf_writer.hpp)
if(NOT PROTOZERO_INCLUDE_DIR)
  gpumemtrace_missing("protozero" libprotozero-dev)
endif()
add_library(gpumemtrace_protozero INTERFACE)
target_include_directories(gpumemtrace_protozero SYSTEM INTERFACE ${PROTOZERO_INCLUDE_DIR})
find_path(SQLITE_INCLUDE_DIR sqlite3.h)
find_library(SQLITE_STATIC_LIBRARY NAMES libsqlite3.a)
if(NOT SQLITE_INCLUDE_DIR OR NOT SQLITE_STATIC_LIBRARY)
  gpumemtrace_missing("SQLite (sqlite3.h and libsqlite3.a)" libsqlite3-dev)
endif()
add_library(gpumemtrace_sqlite STATIC IMPORTED)
set_target_properties(gpumemtrace_sqlite PROPERTIES
  IMPORTED_LOCATION ${SQLITE_STATIC_LIBRARY}
  INTERFACE_INCLUDE_DIRECTORIES ${SQLITE_INCLUDE_DIR}
  INTERFACE_LINK_LIBRARIES "${CMAKE_DL_LIBS};m")

# ncurses: the screen of `live`. Static; where a terminal is described is looked up when it runs.
find_path(NCURSES_INCLUDE_DIR ncurses.h)
find_library(NCURSES_STATIC_LIBRARY NAMES libncursesw.a)
find_library(TINFO_STATIC_LIBRARY NAMES libtinfo.a)
if(NOT NCURSES_INCLUDE_DIR OR NOT NCURSES_STATIC_LIBRARY OR NOT TINFO_STATIC_LIBRARY)
  gpumemtrace_missing("ncurses (ncurses.h, libncursesw.a and libtinfo.a)" libncurses-dev)
endif()
add_library(gpumemtrace_ncurses STATIC IMPORTED)
set_target_properties(gpumemtrace_ncurses PROPERTIES
  IMPORTED_LOCATION ${NCURSES_STATIC_LIBRARY}
  INTERFACE_INCLUDE_DIRECTORIES ${NCURSES_INCLUDE_DIR}
  INTERFACE_LINK_LIBRARIES ${TINFO_STATIC_LIBRARY})

# nlohmann/json: the report. CLI11: the command line. fmt and spdlog, header-only: text for people.
find_package(nlohmann_json 3.10 QUIET)
if(NOT nlohmann_json_FOUND)
  gpumemtrace_missing("nlohmann/json" nlohmann-json3-dev)
endif()
find_package(CLI11 QUIET)
if(NOT CLI11_FOUND)
  gpumemtrace_missing("CLI11" libcli11-dev)
endif()
find_package(fmt QUIET)
find_package(spdlog QUIET)
if(NOT fmt_FOUND OR NOT spdlog_FOUND)
  gpumemtrace_missing("spdlog with fmt" libspdlog-dev)
endif()

if(GPUMEMTRACE_TESTS)
  # Catch2, version 2 or 3.
  find_package(Catch2 QUIET)
  if(NOT Catch2_FOUND)
    gpumemtrace_missing("Catch2" catch2)
  endif()
endif()

if(GPUMEMTRACE_BENCH)
  find_package(benchmark QUIET)
  if(NOT benchmark_FOUND)
    gpumemtrace_missing("Google Benchmark" libbenchmark-dev)
  endif()
endif()

find_package(Threads REQUIRED)

# The CUDA toolkit is optional: with it, our own prototypes are checked against the real header.
find_path(GPUMEMTRACE_CUDA_INCLUDE_DIR cuda.h
  HINTS $ENV{CUDA_HOME}/include /usr/local/cuda/include NO_DEFAULT_PATH)
