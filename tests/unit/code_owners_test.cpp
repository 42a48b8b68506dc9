// SPDX-License-Identifier: Apache-2.0
// The owners of code, by the built-in tables and by rules of the user.
#include <fstream>

#include "analyzer/base/input_error.hpp"
#include "analyzer/owners/owners.hpp"
#include "analyzer/stacks/pytorch_frames.hpp"
#include "tests/catch.hpp"
#include "tests/support/error_text.hpp"
#include "tests/support/trace_builder.hpp"

namespace gpumemtrace::code_owners_test {

using namespace gpumemtrace::analyzer;
using gpumemtrace::tests::contains;
using gpumemtrace::tests::error_of;
using gpumemtrace::tests::TemporaryFolder;

namespace {

constexpr const char* kProgram = "/home/me/train";

CodeOwners owners_with(const std::string& rules) {
  const TemporaryFolder folder;
  std::ofstream(folder.path() / "owners.json") << rules;
  CodeOwners owners;
  owners.read(folder.path() / "owners.json");
  return owners;
}

}  // namespace

TEST_CASE("libraries that are linked in are known by their functions", "[unit]") {
  const CodeOwners owners;
  const auto owner = [&](const char* module, const char* function) {
    return owners.owner_of_code(module, function, kProgram);
  };
  CHECK(owner("/x/libtorch_cuda.so", "c10::cuda::malloc(int)") == "pytorch");
  CHECK(owner("/x/libtorch_cuda.so", "ncclResult_t ncclCudaCallocDebug<char>(char**)") == "nccl");
  CHECK(owner("/x/libtorch_cuda.so", "cudnnCreate") == "cudnn");
  CHECK(owner(kProgram, "main") == "program");
  CHECK(owner(kProgram, "cudaMalloc") == "");
  CHECK(owner("/usr/lib/x86_64-linux-gnu/libcuda.so.1", "") == "");
  CHECK(owner("/usr/lib/x86_64-linux-gnu/libc.so.6", "start_thread") == "");
  CHECK(owner("/usr/bin/python3.12", "_PyEval_EvalFrameDefault") == "");
  CHECK(owner("", "") == "");
}

TEST_CASE("the user's code is what is neither a framework's nor the system's", "[unit]") {
  const CodeOwners owners;
  const auto is_users = [&](const char* module, const char* function) {
    return owners.is_users_code(module, function, kProgram);
  };
  CHECK(is_users(kProgram, "main"));
  CHECK(is_users("/home/me/libmine.so", "mine::step(int)"));
  CHECK(is_users("/home/me/ext.cpython-312-x86_64-linux-gnu.so", "forward(at::Tensor)"));
  CHECK(is_users("/home/me/libmine.so", ""));
  CHECK_FALSE(is_users(kProgram, "std::vector<int>::resize(unsigned long)"));
  CHECK_FALSE(is_users(kProgram, "void std::__fill<int>(int*)"));
  CHECK_FALSE(is_users(kProgram, "cudaMalloc"));
  CHECK_FALSE(is_users("/x/libtorch_cuda.so", "at::native::add()"));
  CHECK_FALSE(is_users("/x/site-packages/fastops/ops.so", "fast()"));
  CHECK_FALSE(is_users("/usr/lib/x86_64-linux-gnu/libopenblas.so.0", "dgemm"));
  CHECK_FALSE(is_users("", "jit"));
}

TEST_CASE("templates of the system are not the user's wherever they are compiled into", "[unit]") {
  CHECK(is_users_source_file("/home/me/model.cpp"));
  CHECK(is_users_source_file(""));
  CHECK_FALSE(is_users_source_file("/usr/include/c++/12/bits/invoke.h"));
  CHECK_FALSE(is_users_source_file("/opt/gcc/include/c++/13/vector"));
  CHECK_FALSE(is_users_source_file("/usr/local/cuda/include/thrust/device_vector.h"));
  CHECK_FALSE(is_users_source_file("/x/site-packages/torch/include/ATen/Functions.h"));
}

TEST_CASE("rules of the user come before the tables", "[unit]") {
  const CodeOwners owners = owners_with(R"({"rules": [
    {"file": "libtorch_mine", "owner": "mine"},
    {"folder": "/vendored/", "owner": "vendor", "user": false},
    {"function": "mine::", "owner": "mine"},
    {"function": "cudaHelper", "user": true},
    {"folder": "/site-packages/my_package/", "user": true}]})");
  CHECK(owners.owner_of_code("/x/libtorch_mine.so", "", kProgram) == "mine");
  CHECK(owners.owner_of_code("/x/libtorch_cuda.so", "", kProgram) == "pytorch");
  CHECK(owners.owner_of_code(kProgram, "int mine::pool<int>(int)", kProgram) == "mine");
  CHECK(owners.owner_of_caller("/home/me/vendored/libfast.so", kProgram) == "vendor");
  CHECK(owners.is_users_code(kProgram, "cudaHelper(int)", kProgram));
  CHECK_FALSE(owners.is_users_code("/home/me/vendored/libfast.so", "fast()", kProgram));
  CHECK_FALSE(owners.is_users_python("/home/me/vendored/model.py", "step"));
  CHECK(owners.is_users_python("/x/site-packages/my_package/model.py", "step"));
  CHECK(owners.owner_of_python("/home/me/vendored/model.py") == "vendor");
}

