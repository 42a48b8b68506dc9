# Every library that is not ours: what it is for, and what to install where it is missing.
# tools/quickstart and tools/test install all of them on Debian and Ubuntu.

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
