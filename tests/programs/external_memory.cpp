// SPDX-License-Identifier: Apache-2.0
// Imports external memory from a file descriptor. A real driver takes only descriptors that a
// graphics API has exported; with such a driver the program is skipped.
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>

#include "tests/programs/support/program.hpp"
#include "tests/programs/support/truth.hpp"

namespace gpumemtrace::programs {
namespace {

constexpr std::size_t kBytes = std::size_t{4} << 20;

abi::CUexternalMemory import_file() {
  const int file = memfd_create("external-memory", MFD_CLOEXEC);
  require(file != -1 && ftruncate(file, static_cast<off_t>(kBytes)) == 0, "memory can be shared");
  abi::CUDA_EXTERNAL_MEMORY_HANDLE_DESC description{};
  description.type = abi::CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD;
  description.handle.fd = file;
  description.size = kBytes;
  abi::CUexternalMemory memory = nullptr;
  const abi::CUresult result = GPUMEMTRACE_TRY(cuImportExternalMemory, &memory, &description);
  if (result != abi::CUDA_SUCCESS) {
    close(file);
    skip_program("the driver takes no plain file as external memory: " + result_name(result));
  }
  return memory;
}

int run() {
  start_on_device();
  abi::CUexternalMemory memory = import_file();
  truth().allocated("imported", "external", kBytes);
  abi::CUDA_EXTERNAL_MEMORY_BUFFER_DESC buffer{};
  buffer.offset = 0;
  buffer.size = kBytes / 2;
  abi::CUdeviceptr address = 0;
  GPUMEMTRACE_CALL(cuExternalMemoryGetMappedBuffer, &address, memory, &buffer);
  GPUMEMTRACE_CALL(cuMemsetD8_v2, address, 1, kBytes / 2);
  truth().set(kBytes / 2);
  GPUMEMTRACE_CALL(cuMemFree_v2, address);
  GPUMEMTRACE_CALL(cuDestroyExternalMemory, memory);
  truth().freed("imported", "external", kBytes);
  return finish("external_memory");
}

}  // namespace
}  // namespace gpumemtrace::programs

int main() { return gpumemtrace::programs::run(); }
