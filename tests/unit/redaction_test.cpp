// SPDX-License-Identifier: Apache-2.0
// What --redact takes for private, and what for public.
#include "analyzer/report/redaction.hpp"

#include "analyzer/report/stack_names.hpp"
#include "tests/catch.hpp"

namespace gpumemtrace::analyzer {
namespace {

StackFrame native_frame(const std::string& module, const std::string& function) {
  StackFrame frame;
  frame.function = function;
  frame.file = "/home/me/src/code.cpp";
  frame.line = 7;
  frame.module = module;
  return frame;
}

StackFrame python_frame(const std::string& file, const std::string& function) {
  StackFrame frame;
  frame.function = function;
  frame.file = file;
  frame.is_python = true;
  return frame;
}

}  // namespace

TEST_CASE("equal texts of one kind get one name, in the order in which they come", "[unit]") {
  Redaction redaction(true);
  CHECK(redaction.replace(Secret::kHost, "node07") == "host-1");
  CHECK(redaction.replace(Secret::kHost, "node03") == "host-2");
  CHECK(redaction.replace(Secret::kHost, "node07") == "host-1");
  CHECK(redaction.replace(Secret::kThread, "node07") == "thread-1");
  CHECK(redaction.replace(Secret::kHost, "").empty());
}

TEST_CASE("without redaction everything is as it is", "[unit]") {
  Redaction redaction(false);
  CHECK(redaction.replace(Secret::kHost, "node07") == "node07");
  CHECK(redaction.replace(native_frame("secret.so", "run")).function == "run");
  CHECK(redaction.replace_module("secret.so") == "secret.so");
  CHECK(redaction.replace_owner("my team") == "my team");
  CHECK(redaction.replace_node("MineBackward") == "MineBackward");
  CHECK(redaction.replace_paths("see /home/me") == "see /home/me");
}

TEST_CASE("functions of public libraries stay, their files without folders", "[unit]") {
  Redaction redaction(true);
  for (const char* const module : {"libtorch_cuda.so", "libc.so.6", "libcublas.so.13", "python3.12",
                                   "libpython3.11.so.1.0", "ld-linux-x86-64.so.2"}) {
    const StackFrame frame = redaction.replace(native_frame(module, "at::empty"));
    CHECK(frame.module == module);
    CHECK(frame.function == "at::empty");
    CHECK(frame.file == "code.cpp");
    CHECK(frame.line == 7);
  }
}

TEST_CASE("a library whose name only begins like a public one is private", "[unit]") {
  Redaction redaction(true);
  for (const char* const module : {"libtorch_secret.so", "libcudasecret.so", "python3-secret"}) {
    const StackFrame frame = redaction.replace(native_frame(module, "std::vector<Secret>"));
    CHECK(frame.module.find("secret") == std::string::npos);
    CHECK(frame.function == "function-1");
    CHECK(frame.file == "file-1.cpp");
    CHECK(frame.line == 7);
  }
}

TEST_CASE("Python files stay from the package on where it is public", "[unit]") {
  Redaction redaction(true);
  const auto file_of = [&](const char* file) {
    return redaction.replace(python_frame(file, "run")).file;
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
  Redaction redaction(true);
  CHECK(redaction.replace_node("AddmmBackward0") == "AddmmBackward0");
  CHECK(redaction.replace_node("SecretBackward") == "function-1");
  CHECK(redaction.replace_node("").empty());
}

TEST_CASE("owners of the built-in table stay, others do not", "[unit]") {
  Redaction redaction(true);
  for (const char* const owner : {"pytorch", "cublas", "program", "python_extension", "other"}) {
    CHECK(redaction.replace_owner(owner) == owner);
  }
  CHECK(redaction.replace_owner("my team") == "owner-1");
}

TEST_CASE("of a sentence only the paths are replaced", "[unit]") {
  Redaction redaction(true);
  CHECK(redaction.replace_paths("cannot open /home/me/libcupti.so: no such file") ==
        "cannot open file-1 no such file");
}

}  // namespace gpumemtrace::analyzer
