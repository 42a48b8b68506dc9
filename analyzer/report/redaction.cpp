// SPDX-License-Identifier: Apache-2.0
#include "analyzer/report/redaction.hpp"

#include <algorithm>
#include <sstream>

#include "analyzer/frameworks/frameworks.hpp"
#include "analyzer/owners/owners.hpp"
#include "analyzer/rows/walk.hpp"

namespace gpumemtrace::analyzer {
namespace {

// Libraries that anyone can have, by the whole name before ".so": a longer name may be a person's
// own. The table of frameworks has more public libraries.
constexpr auto kPublicLibraries = std::to_array<std::string_view>({
    "ld-linux-aarch64",
    "ld-linux-x86-64",
    "libc",
    "libdl",
    "libffi",
    "libgcc_s",
    "libgomp",
    "libgpumemtrace",
    "libm",
    "libpthread",
    "librt",
    "libstdc++",
    "linux-vdso",
    "libcublas",
    "libcublasLt",
    "libcuda",
    "libcudart",
    "libcudnn",
    "libcudnn_adv",
    "libcudnn_cnn",
    "libcudnn_engines_precompiled",
    "libcudnn_engines_runtime_compiled",
    "libcudnn_graph",
    "libcudnn_heuristic",
    "libcudnn_ops",
    "libcufft",
    "libcupti",
    "libcurand",
    "libcusolver",
    "libcusolverMg",
    "libcusparse",
    "libcusparseLt",
    "libcutensor",
    "libnccl",
    "libnvJitLink",
    "libnvrtc",
    "libnvshmem_host",
    "libtriton",
    "libcudf",
});

constexpr auto kPublicPackages = std::to_array<std::string_view>(
    {"accelerate", "cudf", "deepspeed", "flax", "keras", "lightning", "numba", "numba_cuda",
     "numpy", "nvidia", "optax", "paddle", "pycuda", "scipy", "triton", "transformers"});

constexpr auto kSourceEndings = std::to_array<std::string_view>(
    {".c", ".cc", ".cpp", ".cu", ".cuh", ".cxx", ".h", ".hpp", ".py", ".pyx"});

bool is_one_of(std::string_view text, const auto& list) {
  return std::ranges::find(list, text) != list.end();
}

bool is_of_framework(std::string_view text, Names FrameworkCode::*names) {
  return std::ranges::any_of(
      frameworks(), [&](const FrameworkInfo& row) { return is_one_of(text, row.code.*names); });
}

bool is_digits_and_dots(std::string_view text) {
  return text.find_first_not_of("0123456789.") == std::string_view::npos;
}

bool is_public_library(std::string_view file_name) {
  const std::string_view name = file_name.substr(0, file_name.find(".so"));
  if (is_one_of(name, kPublicLibraries)) return true;
  if (is_of_framework(name, &FrameworkCode::public_libraries)) return true;
  for (const std::string_view python : {"libpython", "python"}) {
    if (name.starts_with(python) && is_digits_and_dots(name.substr(python.size()))) return true;
  }
  return false;
}

// The public part of a Python file's path: "torch/nn/modules/linear.py" of a public installed
// package, "lib/python3.12/queue.py" of the standard library; empty for every other file.
std::string_view public_python_path(std::string_view file) {
  if (file.starts_with("<frozen ") || file.starts_with("<eval_with_key>")) return file;
  for (const std::string_view folder : {"/site-packages/", "/dist-packages/"}) {
    const std::size_t begin = file.rfind(folder);
    if (begin == std::string_view::npos) continue;
    const std::string_view path = file.substr(begin + folder.size());
    const std::string_view package = path.substr(0, path.find('/'));
    const bool is_public = is_one_of(package, kPublicPackages) ||
                           is_of_framework(package, &FrameworkCode::public_packages);
    return is_public ? path : std::string_view();
  }
  const std::size_t begin = file.rfind("/lib/python3.");
  return begin == std::string_view::npos ? std::string_view() : file.substr(begin + 1);
}

std::string_view source_ending(std::string_view file) {
  const std::size_t dot = file.rfind('.');
  const std::string_view ending =
      dot == std::string_view::npos ? std::string_view() : file.substr(dot);
  return is_one_of(ending, kSourceEndings) ? ending : std::string_view();
}

// Visits the fields of a row and replaces each secret text as its type tells.
class NameReplacer {
 public:
  explicit NameReplacer(Redaction& redaction) : redaction_(redaction) {}

