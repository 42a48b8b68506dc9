// SPDX-License-Identifier: Apache-2.0
// The tables of owners.hpp, extended by the user's own rules.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace gpumemtrace::analyzer {

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