TEST_CASE("rules that say nothing, or more than is known, are refused", "[unit]") {
  const std::string one_of = R"(each rule needs one of "file", "folder" and "function")";
  const std::pair<const char*, std::string> cases[] = {
      {"", "parse error"},
      {"[]", "'rules' is no object"},
      {"{}", "'rules' is missing"},
      {R"({"rules": [{"file": "x"}]})", R"(each rule needs an "owner", or "user", or both)"},
      {R"({"rules": [{"owner": "x"}]})", one_of},
      {R"({"rules": [{"file": "x", "folder": "y", "owner": "z"}]})", one_of},
      {R"({"rules": [{"file": "x", "owner": "z", "colour": "red"}]})",
       R"(there is no key "colour")"},
      {R"({"rules": [{"file": 7, "owner": "z"}]})", "a text is missing"},
      {R"({"rules": [{"file": "", "owner": "z"}]})", one_of}};
  for (const auto& [rules, reason] : cases) {
    const std::string refusal = error_of<InputError>([&] { return owners_with(rules); });
    CAPTURE(rules, refusal);
    CHECK(contains(refusal, reason));
    CHECK(contains(refusal, "docs/concepts.md describes them."));
  }
  CodeOwners owners;
  CHECK(error_of<InputError>([&] { owners.read("/missing/owners.json"); }) ==
        "Cannot open /missing/owners.json: No such file or directory.");
}

TEST_CASE("a function's bare name has neither arguments nor a return type", "[unit]") {
  CHECK(bare_function_name("main") == "main");
  CHECK(bare_function_name("a::b(int, c (*)(int))") == "a::b");
  CHECK(bare_function_name("std::vector<int> a::b<c<d> >(int)") == "a::b<c<d> >");
  CHECK(short_function_name("void a::(anonymous namespace)::b<(anonymous namespace)::c>(int)") ==
        "a::b<c>");
  CHECK(short_function_name("work.<locals>.step") == "work.step");
  CHECK(short_function_name("work.<locals>.<listcomp>") == "work");
  CHECK(short_function_name("a.<locals>.b.<locals>.<genexpr>") == "a.b");
  CHECK(bare_function_name("a::(anonymous namespace)::b(int)") == "a::(anonymous namespace)::b");
  CHECK(bare_function_name("a::operator()(int) const").substr(0, 11) == "a::operator");
  CHECK(bare_function_name("void a::my_operator_x(int)") == "a::my_operator_x");
  CHECK(bare_function_name("int operators::f(int)") == "operators::f");
  CHECK(bare_function_name("") == "");
  CHECK(bare_function_name("<<<") == "<<<");
}

TEST_CASE("autograd nodes are named by what they carry out", "[unit]") {
  CHECK(autograd_node_name("torch::autograd::generated::AddmmBackward0::apply("
                           "std::vector<at::Tensor, std::allocator<at::Tensor> >&&)") ==
        "AddmmBackward0");
  CHECK(autograd_node_name("torch::autograd::AccumulateGrad::apply(int)") == "AccumulateGrad");
  CHECK(autograd_node_name("torch::autograd::CopySlices::apply(int)") == "CopySlices");
  CHECK(autograd_node_name("torch::autograd::PyNode::apply(int)") == "PyNode");
  CHECK(autograd_node_name("torch::autograd::CppNode<my::Gelu>::apply(int)") == "Gelu");
  CHECK(autograd_node_name("vendor::FusedBackward12::apply(int)") == "FusedBackward12");
  CHECK(autograd_node_name("torch::autograd::Node::operator()(int)") == "");
  CHECK(autograd_node_name("my::Visitor::apply(int)") == "");
  CHECK(autograd_node_name("apply") == "");
  CHECK(autograd_node_name("") == "");
}

TEST_CASE("code that PyTorch's compiler generates is not the user's", "[unit]") {
  const std::string file = "/cbbfvnrwwl7crvhmnnphkxriwbqxxrsy4wksgkyyotwd46wd3jxt.py";
  CHECK_FALSE(is_users_python_file("/tmp/torchinductor_me/bb" + file));
  CHECK_FALSE(is_users_python_file("/scratch/cache/bb" + file));
  CHECK_FALSE(is_users_python_file("cache/bb" + file));
  CHECK(is_users_python_file("/scratch/cache/cc" + file));
  CHECK(is_users_python_file("/home/me/bb/cells.py"));
  CHECK_FALSE(is_users_python_file("<eval_with_key>.12"));
  CHECK_FALSE(is_users_python_file("fx_generated_3a4b5c6d7e8f9a0.py"));
  CHECK(is_users_python_file("/home/me/model.py"));
}

TEST_CASE("PyTorch's functions that wait for their copies are known", "[unit]") {
  CHECK(waits_for_its_copy("at::native::_local_scalar_dense_cuda(at::Tensor const&)"));
  CHECK(waits_for_its_copy("void at::native::nonzero_cuda_out_impl<bool>(at::Tensor const&)"));
  CHECK(waits_for_its_copy("c10::cuda::memcpy_and_sync(void*, void const*, long)"));
  CHECK_FALSE(waits_for_its_copy("at::native::copy_kernel_cuda(at::TensorIterator&, bool)"));
  CHECK_FALSE(waits_for_its_copy(""));
}

}  // namespace gpumemtrace::code_owners_test
