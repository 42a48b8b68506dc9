// SPDX-License-Identifier: Apache-2.0
// The owner of a file's or a function's code, which `owner` and `site` of the report name: the
// tables, and the user's own rules.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace gpumemtrace::analyzer {

// The owner of code in the file `path`, by the file's name. Empty for code that only passes calls
// on (a shared CUDA runtime): the immediate caller does not show the real one. `executable` is the
// path of the process's own program.
[[nodiscard]] std::string_view owner_of_module(std::string_view path, std::string_view executable);

// The owner by a file's folder, for modules and Python files; empty if the folder shows none.
[[nodiscard]] std::string_view owner_of_folder(std::string_view path);

// The owner of a function wherever it is linked into (NCCL in libtorch_cuda, say), by its
// unqualified or outermost name; empty if the file decides.
[[nodiscard]] std::string_view owner_of_function(std::string_view function);

// True for the owners that this page's functions give, for `program`, `python_extension`, `other`.
[[nodiscard]] bool is_builtin_owner(std::string_view owner);

// True for code that its user can change, and for an owner that is not known (empty). A library
// keeps its buffers as long as the process lives.
[[nodiscard]] bool is_users_own(std::string_view owner);

// True for a shared CUDA runtime: its callers are the owners.
[[nodiscard]] bool is_cuda_runtime(std::string_view path);

// True for code that asks for memory on behalf of its caller: CUDA's driver and runtime, the C and
// C++ libraries, the loader.
[[nodiscard]] bool passes_calls_on(std::string_view path);
// The same for functions of a CUDA runtime that is linked in.
[[nodiscard]] bool function_passes_calls_on(std::string_view function);

// True for an interpreter of Python and the code through which it calls foreign functions: Python
// frames show more than its own.
[[nodiscard]] bool is_interpreter(std::string_view path);

// True for native code that the user may have written: of no table, not of the system.
[[nodiscard]] bool is_users_module(std::string_view path, std::string_view executable);
// False for functions of libraries that are compiled into the user's code, such as std::vector's.
[[nodiscard]] bool is_users_function(std::string_view function);
// False for source files of the system and of CUDA, whose templates are compiled into others' code.
[[nodiscard]] bool is_users_source_file(std::string_view file);
// True for a file of the user: not the standard library, not an installed package, not code that a
// framework generated.
[[nodiscard]] bool is_users_python_file(std::string_view file);

// The name without arguments and return type: `nccl::alloc<int>` of `void nccl::alloc<int>(int*)`.
[[nodiscard]] std::string_view bare_function_name(std::string_view function);
// The same for people: without the words of unnamed namespaces, too.
[[nodiscard]] std::string short_function_name(std::string_view function);

// The file's name without its folders.
[[nodiscard]] std::string_view base_name(std::string_view path);

// The tables, extended by the user's own rules.
//
// - The user's rules come first, in their order; the first that fits decides.
// - docs/concepts.md describes the file of rules.
class CodeOwners {
 public:
  // Adds the rules of a file. Throws InputError if it is missing or malformed.
  void read(const std::filesystem::path& path);

  // The owner of native code; empty for code that passes calls on and for code in no known file.
  [[nodiscard]] std::string_view owner_of_code(std::string_view module, std::string_view function,
                                               std::string_view executable) const;
  // The owner of the immediate caller's code, if no stack was recorded; empty for a CUDA runtime.
  [[nodiscard]] std::string_view owner_of_caller(std::string_view module,
                                                 std::string_view executable) const;
  // The owner of Python code; empty for the standard library.
  [[nodiscard]] std::string_view owner_of_python(std::string_view file) const;
  [[nodiscard]] bool is_users_code(std::string_view module, std::string_view function,
                                   std::string_view executable) const;
  [[nodiscard]] bool is_users_python(std::string_view file, std::string_view function) const;

 private:
  enum class Subject { kFile, kFolder, kFunction };
  enum class IsUsers { kNotSaid, kYes, kNo };
  struct Rule {
    Subject subject = Subject::kFile;
    std::string text;
    std::string owner;  // empty = not said
    IsUsers is_users = IsUsers::kNotSaid;

    [[nodiscard]] bool says_owner() const { return !owner.empty(); }
    [[nodiscard]] bool says_user() const { return is_users != IsUsers::kNotSaid; }
  };
  using Says = bool (Rule::*)() const;

  [[nodiscard]] static bool fits(const Rule& rule, std::string_view path,
                                 std::string_view function);
  // The first rule that fits and names the owner, or tells whether it is the user's.
  [[nodiscard]] const Rule* first_that_says(Says says, std::string_view path,
                                            std::string_view function) const;

  std::vector<Rule> rules_;
};

}  // namespace gpumemtrace::analyzer
