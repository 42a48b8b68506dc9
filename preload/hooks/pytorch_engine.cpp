// SPDX-License-Identifier: Apache-2.0
// PyTorch's autograd engine carries out a backward pass on threads of its own, which have no Python
// frames. The thread that called backward() waits for them in a function of libtorch_cpu that
// libtorch_python calls. Our function of the same name interposes on it, records the stack of that
// thread, and passes the call on.
//
// - Our function is called without Python's lock; it calls nothing of PyTorch or Python.
// - Exceptions pass through our function: it has nothing to clean up.
//
// Sources: torch/csrc/autograd/engine.h, torch/csrc/autograd/python_engine.cpp of PyTorch 2.

#include "preload/loader/function_behind.hpp"
#include "preload/ring/call_guard.hpp"
#include "preload/ring/control.hpp"
#include "preload/stacks/stacks.hpp"
#include "preload/stacks/waiting_watch.hpp"

namespace gpumemtrace::preload {

// Stands for std::vector<at::Tensor>. It is not trivial, so that the caller passes the address at
// which the function makes its result.
struct Tensors {
  void* content[3];
  ~Tensors() {}  // NOLINT(modernize-use-equals-default): with a body it is not trivial
};

namespace {

// Not inlined: the guard must end before the wait begins, because this thread runs CPU nodes of the
// autograd graph while it waits, and their calls are recorded.
[[gnu::noinline]] void record_waiting_thread() noexcept {
  const CallGuard guard;
  const bool is_recorded =
      guard.outermost() && recording(/*may_start=*/false) && record_waiting_stack(guard);
  waiting_begins(is_recorded);
}

}  // namespace
}  // namespace gpumemtrace::preload

using gpumemtrace::preload::FunctionBehind;
using gpumemtrace::preload::real_of;
using gpumemtrace::preload::record_waiting_thread;
using gpumemtrace::preload::Tensors;

#define GPUMEMTRACE_ENGINE_EXECUTE                                    \
  "_ZN5torch8autograd6Engine7executeERKSt6vectorINS0_4EdgeESaIS3_EER" \
  "KS2_IN2at6TensorESaIS9_EEbbbS7_"

// Wraps torch::autograd::Engine::execute(roots, inputs, keep graph, create graph, accumulate
// gradients, outputs).
[[gnu::visibility("default")]] Tensors execute_engine(
    void* engine, const void* roots, const void* inputs, bool keep_graph, bool create_graph,
    bool accumulate, const void* outputs) __asm__(GPUMEMTRACE_ENGINE_EXECUTE);
Tensors execute_engine(void* engine, const void* roots, const void* inputs, bool keep_graph,
                       bool create_graph, bool accumulate, const void* outputs) {
  static constinit FunctionBehind behind(GPUMEMTRACE_ENGINE_EXECUTE);
  auto* const real = real_of(behind, &execute_engine, GPUMEMTRACE_ENGINE_EXECUTE);
  record_waiting_thread();
  return real(engine, roots, inputs, keep_graph, create_graph, accumulate, outputs);
}
