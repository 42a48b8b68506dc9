// Whose code a module is: the table behind `owner` in the report.
#pragma once

#include <string_view>

namespace gpumemtrace::analyzer {

// The owner of code in the file `path`, by the file's name. Empty for code that only passes calls
// on (a shared CUDA runtime): who called it, the immediate caller does not tell.
// `executable` is the path of the process's own program.
[[nodiscard]] std::string_view owner_of_module(std::string_view path, std::string_view executable);

// True for a shared CUDA runtime, whose callers are the ones that matter.
[[nodiscard]] bool is_cuda_runtime(std::string_view path);

// A pool that takes memory in large pieces and deals it out where this trace cannot see.
struct OpaquePool {
  std::string_view owner;
  std::string_view name;
  std::string_view setting;  // what opens it to the next trace
};

// nullptr where the owner has no such pool.
[[nodiscard]] const OpaquePool* find_opaque_pool(std::string_view owner);

// The file's name without its folders.
[[nodiscard]] std::string_view base_name(std::string_view path);

}  // namespace gpumemtrace::analyzer