  template <class T>
  void operator()(std::string_view, T&) {
    static_assert(!std::same_as<T, std::string>,
                  "a text of a row is public, or a name: analyzer/rows/names.hpp");
  }
  template <Secret kind>
  void operator()(std::string_view, rows::Name<kind>& name) {
    name = redaction_.replace(kind, name);
  }
  void operator()(std::string_view, rows::Name<Secret::kOwner>& owner) {
    owner = redaction_.replace_owner(owner);
  }
  void operator()(std::string_view, rows::Layers& layers) {
    layers = redaction_.replace_layers(layers);
  }
  void operator()(std::string_view, rows::Remark& sentence) {
    sentence = redaction_.replace_paths(sentence);
  }
  void operator()(std::string_view, rows::Site& site) { redaction_.redact(site); }
  void operator()(std::string_view, rows::Frame& frame) { redaction_.redact(frame); }
  void operator()(std::string_view, rows::Timeline& timeline) {
    if (timeline.parts_by != rows::PartsBy::kOwner) return;
    for (rows::TimelineBucket& bucket : timeline.buckets) {
      for (auto& [owner, bytes] : bucket.parts) {
        if (owner != "unknown") owner = redaction_.replace_owner(owner);
      }
    }
  }

 private:
  Redaction& redaction_;
};

}  // namespace

std::string Redaction::replace(Secret secret, const std::string& text) {
  if (text.empty()) return text;
  const auto kind = static_cast<std::size_t>(secret);
  const auto [known, is_new] = names_[kind].try_emplace(text);
  if (is_new) {
    known->second = std::string(name_of(secret)) + '-' + std::to_string(names_[kind].size());
    if (secret == Secret::kFile) known->second += source_ending(text);
    if (secret == Secret::kTrace) known->second += ".gmt";
  }
  return known->second;
}

// Replaces the function and the file of code that is not public. Public code keeps its function and
// the public part of its file's path.
template <class Row>
void Redaction::redact_code(Row& row) {
  const bool is_python = row.language == rows::Language::kPython;
  const std::string file = row.file.value_or("");
  const bool is_public =
      is_python ? !public_python_path(file).empty() : is_public_library(row.module.value_or(""));
  if (row.module) row.module = replace_module(*row.module);
  if (is_public) {
    if (row.file) row.file = is_python ? public_python_path(file) : base_name(file);
    return;
  }
  if (row.function) row.function = replace(Secret::kFunction, *row.function);
  if (row.file) row.file = replace(Secret::kFile, file);
}

// If the function of a site is its autograd node, both texts stay equal.
void Redaction::redact(rows::Site& site) {
  const bool is_node_alone = site.node && site.function == site.node;
  if (site.node) site.node = replace_node(*site.node);
  if (is_node_alone) site.function = site.node;
  if (!is_node_alone) redact_code(site);
}

void Redaction::redact(rows::Frame& frame) { redact_code(frame); }

std::string Redaction::replace_module(const std::string& file_name) {
  return is_public_library(file_name) ? file_name : replace(Secret::kLibrary, file_name);
}

std::string Redaction::replace_owner(const std::string& owner) {
  return is_builtin_owner(owner) ? owner : replace(Secret::kOwner, owner);
}

std::string Redaction::replace_layers(const std::string& layers) {
  constexpr std::string_view kInside = " > ";
  std::string redacted;
  for (std::size_t begin = 0; begin < layers.size();) {
    const std::size_t end = std::min(layers.find(kInside, begin), layers.size());
    if (!redacted.empty()) redacted += kInside;
    redacted += replace(Secret::kLayer, layers.substr(begin, end - begin));
    begin = end + kInside.size();
  }
  return redacted;
}

// The names of PyTorch's own nodes end in Backward and a number; other nodes are a user's.
std::string Redaction::replace_node(const std::string& node) {
  constexpr std::string_view kBackward = "Backward";
  const std::size_t found = node.rfind(kBackward);
  if (found != std::string::npos) {
    const std::string_view number = std::string_view(node).substr(found + kBackward.size());
    if (!number.empty() && is_digits_and_dots(number)) return node;
  }
  return replace(Secret::kFunction, node);
}

std::string Redaction::replace_paths(const std::string& sentence) {
  std::istringstream words(sentence);
  std::string redacted;
  for (std::string word; std::getline(words, word, ' ');) {
    if (!redacted.empty()) redacted += ' ';
    redacted += word.find('/') == std::string::npos ? word : replace(Secret::kFile, word);
  }
  return redacted;
}

void Redaction::redact(rows::Report& report, rows::Observations& seen) {
  rows::walk(report, NameReplacer(*this));
  rows::walk(seen, NameReplacer(*this));
}

void Redaction::redact(std::vector<rows::Frame>& frames, std::vector<rows::Stack>& stacks) {
  NameReplacer names(*this);
  rows::Walker walker(names);
  walker("frames", frames);
  walker("stacks", stacks);
}

}  // namespace gpumemtrace::analyzer
