// SPDX-License-Identifier: Apache-2.0
#include "analyzer/owners/code_owners.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>

#include "analyzer/base/input_error.hpp"
#include "analyzer/base/json.hpp"
#include "analyzer/owners/owners.hpp"

namespace gpumemtrace::analyzer {

void CodeOwners::read(const std::filesystem::path& path) {
  std::ifstream file(path);
  if (!file) throw InputError("Cannot open " + path.string() + ": " + std::strerror(errno) + ".");
  const auto refuse = [&](const std::string& what) {
    throw InputError("The rules in " + path.string() + " cannot be used: " + what +
                     "; docs/concepts.md describes them.");
  };
  try {
    const Json json = Json::parse(file);
    for (const Json& row : json.at("rules")) {
      Rule rule;
      int subjects = 0;
      for (const auto& [key, value] : row.items()) {
        if (key == "file" || key == "folder" || key == "function") {
          rule.subject = key == "file"     ? Subject::kFile
                         : key == "folder" ? Subject::kFolder
                                           : Subject::kFunction;
          rule.text = value.get<std::string>();
          ++subjects;
        } else if (key == "owner") {
          rule.owner = value.get<std::string>();
        } else if (key == "user") {
          rule.is_users = value.get<bool>() ? IsUsers::kYes : IsUsers::kNo;
        } else {
          refuse("there is no key \"" + key + "\"");
        }
      }
      if (subjects != 1 || rule.text.empty()) {
        refuse("each rule needs one of \"file\", \"folder\" and \"function\"");
      }
      if (!rule.says_owner() && !rule.says_user()) {
        refuse("each rule needs an \"owner\", or \"user\", or both");
      }
      rules_.push_back(std::move(rule));
    }
  } catch (const JsonError& error) {
    refuse(error.what());
  }
}

bool CodeOwners::fits(const Rule& rule, std::string_view path, std::string_view function) {
  switch (rule.subject) {
    case Subject::kFile:
      return base_name(path).starts_with(rule.text);
    case Subject::kFolder:
      return path.find(rule.text) != std::string_view::npos;
    case Subject::kFunction:
      break;
  }
  return bare_function_name(function).starts_with(rule.text);
}

const CodeOwners::Rule* CodeOwners::first_that_says(Says says, std::string_view path,
                                                    std::string_view function) const {
  const auto found = std::ranges::find_if(
      rules_, [&](const Rule& rule) { return (rule.*says)() && fits(rule, path, function); });
  return found == rules_.end() ? nullptr : &*found;
}

std::string_view CodeOwners::owner_of_code(std::string_view module, std::string_view function,
                                           std::string_view executable) const {
  const Rule* rule = first_that_says(&Rule::says_owner, module, function);
  if (rule != nullptr) return rule->owner;
  if (passes_calls_on(module) || is_interpreter(module)) return {};
  const std::string_view owner = owner_of_function(function);
  if (!owner.empty()) return owner;
  if (function_passes_calls_on(function)) return {};
  return owner_of_module(module, executable);
}

std::string_view CodeOwners::owner_of_caller(std::string_view module,
                                             std::string_view executable) const {
  const Rule* rule = first_that_says(&Rule::says_owner, module, {});
  return rule != nullptr ? rule->owner : owner_of_module(module, executable);
}

std::string_view CodeOwners::owner_of_python(std::string_view file) const {
  const Rule* rule = first_that_says(&Rule::says_owner, file, {});
  if (rule != nullptr) return rule->owner;
  const std::string_view owner = owner_of_folder(file);
  if (!owner.empty()) return owner;
  return is_users_python_file(file) ? "program" : std::string_view();
}

bool CodeOwners::is_users_code(std::string_view module, std::string_view function,
                               std::string_view executable) const {
  const Rule* rule = first_that_says(&Rule::says_user, module, function);
  if (rule != nullptr) return rule->is_users == IsUsers::kYes;
  return is_users_module(module, executable) && is_users_function(function);
}

bool CodeOwners::is_users_python(std::string_view file, std::string_view function) const {
  const Rule* rule = first_that_says(&Rule::says_user, file, function);
  return rule != nullptr ? rule->is_users == IsUsers::kYes : is_users_python_file(file);
}

}  // namespace gpumemtrace::analyzer
