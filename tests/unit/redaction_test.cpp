// SPDX-License-Identifier: Apache-2.0
// The texts that --redact treats as private, and those that it treats as public.
#include "analyzer/report/redaction.hpp"

#include "analyzer/base/row_text.hpp"
#include "analyzer/json/report_json.hpp"
#include "analyzer/rows/walk.hpp"
#include "tests/catch.hpp"

namespace gpumemtrace::analyzer::redaction_test {
namespace {

rows::Frame native_frame(const std::string& module, const std::string& function) {
  rows::Frame frame;
  frame.function = function;
  frame.file = "/home/me/src/code.cpp";
  frame.line = 7;
  frame.module = module;
  return frame;
}

rows::Frame python_frame(const std::string& file, const std::string& function) {
  rows::Frame frame;
  frame.function = function;
  frame.file = file;
  frame.language = rows::Language::kPython;
  return frame;
}

rows::Frame redacted(Redaction& redaction, rows::Frame frame) {
  redaction.redact(frame);
  return frame;
}

// Fills a report: every list gets one row, every optional a value, and every text that may be
// private a name.
struct Secrets {
  template <class T>
  void operator()(std::string_view, T& value) {
    if constexpr (requires { value.emplace_back(); }) value.emplace_back();
    if constexpr (requires { value.emplace(); }) value.emplace();
  }
  template <Secret kind>
  void operator()(std::string_view, rows::Name<kind>& name) {
    name = "secret";
  }
  void operator()(std::string_view, rows::Remark& sentence) { sentence = "no /secret/a.so at all"; }
  void operator()(std::string_view, rows::CodeText& text) {
    text = "secret_" + std::to_string(++count);
  }
  // Sets a valid rule: rules are written by name, and the initial value kCount has none.
  void operator()(std::string_view, Rule& rule) { rule = Rule::kLeak; }

