// SPDX-License-Identifier: Apache-2.0
// cuDNN: one convolution with a workspace.
#include <cuda_runtime.h>
#include <cudnn.h>

#include "endings.hpp"

namespace {

constexpr int kBatch = 4;
constexpr int kChannels = 16;
constexpr int kSide = 32;
constexpr std::size_t kImageBytes = sizeof(float) * kBatch * kChannels * kSide * kSide;
constexpr std::size_t kFilterBytes = sizeof(float) * kChannels * kChannels * 3 * 3;

cudnnHandle_t handle = nullptr;
cudnnTensorDescriptor_t images = nullptr;
cudnnFilterDescriptor_t filter = nullptr;
cudnnConvolutionDescriptor_t convolution = nullptr;
float* input = nullptr;
float* output = nullptr;
float* weights = nullptr;
void* workspace = nullptr;

void clean_up() {
  cudaFree(workspace);
  cudaFree(weights);
  cudaFree(output);
  cudaFree(input);
  cudnnDestroyConvolutionDescriptor(convolution);
  cudnnDestroyFilterDescriptor(filter);
  cudnnDestroyTensorDescriptor(images);
  cudnnDestroy(handle);
}

bool describe() {
  return cudnnCreate(&handle) == CUDNN_STATUS_SUCCESS &&
         cudnnCreateTensorDescriptor(&images) == CUDNN_STATUS_SUCCESS &&
         cudnnCreateFilterDescriptor(&filter) == CUDNN_STATUS_SUCCESS &&
         cudnnCreateConvolutionDescriptor(&convolution) == CUDNN_STATUS_SUCCESS &&
         cudnnSetTensor4dDescriptor(images, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, kBatch, kChannels,
                                    kSide, kSide) == CUDNN_STATUS_SUCCESS &&
         cudnnSetFilter4dDescriptor(filter, CUDNN_DATA_FLOAT, CUDNN_TENSOR_NCHW, kChannels,
                                    kChannels, 3, 3) == CUDNN_STATUS_SUCCESS &&
         cudnnSetConvolution2dDescriptor(convolution, 1, 1, 1, 1, 1, 1, CUDNN_CROSS_CORRELATION,
                                         CUDNN_DATA_FLOAT) == CUDNN_STATUS_SUCCESS;
}

bool allocate(std::size_t workspace_bytes) {
  return cudaMalloc(&input, kImageBytes) == cudaSuccess &&
         cudaMalloc(&output, kImageBytes) == cudaSuccess &&
         cudaMalloc(&weights, kFilterBytes) == cudaSuccess &&
         (workspace_bytes == 0 || cudaMalloc(&workspace, workspace_bytes) == cudaSuccess) &&
         cudaMemset(input, 0, kImageBytes) == cudaSuccess &&
         cudaMemset(weights, 0, kFilterBytes) == cudaSuccess;
}

}  // namespace

int main(int argument_count, char** arguments) {
  if (argument_count != 2 || !describe()) return 2;
  constexpr cudnnConvolutionFwdAlgo_t kAlgorithm = CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM;
  std::size_t workspace_bytes = 0;
  const float one = 1;
  const float zero = 0;
  const bool done = cudnnGetConvolutionForwardWorkspaceSize(handle, images, filter, convolution,
                                                            images, kAlgorithm, &workspace_bytes) ==
                        CUDNN_STATUS_SUCCESS &&
                    allocate(workspace_bytes) &&
                    cudnnConvolutionForward(handle, &one, images, input, filter, weights,
                                            convolution, kAlgorithm, workspace, workspace_bytes,
                                            &zero, images, output) == CUDNN_STATUS_SUCCESS &&
                    cudaDeviceSynchronize() == cudaSuccess;
  return done ? gpumemtrace::gpu_tests::end_program(arguments[1], clean_up) : 1;
}
