// SPDX-License-Identifier: Apache-2.0
// A loop over requests, of which some are refused after their workspace was allocated: that path
// forgets it. The clean twin frees it there as well.
#include <cuda_runtime.h>

#include <cstddef>
#include <cstdio>
#include <cstring>

namespace {

#define KEPT __attribute__((noinline, noclone))

constexpr int kRequests = 60;
constexpr std::size_t kWorkspaceBytes = 1 << 20;

bool is_valid(int request) { return request % 10 != 7; }

KEPT void* allocate_workspace(std::size_t bytes) {
  void* workspace = nullptr;
  cudaMalloc(&workspace, bytes);  // fault: leak error
  return workspace;
}

KEPT bool answer(int request, bool is_clean) {
  void* const workspace = allocate_workspace(kWorkspaceBytes);
  if (!is_valid(request)) {
    if (is_clean) cudaFree(workspace);
    return false;
  }
  cudaMemset(workspace, request, kWorkspaceBytes);
  cudaFree(workspace);
  return true;
}

}  // namespace

int main(int argument_count, char** arguments) {
  if (argument_count != 2) return 2;
  int answered = 0;
  for (int request = 0; request < kRequests; ++request) {
    answered += answer(request, std::strcmp(arguments[1], "clean") == 0) ? 1 : 0;
  }
  if (cudaDeviceSynchronize() != cudaSuccess) return 1;
  std::printf("%d of %d answered\n", answered, kRequests);
  return 0;
}
