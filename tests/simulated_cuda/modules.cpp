// SPDX-License-Identifier: Apache-2.0
#include "tests/simulated_cuda/capture.hpp"
#include "tests/simulated_cuda/implementations.hpp"

// The simulated driver accepts modules without reading them, and each holds every function that a
// program asks for; a kernel launch does nothing.

namespace gpumemtrace::cuda_abi::simulated {
namespace {

CUresult launch_nothing(CUfunction function, CUstream stream) {
  if (function == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  // Each launch takes the malloc heap, since any kernel may call malloc.
  if (const CUresult result = take_heap(); result != CUDA_SUCCESS) return result;
  return submit(stream, CU_GRAPH_NODE_TYPE_KERNEL, [] { return CUDA_SUCCESS; });
}

}  // namespace

CUresult module_load(CUmodule* module, const char* file_name) {
  return module_load_data(module, file_name);
}

CUresult module_load_data(CUmodule* module, const void* image) {
  if (module == nullptr || image == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *module = state().modules.create();
  return CUDA_SUCCESS;
}

CUresult module_load_data_with_options(CUmodule* module, const void* image, unsigned int,
                                       CUjit_option*, void**) {
  return module_load_data(module, image);
}

CUresult module_unload(CUmodule module) {
  if (!state().modules.has(module)) return CUDA_ERROR_INVALID_HANDLE;
  state().modules.destroy(module);
  return CUDA_SUCCESS;
}

CUresult module_get_function(CUfunction* function, CUmodule module, const char* name) {
  if (function == nullptr || name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (!state().modules.has(module)) return CUDA_ERROR_INVALID_HANDLE;
  std::unique_ptr<CUfunc_st>& found = module->functions[name];
  if (found == nullptr) found = std::make_unique<CUfunc_st>(CUfunc_st{name});
  *function = found.get();
  return CUDA_SUCCESS;
}

CUresult module_get_global(CUdeviceptr*, std::size_t*, CUmodule module, const char*) {
  return state().modules.has(module) ? CUDA_ERROR_NOT_FOUND : CUDA_ERROR_INVALID_HANDLE;
}

CUresult module_get_global_v1(CUdeviceptr_v1*, unsigned int*, CUmodule module, const char*) {
  return state().modules.has(module) ? CUDA_ERROR_NOT_FOUND : CUDA_ERROR_INVALID_HANDLE;
}

CUresult library_load_data(CUlibrary* library, const void* code, CUjit_option*, void**,
                           unsigned int, CUlibraryOption*, void**, unsigned int) {
  if (library == nullptr || code == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *library = state().libraries.create();
  return CUDA_SUCCESS;
}

CUresult library_load_from_file(CUlibrary* library, const char* file_name, CUjit_option*, void**,
                                unsigned int, CUlibraryOption*, void**, unsigned int) {
  return library_load_data(library, file_name, nullptr, nullptr, 0, nullptr, nullptr, 0);
}

CUresult library_unload(CUlibrary library) {
  if (!state().libraries.has(library)) return CUDA_ERROR_INVALID_HANDLE;
  state().libraries.destroy(library);
  return CUDA_SUCCESS;
}

CUresult library_get_kernel(CUkernel* kernel, CUlibrary library, const char* name) {
  if (kernel == nullptr || name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (!state().libraries.has(library)) return CUDA_ERROR_INVALID_HANDLE;
  std::unique_ptr<CUkern_st>& found = library->kernels[name];
  if (found == nullptr) found = std::make_unique<CUkern_st>(CUkern_st{{name}});
  *kernel = found.get();
  return CUDA_SUCCESS;
}

CUresult library_get_global(CUdeviceptr*, std::size_t*, CUlibrary library, const char*) {
  return state().libraries.has(library) ? CUDA_ERROR_NOT_FOUND : CUDA_ERROR_INVALID_HANDLE;
}

CUresult kernel_get_function(CUfunction* function, CUkernel kernel) {
  if (function == nullptr || kernel == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *function = &kernel->function;
  return CUDA_SUCCESS;
}

CUresult launch_kernel(CUfunction function, unsigned int, unsigned int, unsigned int, unsigned int,
                       unsigned int, unsigned int, unsigned int, CUstream stream, void**, void**) {
  return launch_nothing(function, stream);
}

CUresult launch_cooperative_kernel(CUfunction function, unsigned int, unsigned int, unsigned int,
                                   unsigned int, unsigned int, unsigned int, unsigned int,
                                   CUstream stream, void**) {
  return launch_nothing(function, stream);
}

CUresult launch_kernel_with_configuration(const CUlaunchConfig* configuration, CUfunction function,
                                          void**, void**) {
  if (configuration == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return launch_nothing(function, configuration->hStream);
}

CUresult launch_kernel_with_configuration_ptsz(const CUlaunchConfig* configuration,
                                               CUfunction function, void**, void**) {
  if (configuration == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const bool own = configuration->hStream == nullptr;
  return launch_nothing(
      function, own ? reinterpret_cast<CUstream>(CU_STREAM_PER_THREAD) : configuration->hStream);
}

}  // namespace gpumemtrace::cuda_abi::simulated