  std::uint64_t count = 0;
};

}  // namespace

TEST_CASE("equal texts of one kind get one name, in the order in which they come", "[unit]") {
  Redaction redaction;
  CHECK(redaction.replace(Secret::kHost, "node07") == "host-1");
  CHECK(redaction.replace(Secret::kHost, "node03") == "host-2");
  CHECK(redaction.replace(Secret::kHost, "node07") == "host-1");
  CHECK(redaction.replace(Secret::kThread, "node07") == "thread-1");
  CHECK(redaction.replace(Secret::kHost, "").empty());
}

TEST_CASE("functions of public libraries stay, their files without folders", "[unit]") {
  Redaction redaction;
  for (const char* const module : {"libtorch_cuda.so", "libc.so.6", "libcublas.so.13", "python3.12",
                                   "libpython3.11.so.1.0", "ld-linux-x86-64.so.2"}) {
    const rows::Frame frame = redacted(redaction, native_frame(module, "at::empty"));
    CHECK(frame.module == module);
    CHECK(frame.function == "at::empty");
    CHECK(frame.file == "code.cpp");
    CHECK(frame.line == 7);
  }
}

TEST_CASE("a library whose name only begins like a public one is private", "[unit]") {
  Redaction redaction;
  for (const char* const module : {"libtorch_secret.so", "libcudasecret.so", "python3-secret"}) {
    const rows::Frame frame = redacted(redaction, native_frame(module, "std::vector<Secret>"));
    CHECK(frame.module->find("secret") == std::string::npos);
    CHECK(frame.function == "function-1");
    CHECK(frame.file == "file-1.cpp");
    CHECK(frame.line == 7);
  }
}

TEST_CASE("a library is not taken for a layer of a model", "[unit]") {
  rows::Report report;
  rows::Site site;
  site.module = "libtorch.so";
  rows::Holder& holder = report.peak.emplace_back().holders.emplace_back();
  holder.layers = "Secret > Linear";
  holder.origin.site = site;
  report.frames = {native_frame("libtorch.so", "at::empty"), native_frame("libown.so", "run")};
  rows::Observations seen;
  Redaction redaction;
  redaction.redact(report, seen);
  CHECK(holder.layers == "layer-1 > layer-2");
  CHECK(holder.origin.site->module == "libtorch.so");
  CHECK(report.frames[0].module == "libtorch.so");
  CHECK(report.frames[1].module == "library-1");
}

TEST_CASE("Python files stay from the package on where it is public", "[unit]") {
  Redaction redaction;
  const auto file_of = [&](const char* file) {
    return redacted(redaction, python_frame(file, "run")).file;
  };
  CHECK(file_of("/home/me/venv/lib/python3.12/site-packages/torch/nn/linear.py") ==
        "torch/nn/linear.py");
  CHECK(file_of("/usr/lib/python3.11/threading.py") == "lib/python3.11/threading.py");
  CHECK(file_of("<frozen runpy>") == "<frozen runpy>");
  CHECK(file_of("/venv/lib/python3.12/site-packages/torch_secret/a.py") == "file-1.py");
  CHECK(file_of("/home/me/torch/nn/linear.py") == "file-2.py");
  CHECK(file_of("<ipython-input-1>") == "file-3");
}

TEST_CASE("autograd's own nodes stay, those of the program do not", "[unit]") {
  Redaction redaction;
  CHECK(redaction.replace_node("AddmmBackward0") == "AddmmBackward0");
  CHECK(redaction.replace_node("SecretBackward") == "function-1");
  CHECK(redaction.replace_node("").empty());
}

TEST_CASE("owners of the built-in table stay, others do not", "[unit]") {
  Redaction redaction;
  for (const char* const owner : {"pytorch", "cublas", "program", "python_extension", "other"}) {
    CHECK(redaction.replace_owner(owner) == owner);
  }
  CHECK(redaction.replace_owner("my team") == "owner-1");
}

TEST_CASE("of a sentence only the paths are replaced", "[unit]") {
  Redaction redaction;
  CHECK(redaction.replace_paths("cannot open /home/me/libcupti.so: no such file") ==
        "cannot open file-1 no such file");
}

TEST_CASE("every private name of every row is replaced", "[unit]") {
  rows::Report report;
  rows::Observations seen;
  rows::walk(report, Secrets());
  rows::walk(seen, Secrets());
  CHECK(report.peak[0].holders[0].layers == "secret");
  CHECK(report.stacks[0].inferred_from->name == "secret");
  Redaction().redact(report, seen);
  CHECK(to_text(report).find("secret") == std::string::npos);
  CHECK(json_text(seen).find("secret") == std::string::npos);
}

TEST_CASE("equal names get equal ones in all sections", "[unit]") {
  rows::Report report;
  rows::Site site;
  site.function = site.node = "SecretBackward";
  report.leaks.exit.emplace_back().origin = {"secret team", site, "p1:1"};
  report.peak.emplace_back().holders.emplace_back().origin = {"pytorch", site, std::nullopt};
  report.frames = {native_frame("libsecret.so", "SecretBackward")};
  rows::Observations seen;
  seen.churning.emplace_back().origin.site = site;
  seen.contexts.emplace_back().opened_at = rows::CodeLocation{site, std::nullopt};
  Redaction().redact(report, seen);
  CHECK(report.leaks.exit[0].origin.owner == "owner-1");
  CHECK(report.leaks.exit[0].origin.site == report.peak[0].holders[0].origin.site);
  CHECK(report.leaks.exit[0].origin.site->function == "function-1");
  CHECK(seen.churning[0].origin.site->function == "function-1");
  CHECK(seen.contexts[0].opened_at->site.function == "function-1");
  CHECK(report.frames[0].function == "function-1");
  CHECK(report.peak[0].holders[0].origin.owner == "pytorch");
}

}  // namespace gpumemtrace::analyzer::redaction_test
