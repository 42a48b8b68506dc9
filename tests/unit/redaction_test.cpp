// SPDX-License-Identifier: Apache-2.0
// The texts that --redact takes for private, and those for public.
#include "analyzer/report/redaction.hpp"

#include "analyzer/json/report_json.hpp"
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

TEST_CASE("every name in a report is replaced, and equal ones alike in all sections", "[unit]") {
  rows::Report report;
  report.traces.emplace_back().file = "secret.gmt";
  report.traces[0].notes = {"cannot open /home/secret/a.so at all"};
  rows::Process& process = report.processes.emplace_back();
  process.host = process.boot_id = process.executable = "secret";
  process.command = process.suppressions = {"secret"};
  process.python.emplace().reason = process.cupti.reason = "no /secret/libpython.so";
  report.devices.emplace_back().uuid = "GPU-secret";
  report.ranges.emplace_back().name = "secret";
  rows::Site site;
  site.function = site.node = "SecretBackward";
  report.leaks.exit.emplace_back().origin = {"secret team", site, "p1:1"};
  report.peak.emplace_back().holders.emplace_back().origin = {"pytorch", site, std::nullopt};
  report.stacks.emplace_back().thread.name = "secret";
  report.stacks[0].inferred_from.emplace().name = "secret";
  report.stacks[0].frames.indexes = {0};
  report.frames = {native_frame("libsecret.so", "secret")};
  report.frames[0].file = "/secret/code.cpp";
  rows::Observations seen;
  seen.churning.emplace_back().origin.site = site;
  seen.contexts.emplace_back().opened_at = rows::CodeLocation{site, std::nullopt};
  Redaction redaction;
  redaction.redact(report, seen);
  redaction.redact(report.frames, report.stacks);
  const std::string text = to_text(report);
  CHECK(text.find("ecret") == std::string::npos);
  CHECK(report.leaks.exit[0].origin.site == report.peak[0].holders[0].origin.site);
  CHECK(report.leaks.exit[0].origin.site->function == "function-1");
  CHECK(seen.churning[0].origin.site->function == "function-1");
  CHECK(seen.contexts[0].opened_at->site.function == "function-1");
  CHECK(report.peak[0].holders[0].origin.owner == "pytorch");
}

}  // namespace gpumemtrace::analyzer::redaction_test
