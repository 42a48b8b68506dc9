// SPDX-License-Identifier: Apache-2.0
#include "analyzer/owners/owners.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <span>

#include "analyzer/base/input_error.hpp"
#include "analyzer/base/row_reader.hpp"
#include "analyzer/frameworks/frameworks.hpp"

namespace gpumemtrace::analyzer {
namespace {

struct OwnerRule {
  std::string_view prefix;  // beginning of a file's or function's name, or part of a path
  std::string_view owner;
};

// Rules for libraries; the first that fits decides. analyzer/frameworks/ has those of frameworks.
constexpr std::array kOwnerRules = {
    OwnerRule{"libnccl", "nccl"},
    OwnerRule{"libnvshmem", "nvshmem"},
    OwnerRule{"libcublas", "cublas"},
    OwnerRule{"libnvblas", "cublas"},
    OwnerRule{"libcudnn", "cudnn"},
    OwnerRule{"libcufft", "cufft"},
    OwnerRule{"libcurand", "curand"},
    OwnerRule{"libcusolver", "cusolver"},
    OwnerRule{"libcusparse", "cusparse"},
    OwnerRule{"libcutensor", "cutensor"},
    OwnerRule{"libnvinfer", "tensorrt"},
    OwnerRule{"libnvonnxparser", "tensorrt"},
    OwnerRule{"libnpp", "npp"},
    OwnerRule{"libnvjpeg", "nvjpeg"},
    OwnerRule{"libcupti", "cupti"},
    OwnerRule{"libcufile", "cufile"},
    OwnerRule{"libcuda.so", "cuda_driver"},
    OwnerRule{"libtriton", "triton"},
    OwnerRule{"libcudf", "cudf"},
    OwnerRule{"libucm", "ucx"},
    OwnerRule{"libuct", "ucx"},
    OwnerRule{"libucp", "ucx"},
    OwnerRule{"libmpi", "mpi"},
    OwnerRule{"libopen-pal", "mpi"},
};

// Rules for extension modules, whose names are short and general: the package's folder decides.
constexpr std::array kFolderRules = {
    OwnerRule{"/triton/", "triton"},    OwnerRule{"/.triton/", "triton"},
    OwnerRule{"/numba_cuda/", "numba"}, OwnerRule{"/numba/", "numba"},
    OwnerRule{"/pycuda/", "pycuda"},    OwnerRule{"/mxnet/", "mxnet"},
    OwnerRule{"/paddle/", "paddle"},
};

// Rules for libraries that may be linked statically into others, by the beginning of a function's
// name.
constexpr std::array kFunctionRules = {
    OwnerRule{"nccl", "nccl"},         OwnerRule{"pncclComm", "nccl"},
    OwnerRule{"cudnn", "cudnn"},       OwnerRule{"cublas", "cublas"},
    OwnerRule{"cufft", "cufft"},       OwnerRule{"cusolver", "cusolver"},
    OwnerRule{"cusparse", "cusparse"}, OwnerRule{"curand", "curand"},
    OwnerRule{"nvshmem", "nvshmem"},   OwnerRule{"cutensor", "cutensor"},
};

// Libraries that only pass calls on, by the beginning of the file's name.
constexpr auto kPassingModules = std::to_array<std::string_view>(
    {"libcuda.so", "libcudart.so", "libcuda_",       "libc.so",   "libc-2.", "libm.so",
     "libpthread", "libdl.so",     "librt.so",       "ld-linux",  "ld-2.",   "libstdc++",
     "libc++",     "libgcc_s",     "libgomp",        "libomp",    "libiomp", "libasan",
     "libtsan",    "libubsan",     "libgpumemtrace", "linux-vdso"});
constexpr auto kPassingFunctions = std::to_array<std::string_view>(
    {"cuda", "__cuda", "libcudart_static_", "cuMem", "cuMipmapped", "cuArray", "cuGraph"});
constexpr auto kInterpreterModules =
    std::to_array<std::string_view>({"libpython", "python", "libffi", "_ctypes.", "_ctypes_"});

// Functions of libraries that C++ compiles into the user's code, by the beginning of their names.
constexpr auto kLibraryFunctions = std::to_array<std::string_view>(
    {"std::", "__gnu_cxx::", "__cxxabi", "thrust::", "cub::", "cuda::", "cooperative_groups::",
     "cutlass::", "raft::", "pybind11::", "boost::", "fmt::", "_start", "__libc_start",
     "operator new", "operator delete"});

// The folders in which distributions put libraries. Libraries in /usr/local are the user's.
constexpr auto kSystemFolders = std::to_array<std::string_view>(
    {"/lib/", "/lib64/", "/usr/lib/", "/usr/lib64/", "/usr/lib32/", "/usr/local/cuda"});

bool has_part(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

bool starts_with_any(std::string_view text, const auto& prefixes) {
  return std::ranges::any_of(prefixes, [&](auto prefix) { return text.starts_with(prefix); });
}

bool contains_any(std::string_view text, const auto& parts) {
  return std::ranges::any_of(parts, [&](auto part) { return has_part(text, part); });
}

// The owner in the first rule with whose prefix `name` begins; empty if no rule fits.
std::string_view owner_by_begin(std::string_view name, std::span<const OwnerRule> rules) {
  const auto rule = std::ranges::find_if(
      rules, [&](std::string_view prefix) { return name.starts_with(prefix); }, &OwnerRule::prefix);
  return rule == rules.end() ? std::string_view() : rule->owner;
}

// The owner in the first framework's row for which is_its_own(row) is true; empty if none.
std::string_view owner_among_frameworks(auto is_its_own) {
  const auto found = std::ranges::find_if(frameworks(), is_its_own);
  return found == frameworks().end() ? std::string_view() : found->owner;
}

// The owner that the tables give for the file's name, or for its folder.
std::string_view owner_by_table(std::string_view path) {
  const std::string_view name = base_name(path);
  const std::string_view library = owner_by_begin(name, kOwnerRules);
  if (!library.empty()) return library;
  const std::string_view framework = owner_among_frameworks(
      [&](const FrameworkInfo& row) { return starts_with_any(name, row.code.libraries); });
  return framework.empty() ? owner_of_folder(path) : framework;
}

bool is_installed_package(std::string_view path) {
  return has_part(path, "/site-packages/") || has_part(path, "/dist-packages/");
}

// The content of a file of rules: for each rule its keys and values.
struct RulesFile {
  std::vector<std::vector<std::pair<std::string, JsonScalar>>> rules;

  static void fields(auto& self, auto& v) { v("rules", self.rules); }
};

}  // namespace

std::string_view base_name(std::string_view path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? path : path.substr(slash + 1);
}

bool is_builtin_owner(std::string_view owner) {
  const auto is_of = [&](std::span<const OwnerRule> rules) {
    return std::ranges::find(rules, owner, &OwnerRule::owner) != rules.end();
  };
  return is_of(kOwnerRules) || is_of(kFolderRules) || is_of(kFunctionRules) ||
         !framework_named(owner).owner.empty() || owner == "program" ||
         owner == "python_extension" || owner == "other";
}

bool is_users_own(std::string_view owner) {
  return owner.empty() || owner == "program" || owner == "python_extension";
}

bool is_cuda_runtime(std::string_view path) { return base_name(path).starts_with("libcudart.so"); }

std::string_view owner_of_module(std::string_view path, std::string_view executable) {
  if (path.empty() || is_cuda_runtime(path)) return {};
  const std::string_view owner = owner_by_table(path);
  if (!owner.empty()) return owner;
  if (path == executable) return "program";
  const std::string_view name = base_name(path);
  if (has_part(name, ".cpython-") || has_part(name, ".abi3.so") || is_installed_package(path)) {
    return "python_extension";
  }
  // A library for which there is no rule is most likely the user's own.
  return "program";
}

std::string_view owner_of_folder(std::string_view path) {
  for (const OwnerRule& rule : kFolderRules) {
    if (has_part(path, rule.prefix)) return rule.owner;
  }
  return owner_among_frameworks(
      [&](const FrameworkInfo& row) { return contains_any(path, row.code.folders); });
}

std::string_view owner_of_function(std::string_view function) {
  const std::string_view name = bare_function_name(function);
  const std::string_view library = owner_by_begin(name, kFunctionRules);
  if (!library.empty()) return library;
  return owner_among_frameworks([&](const FrameworkInfo& row) {
    return row.code.is_linked && starts_with_any(name, row.code.namespaces);
  });
}

bool passes_calls_on(std::string_view path) {
  return starts_with_any(base_name(path), kPassingModules);
}

bool function_passes_calls_on(std::string_view function) {
  return starts_with_any(bare_function_name(function), kPassingFunctions);
}

bool is_interpreter(std::string_view path) {
  return starts_with_any(base_name(path), kInterpreterModules);
}

bool is_users_module(std::string_view path, std::string_view executable) {
  if (path.empty() || passes_calls_on(path) || is_interpreter(path)) return false;
  if (path == executable) return true;
  return owner_by_table(path).empty() && !is_installed_package(path) &&
         !starts_with_any(path, kSystemFolders);
}

bool is_users_function(std::string_view function) {
  const std::string_view name = bare_function_name(function);
  const std::string_view framework = owner_among_frameworks(
      [&](const FrameworkInfo& row) { return starts_with_any(name, row.code.namespaces); });
  return !starts_with_any(name, kLibraryFunctions) && framework.empty() &&
         owner_of_function(name).empty() && !function_passes_calls_on(name);
}

bool is_users_source_file(std::string_view file) {
  static constexpr auto kForeignParts = std::to_array<std::string_view>(
      {"/include/c++/", "/cuda/include/", "/targets/x86_64-linux/include/", "/site-packages/",
       "/dist-packages/"});
  return !file.starts_with("/usr/include/") && !contains_any(file, kForeignParts);
}

namespace {

// True for a file that PyTorch's Inductor wrote, wherever its cache folder is. Such a file is
// called `c` and a hash of 51 letters and digits of base 32, and its folder has the first two
// letters of the hash as name.
bool is_inductor_file(std::string_view file) {
  constexpr std::size_t kFolderLetters = 2;
  constexpr std::size_t kHashLetters = 51;
  const std::string_view name = base_name(file);
  if (name.size() != 1 + kHashLetters + 3 || name.front() != 'c' ||
      name.substr(1 + kHashLetters) != ".py") {
    return false;
  }
  const std::string_view hash = name.substr(1, kHashLetters);
  std::string_view folder = file.substr(0, file.size() - name.size());
  if (!folder.empty()) folder.remove_suffix(1);
  return base_name(folder) == hash.substr(0, kFolderLetters) &&
         hash.find_first_not_of("abcdefghijklmnopqrstuvwxyz234567") == std::string_view::npos;
}

}  // namespace

bool is_users_python_file(std::string_view file) {
  // Parts of paths of installed packages, of the standard library (its zip and frozen modules too),
  // and of generated code.
  static constexpr auto kForeignParts = std::to_array<std::string_view>(
      {"/site-packages/", "/dist-packages/", "/lib/python3.", "/lib64/python3.", "torchinductor_",
       "/torch_compile_debug/"});
  static constexpr auto kForeignBegins = std::to_array<std::string_view>(
      {"<frozen ", "<eval_with_key>", "fx_generated_", "<__array_function__", "<attrs ",
       "<lambdifygenerated", "<user_metadata>", "<compile_context>"});
  return !file.empty() && !contains_any(file, kForeignParts) &&
         !starts_with_any(file, kForeignBegins) && !is_inductor_file(file);
}

namespace {

// True if the keyword `operator` is at the position, and not a part of another word.
bool is_operator_at(std::string_view function, std::size_t at) {
  static constexpr std::string_view kKeyword = "operator";
  const auto is_of_word = [&](std::size_t i) {
    const auto letter = static_cast<unsigned char>(function[i]);
    return std::isalnum(letter) != 0 || letter == '_' || letter == '$';
  };
  if (!function.substr(at).starts_with(kKeyword)) return false;
  const std::size_t end = at + kKeyword.size();
  return (at == 0 || !is_of_word(at - 1)) && (end == function.size() || !is_of_word(end));
}

}  // namespace

// Skips template arguments. A space outside of them ends the return type, a bracket begins the
// arguments.
std::string_view bare_function_name(std::string_view function) {
  int depth = 0;
  std::size_t begin = 0;
  for (std::size_t i = 0; i < function.size(); ++i) {
    if (is_operator_at(function, i)) break;  // the brackets of operator() are part of the name
    if (function.substr(i).starts_with("(anonymous namespace)")) {
      i += std::string_view("(anonymous namespace)").size() - 1;
      continue;
    }
    const char c = function[i];
    if (c == '<') ++depth;
    if (c == '>') --depth;
    if (depth != 0) continue;
    if (c == '(') return function.substr(begin, i - begin);
    if (c == ' ') begin = i + 1;
  }
  return function.substr(begin);
}

std::string short_function_name(std::string_view function) {
  // the code of a Python file outside its functions
  if (function == "<module>") return "top level";
  static constexpr std::string_view kUnnamed = "(anonymous namespace)::";
  std::string name(bare_function_name(function));
  for (std::size_t at = name.find(kUnnamed); at != std::string::npos;
       at = name.find(kUnnamed, at)) {
    name.erase(at, kUnnamed.size());
  }
  // Shortens the names of Python's nested functions; a comprehension counts as part of the function
  // around it.
  static constexpr std::string_view kLocals = ".<locals>";
  for (std::size_t at = name.find(kLocals); at != std::string::npos; at = name.find(kLocals)) {
    const std::string_view inner = std::string_view(name).substr(at + kLocals.size());
    const bool is_comprehension = inner.ends_with("comp>") || inner == ".<genexpr>";
    name.erase(at, is_comprehension ? std::string::npos : kLocals.size());
  }
  return name;
}

void CodeOwners::read(const std::filesystem::path& path) {
  std::ifstream file(path);
  if (!file) throw InputError("Cannot open " + path.string() + ": " + std::strerror(errno) + ".");
  const auto refuse = [&](const std::string& what) {
    throw InputError("The rules in " + path.string() + " cannot be used: " + what +
                     "; docs/concepts.md describes them.");
  };
  const auto text_in = [&](const JsonScalar& value) {
    if (!std::holds_alternative<std::string>(value)) refuse("a text is missing");
    return std::get<std::string>(value);
  };
  RulesFile whole;
  try {
    const std::string text(std::istreambuf_iterator<char>(file), {});
    whole = row_of_text<RulesFile>(text, "rules");
  } catch (const InputError& error) {
    refuse(error.what());
  }
  for (const auto& row : whole.rules) {
    Rule rule;
    int subjects = 0;
    for (const auto& [key, value] : row) {
      if (key == "file" || key == "folder" || key == "function") {
        rule.subject = key == "file"     ? Subject::kFile
                       : key == "folder" ? Subject::kFolder
                                         : Subject::kFunction;
        rule.text = text_in(value);
        ++subjects;
      } else if (key == "owner") {
        rule.owner = text_in(value);
      } else if (key == "user") {
        if (!std::holds_alternative<bool>(value)) refuse("true or false is missing");
        rule.is_users = std::get<bool>(value) ? IsUsers::kYes : IsUsers::kNo;
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
