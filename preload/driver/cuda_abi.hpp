// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "preload/driver/cuda_types.hpp"

// Function types of the driver's exported symbols, one per symbol: cuMemAlloc_v2_t is the type of
// the function that libcuda.so.1 exports as cuMemAlloc_v2. A symbol without a version suffix that
// has a _v2 beside it is the older ABI (often with 32-bit addresses and sizes), and still exported.
// _ptds and _ptsz are the same call with stream 0 meaning the thread's own default stream.
// tests/unit/cuda_abi_check.cpp compares each with cuda.h if a toolkit is present.

namespace gpumemtrace::cuda_abi {

// Start-up and resolution.
using cuInit_t = CUresult(unsigned int Flags);
using cuGetProcAddress_t = CUresult(const char* symbol, void** pfn, int cudaVersion,
                                    std::uint64_t flags);
using cuGetProcAddress_v2_t = CUresult(const char* symbol, void** pfn, int cudaVersion,
                                       std::uint64_t flags,
                                       CUdriverProcAddressQueryResult* symbolStatus);
using cuDriverGetVersion_t = CUresult(int* driverVersion);
using cuCheckpointProcessCheckpoint_t = CUresult(int pid, CUcheckpointCheckpointArgs* args);
using cuCheckpointProcessRestore_t = CUresult(int pid, CUcheckpointRestoreArgs* args);

// Devices.
using cuDeviceGetCount_t = CUresult(int* count);
using cuDeviceGetName_t = CUresult(char* name, int len, CUdevice dev);
using cuDeviceGetUuid_t = CUresult(CUuuid* uuid, CUdevice dev);
using cuDeviceGetUuid_v2_t = CUresult(CUuuid* uuid, CUdevice dev);
using cuDeviceTotalMem_v2_t = CUresult(std::size_t* bytes, CUdevice dev);
using cuDeviceGetAttribute_t = CUresult(int* pi, CUdevice_attribute attrib, CUdevice dev);
using cuDeviceGetPCIBusId_t = CUresult(char* pciBusId, int len, CUdevice dev);

// Contexts.
using cuCtxCreate_t = CUresult(CUcontext* pctx, unsigned int flags, CUdevice dev);
using cuCtxCreate_v2_t = CUresult(CUcontext* pctx, unsigned int flags, CUdevice dev);
using cuCtxCreate_v3_t = CUresult(CUcontext* pctx, CUexecAffinityParam* paramsArray, int numParams,
                                  unsigned int flags, CUdevice dev);
using cuCtxCreate_v4_t = CUresult(CUcontext* pctx, CUctxCreateParams* ctxCreateParams,
                                  unsigned int flags, CUdevice dev);
using cuCtxDestroy_t = CUresult(CUcontext ctx);
using cuCtxDestroy_v2_t = CUresult(CUcontext ctx);
using cuDevicePrimaryCtxRetain_t = CUresult(CUcontext* pctx, CUdevice dev);
using cuDevicePrimaryCtxRelease_t = CUresult(CUdevice dev);
using cuDevicePrimaryCtxRelease_v2_t = CUresult(CUdevice dev);
using cuDevicePrimaryCtxReset_t = CUresult(CUdevice dev);
using cuDevicePrimaryCtxReset_v2_t = CUresult(CUdevice dev);
using cuGreenCtxCreate_t = CUresult(CUgreenCtx* phCtx, CUdevResourceDesc desc, CUdevice dev,
                                    unsigned int flags);
using cuGreenCtxDestroy_t = CUresult(CUgreenCtx hCtx);
using cuCtxGetLimit_t = CUresult(std::size_t* pvalue, CUlimit limit);
using cuCtxSetLimit_t = CUresult(CUlimit limit, std::size_t value);
using cuCtxEnablePeerAccess_t = CUresult(CUcontext peerContext, unsigned int Flags);
using cuCtxDisablePeerAccess_t = CUresult(CUcontext peerContext);
using cuDevicePrimaryCtxGetState_t = CUresult(CUdevice dev, unsigned int* flags, int* active);
using cuCtxGetCurrent_t = CUresult(CUcontext* pctx);
using cuCtxSetCurrent_t = CUresult(CUcontext ctx);
using cuCtxPushCurrent_t = CUresult(CUcontext ctx);
using cuCtxPushCurrent_v2_t = CUresult(CUcontext ctx);
using cuCtxPopCurrent_t = CUresult(CUcontext* pctx);
using cuCtxPopCurrent_v2_t = CUresult(CUcontext* pctx);
using cuCtxGetDevice_t = CUresult(CUdevice* device);
using cuCtxFromGreenCtx_t = CUresult(CUcontext* pContext, CUgreenCtx hCtx);

// Device, managed and host memory.
using cuMemAlloc_t = CUresult(CUdeviceptr_v1* dptr, unsigned int bytesize);
using cuMemAlloc_v2_t = CUresult(CUdeviceptr* dptr, std::size_t bytesize);
using cuMemAllocPitch_t = CUresult(CUdeviceptr_v1* dptr, unsigned int* pPitch,
                                   unsigned int WidthInBytes, unsigned int Height,
                                   unsigned int ElementSizeBytes);
using cuMemAllocPitch_v2_t = CUresult(CUdeviceptr* dptr, std::size_t* pPitch,
                                      std::size_t WidthInBytes, std::size_t Height,
                                      unsigned int ElementSizeBytes);
using cuMemAllocManaged_t = CUresult(CUdeviceptr* dptr, std::size_t bytesize, unsigned int flags);
using cuMemFree_t = CUresult(CUdeviceptr_v1 dptr);
using cuMemFree_v2_t = CUresult(CUdeviceptr dptr);
using cuMemAllocHost_t = CUresult(void** pp, unsigned int bytesize);
using cuMemAllocHost_v2_t = CUresult(void** pp, std::size_t bytesize);
using cuMemHostAlloc_t = CUresult(void** pp, std::size_t bytesize, unsigned int Flags);
using cuMemFreeHost_t = CUresult(void* p);
using cuMemHostRegister_t = CUresult(void* p, std::size_t bytesize, unsigned int Flags);
using cuMemHostRegister_v2_t = CUresult(void* p, std::size_t bytesize, unsigned int Flags);
using cuMemHostUnregister_t = CUresult(void* p);
using cuMemGetInfo_v2_t = CUresult(std::size_t* free, std::size_t* total);
using cuMemGetAddressRange_v2_t = CUresult(CUdeviceptr* pbase, std::size_t* psize,
                                           CUdeviceptr dptr);

// Stream-ordered memory and pools.
using cuMemAllocAsync_t = CUresult(CUdeviceptr* dptr, std::size_t bytesize, CUstream hStream);
using cuMemAllocFromPoolAsync_t = CUresult(CUdeviceptr* dptr, std::size_t bytesize,
                                           CUmemoryPool pool, CUstream hStream);
using cuMemFreeAsync_t = CUresult(CUdeviceptr dptr, CUstream hStream);
using cuMemPoolCreate_t = CUresult(CUmemoryPool* pool, const CUmemPoolProps* poolProps);
using cuMemPoolDestroy_t = CUresult(CUmemoryPool pool);
using cuMemPoolTrimTo_t = CUresult(CUmemoryPool pool, std::size_t minBytesToKeep);
using cuMemPoolSetAttribute_t = CUresult(CUmemoryPool pool, CUmemPool_attribute attr, void* value);
using cuMemPoolExportToShareableHandle_t = CUresult(void* handle_out, CUmemoryPool pool,
                                                    CUmemAllocationHandleType handleType,
                                                    unsigned long long flags);
using cuMemPoolImportFromShareableHandle_t = CUresult(CUmemoryPool* pool_out, void* handle,
                                                      CUmemAllocationHandleType handleType,
                                                      unsigned long long flags);
using cuMemPoolExportPointer_t = CUresult(CUmemPoolPtrExportData* shareData_out, CUdeviceptr ptr);
using cuMemPoolImportPointer_t = CUresult(CUdeviceptr* ptr_out, CUmemoryPool pool,
                                          CUmemPoolPtrExportData* shareData);
using cuDeviceSetMemPool_t = CUresult(CUdevice dev, CUmemoryPool pool);
using cuMemSetMemPool_t = CUresult(CUmemLocation* location, CUmemAllocationType type,
                                   CUmemoryPool pool);
using cuDeviceGetDefaultMemPool_t = CUresult(CUmemoryPool* pool_out, CUdevice dev);
using cuDeviceGetMemPool_t = CUresult(CUmemoryPool* pool, CUdevice dev);
using cuMemPoolGetAttribute_t = CUresult(CUmemoryPool pool, CUmemPool_attribute attr, void* value);
using cuMemPoolSetAccess_t = CUresult(CUmemoryPool pool, const CUmemAccessDesc* map,
                                      std::size_t count);

// Virtual memory management.
using cuMemAddressReserve_t = CUresult(CUdeviceptr* ptr, std::size_t size, std::size_t alignment,
                                       CUdeviceptr addr, unsigned long long flags);
using cuMemAddressFree_t = CUresult(CUdeviceptr ptr, std::size_t size);
using cuMemCreate_t = CUresult(CUmemGenericAllocationHandle* handle, std::size_t size,
                               const CUmemAllocationProp* prop, unsigned long long flags);
using cuMemRelease_t = CUresult(CUmemGenericAllocationHandle handle);
using cuMemRetainAllocationHandle_t = CUresult(CUmemGenericAllocationHandle* handle, void* addr);
using cuMemMap_t = CUresult(CUdeviceptr ptr, std::size_t size, std::size_t offset,
                            CUmemGenericAllocationHandle handle, unsigned long long flags);
using cuMemUnmap_t = CUresult(CUdeviceptr ptr, std::size_t size);
using cuMemMapArrayAsync_t = CUresult(CUarrayMapInfo* mapInfoList, unsigned int count,
                                      CUstream hStream);
using cuMemSetAccess_t = CUresult(CUdeviceptr ptr, std::size_t size, const CUmemAccessDesc* desc,
                                  std::size_t count);
using cuMemExportToShareableHandle_t = CUresult(void* shareableHandle,
                                                CUmemGenericAllocationHandle handle,
                                                CUmemAllocationHandleType handleType,
                                                unsigned long long flags);
using cuMemGetHandleForAddressRange_t = CUresult(void* handle, CUdeviceptr dptr, std::size_t size,
                                                 CUmemRangeHandleType handleType,
                                                 unsigned long long flags);
using cuMemImportFromShareableHandle_t = CUresult(CUmemGenericAllocationHandle* handle,
                                                  void* osHandle,
                                                  CUmemAllocationHandleType shHandleType);
using cuMulticastCreate_t = CUresult(CUmemGenericAllocationHandle* mcHandle,
                                     const CUmulticastObjectProp* prop);
using cuMulticastAddDevice_t = CUresult(CUmemGenericAllocationHandle mcHandle, CUdevice dev);
using cuMulticastBindMem_t = CUresult(CUmemGenericAllocationHandle mcHandle, std::size_t mcOffset,
                                      CUmemGenericAllocationHandle memHandle, std::size_t memOffset,
                                      std::size_t size, unsigned long long flags);
using cuMulticastBindAddr_t = CUresult(CUmemGenericAllocationHandle mcHandle, std::size_t mcOffset,
                                       CUdeviceptr memptr, std::size_t size,
                                       unsigned long long flags);
using cuMulticastUnbind_t = CUresult(CUmemGenericAllocationHandle mcHandle, CUdevice dev,
                                     std::size_t mcOffset, std::size_t size);

// Arrays.
using cuArrayCreate_t = CUresult(CUarray* pHandle, const CUDA_ARRAY_DESCRIPTOR_v1* pAllocateArray);
using cuArrayCreate_v2_t = CUresult(CUarray* pHandle, const CUDA_ARRAY_DESCRIPTOR* pAllocateArray);
using cuArray3DCreate_t = CUresult(CUarray* pHandle,
                                   const CUDA_ARRAY3D_DESCRIPTOR_v1* pAllocateArray);
using cuArray3DCreate_v2_t = CUresult(CUarray* pHandle,
                                      const CUDA_ARRAY3D_DESCRIPTOR* pAllocateArray);
using cuArrayDestroy_t = CUresult(CUarray hArray);
using cuMipmappedArrayCreate_t = CUresult(CUmipmappedArray* pHandle,
                                          const CUDA_ARRAY3D_DESCRIPTOR* pMipmappedArrayDesc,
                                          unsigned int numMipmapLevels);
using cuMipmappedArrayDestroy_t = CUresult(CUmipmappedArray hMipmappedArray);

// Sharing between processes and interfaces.
using cuIpcOpenMemHandle_t = CUresult(CUdeviceptr* pdptr, CUipcMemHandle handle,
                                      unsigned int Flags);
using cuIpcOpenMemHandle_v2_t = cuIpcOpenMemHandle_t;
using cuIpcCloseMemHandle_t = CUresult(CUdeviceptr dptr);
using cuIpcGetMemHandle_t = CUresult(CUipcMemHandle* pHandle, CUdeviceptr dptr);
using cuImportExternalMemory_t = CUresult(CUexternalMemory* extMem_out,
                                          const CUDA_EXTERNAL_MEMORY_HANDLE_DESC* memHandleDesc);
using cuExternalMemoryGetMappedBuffer_t =
    CUresult(CUdeviceptr* devPtr, CUexternalMemory extMem,
             const CUDA_EXTERNAL_MEMORY_BUFFER_DESC* bufferDesc);
using cuExternalMemoryGetMappedMipmappedArray_t =
    CUresult(CUmipmappedArray* mipmap, CUexternalMemory extMem,
             const CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC* mipmapDesc);
using cuDestroyExternalMemory_t = CUresult(CUexternalMemory extMem);

// Graphics interoperability.
using cuGraphicsMapResources_t = CUresult(unsigned int count, CUgraphicsResource* resources,
                                          CUstream hStream);
using cuGraphicsUnmapResources_t = CUresult(unsigned int count, CUgraphicsResource* resources,
                                            CUstream hStream);
using cuGraphicsResourceGetMappedPointer_t = CUresult(CUdeviceptr_v1* pDevPtr, unsigned int* pSize,
                                                      CUgraphicsResource resource);
using cuGraphicsResourceGetMappedPointer_v2_t = CUresult(CUdeviceptr* pDevPtr, std::size_t* pSize,
                                                         CUgraphicsResource resource);

// Copies.
using cuMemcpy_t = CUresult(CUdeviceptr dst, CUdeviceptr src, std::size_t ByteCount);
using cuMemcpyPeer_t = CUresult(CUdeviceptr dstDevice, CUcontext dstContext, CUdeviceptr srcDevice,
                                CUcontext srcContext, std::size_t ByteCount);
using cuMemcpyHtoD_t = CUresult(CUdeviceptr_v1 dstDevice, const void* srcHost,
                                unsigned int ByteCount);
using cuMemcpyHtoD_v2_t = CUresult(CUdeviceptr dstDevice, const void* srcHost,
                                   std::size_t ByteCount);
using cuMemcpyDtoH_t = CUresult(void* dstHost, CUdeviceptr_v1 srcDevice, unsigned int ByteCount);
using cuMemcpyDtoH_v2_t = CUresult(void* dstHost, CUdeviceptr srcDevice, std::size_t ByteCount);
using cuMemcpyDtoD_t = CUresult(CUdeviceptr_v1 dstDevice, CUdeviceptr_v1 srcDevice,
                                unsigned int ByteCount);
using cuMemcpyDtoD_v2_t = CUresult(CUdeviceptr dstDevice, CUdeviceptr srcDevice,
                                   std::size_t ByteCount);
using cuMemcpyDtoA_t = CUresult(CUarray dstArray, unsigned int dstOffset, CUdeviceptr_v1 srcDevice,
                                unsigned int ByteCount);
using cuMemcpyDtoA_v2_t = CUresult(CUarray dstArray, std::size_t dstOffset, CUdeviceptr srcDevice,
                                   std::size_t ByteCount);
using cuMemcpyAtoD_t = CUresult(CUdeviceptr_v1 dstDevice, CUarray srcArray, unsigned int srcOffset,
                                unsigned int ByteCount);
using cuMemcpyAtoD_v2_t = CUresult(CUdeviceptr dstDevice, CUarray srcArray, std::size_t srcOffset,
                                   std::size_t ByteCount);
using cuMemcpyHtoA_t = CUresult(CUarray dstArray, unsigned int dstOffset, const void* srcHost,
                                unsigned int ByteCount);
using cuMemcpyHtoA_v2_t = CUresult(CUarray dstArray, std::size_t dstOffset, const void* srcHost,
                                   std::size_t ByteCount);
using cuMemcpyAtoH_t = CUresult(void* dstHost, CUarray srcArray, unsigned int srcOffset,
                                unsigned int ByteCount);
using cuMemcpyAtoH_v2_t = CUresult(void* dstHost, CUarray srcArray, std::size_t srcOffset,
                                   std::size_t ByteCount);
using cuMemcpyAtoA_t = CUresult(CUarray dstArray, unsigned int dstOffset, CUarray srcArray,
                                unsigned int srcOffset, unsigned int ByteCount);
using cuMemcpyAtoA_v2_t = CUresult(CUarray dstArray, std::size_t dstOffset, CUarray srcArray,
                                   std::size_t srcOffset, std::size_t ByteCount);
using cuMemcpyAsync_t = CUresult(CUdeviceptr dst, CUdeviceptr src, std::size_t ByteCount,
                                 CUstream hStream);
using cuMemcpyPeerAsync_t = CUresult(CUdeviceptr dstDevice, CUcontext dstContext,
                                     CUdeviceptr srcDevice, CUcontext srcContext,
                                     std::size_t ByteCount, CUstream hStream);
using cuMemcpyHtoDAsync_t = CUresult(CUdeviceptr_v1 dstDevice, const void* srcHost,
                                     unsigned int ByteCount, CUstream hStream);
using cuMemcpyHtoDAsync_v2_t = CUresult(CUdeviceptr dstDevice, const void* srcHost,
                                        std::size_t ByteCount, CUstream hStream);
using cuMemcpyDtoHAsync_t = CUresult(void* dstHost, CUdeviceptr_v1 srcDevice,
                                     unsigned int ByteCount, CUstream hStream);
using cuMemcpyDtoHAsync_v2_t = CUresult(void* dstHost, CUdeviceptr srcDevice, std::size_t ByteCount,
                                        CUstream hStream);
using cuMemcpyDtoDAsync_t = CUresult(CUdeviceptr_v1 dstDevice, CUdeviceptr_v1 srcDevice,
                                     unsigned int ByteCount, CUstream hStream);
using cuMemcpyDtoDAsync_v2_t = CUresult(CUdeviceptr dstDevice, CUdeviceptr srcDevice,
                                        std::size_t ByteCount, CUstream hStream);
using cuMemcpyHtoAAsync_t = CUresult(CUarray dstArray, unsigned int dstOffset, const void* srcHost,
                                     unsigned int ByteCount, CUstream hStream);
using cuMemcpyHtoAAsync_v2_t = CUresult(CUarray dstArray, std::size_t dstOffset,
                                        const void* srcHost, std::size_t ByteCount,
                                        CUstream hStream);
using cuMemcpyAtoHAsync_t = CUresult(void* dstHost, CUarray srcArray, unsigned int srcOffset,
                                     unsigned int ByteCount, CUstream hStream);
using cuMemcpyAtoHAsync_v2_t = CUresult(void* dstHost, CUarray srcArray, std::size_t srcOffset,
                                        std::size_t ByteCount, CUstream hStream);
using cuMemcpy2D_t = CUresult(const CUDA_MEMCPY2D_v1* pCopy);
using cuMemcpy2D_v2_t = CUresult(const CUDA_MEMCPY2D* pCopy);
using cuMemcpy2DUnaligned_t = CUresult(const CUDA_MEMCPY2D_v1* pCopy);
using cuMemcpy2DUnaligned_v2_t = CUresult(const CUDA_MEMCPY2D* pCopy);
using cuMemcpy3D_t = CUresult(const CUDA_MEMCPY3D_v1* pCopy);
using cuMemcpy3D_v2_t = CUresult(const CUDA_MEMCPY3D* pCopy);
using cuMemcpy3DPeer_t = CUresult(const CUDA_MEMCPY3D_PEER* pCopy);
using cuMemcpy2DAsync_t = CUresult(const CUDA_MEMCPY2D_v1* pCopy, CUstream hStream);
using cuMemcpy2DAsync_v2_t = CUresult(const CUDA_MEMCPY2D* pCopy, CUstream hStream);
using cuMemcpy3DAsync_t = CUresult(const CUDA_MEMCPY3D_v1* pCopy, CUstream hStream);
using cuMemcpy3DAsync_v2_t = CUresult(const CUDA_MEMCPY3D* pCopy, CUstream hStream);
using cuMemcpy3DPeerAsync_t = CUresult(const CUDA_MEMCPY3D_PEER* pCopy, CUstream hStream);
using cuMemcpyBatchAsync_t = CUresult(CUdeviceptr* dsts, CUdeviceptr* srcs, std::size_t* sizes,
                                      std::size_t count, CUmemcpyAttributes* attrs,
                                      std::size_t* attrsIdxs, std::size_t numAttrs,
                                      std::size_t* failIdx, CUstream hStream);
using cuMemcpyBatchAsync_v2_t = CUresult(CUdeviceptr* dsts, CUdeviceptr* srcs, std::size_t* sizes,
                                         std::size_t count, CUmemcpyAttributes* attrs,
                                         std::size_t* attrsIdxs, std::size_t numAttrs,
                                         CUstream hStream);
using cuMemcpy3DBatchAsync_t = CUresult(std::size_t numOps, CUDA_MEMCPY3D_BATCH_OP* opList,
                                        std::size_t* failIdx, unsigned long long flags,
                                        CUstream hStream);
using cuMemcpy3DBatchAsync_v2_t = CUresult(std::size_t numOps, CUDA_MEMCPY3D_BATCH_OP* opList,
                                           unsigned long long flags, CUstream hStream);

// Functions that set memory.
using cuMemsetD8_t = CUresult(CUdeviceptr_v1 dstDevice, unsigned char uc, unsigned int N);
using cuMemsetD8_v2_t = CUresult(CUdeviceptr dstDevice, unsigned char uc, std::size_t N);
using cuMemsetD16_t = CUresult(CUdeviceptr_v1 dstDevice, unsigned short us, unsigned int N);
using cuMemsetD16_v2_t = CUresult(CUdeviceptr dstDevice, unsigned short us, std::size_t N);
using cuMemsetD32_t = CUresult(CUdeviceptr_v1 dstDevice, unsigned int ui, unsigned int N);
using cuMemsetD32_v2_t = CUresult(CUdeviceptr dstDevice, unsigned int ui, std::size_t N);
using cuMemsetD2D8_t = CUresult(CUdeviceptr_v1 dstDevice, unsigned int dstPitch, unsigned char uc,
                                unsigned int Width, unsigned int Height);
using cuMemsetD2D8_v2_t = CUresult(CUdeviceptr dstDevice, std::size_t dstPitch, unsigned char uc,
                                   std::size_t Width, std::size_t Height);
using cuMemsetD2D16_t = CUresult(CUdeviceptr_v1 dstDevice, unsigned int dstPitch, unsigned short us,
                                 unsigned int Width, unsigned int Height);
using cuMemsetD2D16_v2_t = CUresult(CUdeviceptr dstDevice, std::size_t dstPitch, unsigned short us,
                                    std::size_t Width, std::size_t Height);
using cuMemsetD2D32_t = CUresult(CUdeviceptr_v1 dstDevice, unsigned int dstPitch, unsigned int ui,
                                 unsigned int Width, unsigned int Height);
using cuMemsetD2D32_v2_t = CUresult(CUdeviceptr dstDevice, std::size_t dstPitch, unsigned int ui,
                                    std::size_t Width, std::size_t Height);
using cuMemsetD8Async_t = CUresult(CUdeviceptr dstDevice, unsigned char uc, std::size_t N,
                                   CUstream hStream);
using cuMemsetD16Async_t = CUresult(CUdeviceptr dstDevice, unsigned short us, std::size_t N,
                                    CUstream hStream);
using cuMemsetD32Async_t = CUresult(CUdeviceptr dstDevice, unsigned int ui, std::size_t N,
                                    CUstream hStream);
using cuMemsetD2D8Async_t = CUresult(CUdeviceptr dstDevice, std::size_t dstPitch, unsigned char uc,
                                     std::size_t Width, std::size_t Height, CUstream hStream);
using cuMemsetD2D16Async_t = CUresult(CUdeviceptr dstDevice, std::size_t dstPitch,
                                      unsigned short us, std::size_t Width, std::size_t Height,
                                      CUstream hStream);
using cuMemsetD2D32Async_t = CUresult(CUdeviceptr dstDevice, std::size_t dstPitch, unsigned int ui,
                                      std::size_t Width, std::size_t Height, CUstream hStream);

// Decompression, and the placement of managed memory.
using cuMemBatchDecompressAsync_t = CUresult(CUmemDecompressParams* paramsArray, std::size_t count,
                                             unsigned int flags, std::size_t* errorIndex,
                                             CUstream stream);
using cuMemPrefetchAsync_t = CUresult(CUdeviceptr devPtr, std::size_t count, CUdevice dstDevice,
                                      CUstream hStream);
using cuMemPrefetchAsync_v2_t = CUresult(CUdeviceptr devPtr, std::size_t count,
                                         CUmemLocation location, unsigned int flags,
                                         CUstream hStream);
using cuMemPrefetchBatchAsync_t = CUresult(CUdeviceptr* dptrs, std::size_t* sizes,
                                           std::size_t count, CUmemLocation* prefetchLocs,
                                           std::size_t* prefetchLocIdxs,
                                           std::size_t numPrefetchLocs, unsigned long long flags,
                                           CUstream hStream);
using cuMemDiscardBatchAsync_t = CUresult(CUdeviceptr* dptrs, std::size_t* sizes, std::size_t count,
                                          unsigned long long flags, CUstream hStream);
using cuMemDiscardAndPrefetchBatchAsync_t = CUresult(CUdeviceptr* dptrs, std::size_t* sizes,
                                                     std::size_t count, CUmemLocation* prefetchLocs,
                                                     std::size_t* prefetchLocIdxs,
                                                     std::size_t numPrefetchLocs,
                                                     unsigned long long flags, CUstream hStream);
using cuMemAdvise_t = CUresult(CUdeviceptr devPtr, std::size_t count, CUmem_advise advice,
                               CUdevice device);
using cuMemAdvise_v2_t = CUresult(CUdeviceptr devPtr, std::size_t count, CUmem_advise advice,
                                  CUmemLocation location);
using cuStreamAttachMemAsync_t = CUresult(CUstream hStream, CUdeviceptr dptr, std::size_t length,
                                          unsigned int flags);
using cuMemRangeGetAttribute_t = CUresult(void* data, std::size_t dataSize,
                                          CUmem_range_attribute attribute, CUdeviceptr devPtr,
                                          std::size_t count);

// Graphs.
using cuGraphAddMemAllocNode_t = CUresult(CUgraphNode* phGraphNode, CUgraph hGraph,
                                          const CUgraphNode* dependencies,
                                          std::size_t numDependencies,
                                          CUDA_MEM_ALLOC_NODE_PARAMS* nodeParams);
using cuGraphAddMemFreeNode_t = CUresult(CUgraphNode* phGraphNode, CUgraph hGraph,
                                         const CUgraphNode* dependencies,
                                         std::size_t numDependencies, CUdeviceptr dptr);
using cuGraphAddNode_t = CUresult(CUgraphNode* phGraphNode, CUgraph hGraph,
                                  const CUgraphNode* dependencies, std::size_t numDependencies,
                                  CUgraphNodeParams* nodeParams);
using cuGraphAddNode_v2_t = CUresult(CUgraphNode* phGraphNode, CUgraph hGraph,
                                     const CUgraphNode* dependencies,
                                     const CUgraphEdgeData* dependencyData,
                                     std::size_t numDependencies, CUgraphNodeParams* nodeParams);
using cuDeviceGraphMemTrim_t = CUresult(CUdevice device);
using cuGraphAddMemcpyNode_t = CUresult(CUgraphNode* phGraphNode, CUgraph hGraph,
                                        const CUgraphNode* dependencies,
                                        std::size_t numDependencies,
                                        const CUDA_MEMCPY3D* copyParams, CUcontext ctx);
using cuGraphAddMemsetNode_t = CUresult(CUgraphNode* phGraphNode, CUgraph hGraph,
                                        const CUgraphNode* dependencies,
                                        std::size_t numDependencies,
                                        const CUDA_MEMSET_NODE_PARAMS* memsetParams, CUcontext ctx);
using cuGraphMemcpyNodeSetParams_t = CUresult(CUgraphNode hNode, const CUDA_MEMCPY3D* nodeParams);
using cuGraphMemsetNodeSetParams_t = CUresult(CUgraphNode hNode,
                                              const CUDA_MEMSET_NODE_PARAMS* nodeParams);
using cuGraphExecMemcpyNodeSetParams_t = CUresult(CUgraphExec hGraphExec, CUgraphNode hNode,
                                                  const CUDA_MEMCPY3D* copyParams, CUcontext ctx);
using cuGraphExecMemsetNodeSetParams_t = CUresult(CUgraphExec hGraphExec, CUgraphNode hNode,
                                                  const CUDA_MEMSET_NODE_PARAMS* memsetParams,
                                                  CUcontext ctx);
using cuGraphInstantiate_t = CUresult(CUgraphExec* phGraphExec, CUgraph hGraph,
                                      CUgraphNode* phErrorNode, char* logBuffer,
                                      std::size_t bufferSize);
using cuGraphInstantiate_v2_t = cuGraphInstantiate_t;
using cuGraphInstantiateWithFlags_t = CUresult(CUgraphExec* phGraphExec, CUgraph hGraph,
                                               unsigned long long flags);
using cuGraphInstantiateWithParams_t = CUresult(CUgraphExec* phGraphExec, CUgraph hGraph,
                                                CUDA_GRAPH_INSTANTIATE_PARAMS* instantiateParams);
using cuGraphLaunch_t = CUresult(CUgraphExec hGraph, CUstream hStream);
using cuGraphExecDestroy_t = CUresult(CUgraphExec hGraphExec);
using cuGraphDestroy_t = CUresult(CUgraph hGraph);
using cuGraphUpload_t = CUresult(CUgraphExec hGraph, CUstream hStream);
using cuStreamBeginCaptureToGraph_t = CUresult(CUstream hStream, CUgraph hGraph,
                                               const CUgraphNode* dependencies,
                                               const CUgraphEdgeData* dependencyData,
                                               std::size_t numDependencies,
                                               CUstreamCaptureMode mode);
using cuGraphClone_t = CUresult(CUgraph* phGraphClone, CUgraph originalGraph);

// Streams, events and capture.
using cuStreamBeginCapture_t = CUresult(CUstream hStream);
using cuStreamBeginCapture_v2_t = CUresult(CUstream hStream, CUstreamCaptureMode mode);
using cuStreamEndCapture_t = CUresult(CUstream hStream, CUgraph* phGraph);
using cuStreamBatchMemOp_t = CUresult(CUstream stream, unsigned int count,
                                      CUstreamBatchMemOpParams* paramArray, unsigned int flags);
using cuStreamBatchMemOp_v2_t = cuStreamBatchMemOp_t;
using cuStreamWriteValue32_t = CUresult(CUstream stream, CUdeviceptr addr, std::uint32_t value,
                                        unsigned int flags);
using cuStreamWriteValue32_v2_t = cuStreamWriteValue32_t;
using cuStreamWriteValue64_t = CUresult(CUstream stream, CUdeviceptr addr, std::uint64_t value,
                                        unsigned int flags);
using cuStreamWriteValue64_v2_t = cuStreamWriteValue64_t;
using cuStreamCreate_t = CUresult(CUstream* phStream, unsigned int Flags);
using cuStreamCreateWithPriority_t = CUresult(CUstream* phStream, unsigned int flags, int priority);
using cuStreamGetCtx_t = CUresult(CUstream hStream, CUcontext* pctx);
using cuEventCreate_t = CUresult(CUevent* phEvent, unsigned int Flags);
using cuEventRecord_t = CUresult(CUevent hEvent, CUstream hStream);
using cuEventQuery_t = CUresult(CUevent hEvent);
using cuStreamIsCapturing_t = CUresult(CUstream hStream, CUstreamCaptureStatus* captureStatus);
using cuStreamIsCapturing_ptsz_t = cuStreamIsCapturing_t;
using cuThreadExchangeStreamCaptureMode_t = CUresult(CUstreamCaptureMode* mode);

// Modules and launches.
using cuModuleLoad_t = CUresult(CUmodule* module, const char* fname);
using cuModuleLoadData_t = CUresult(CUmodule* module, const void* image);
using cuModuleLoadDataEx_t = CUresult(CUmodule* module, const void* image, unsigned int numOptions,
                                      CUjit_option* options, void** optionValues);
using cuModuleLoadFatBinary_t = CUresult(CUmodule* module, const void* fatCubin);
using cuModuleUnload_t = CUresult(CUmodule hmod);
using cuLibraryLoadData_t = CUresult(CUlibrary* library, const void* code, CUjit_option* jitOptions,
                                     void** jitOptionsValues, unsigned int numJitOptions,
                                     CUlibraryOption* libraryOptions, void** libraryOptionValues,
                                     unsigned int numLibraryOptions);
using cuLibraryLoadFromFile_t = CUresult(CUlibrary* library, const char* fileName,
                                         CUjit_option* jitOptions, void** jitOptionsValues,
                                         unsigned int numJitOptions,
                                         CUlibraryOption* libraryOptions,
                                         void** libraryOptionValues,
                                         unsigned int numLibraryOptions);
using cuLibraryUnload_t = CUresult(CUlibrary library);

// The variants for the default stream of each thread have the types of the functions themselves.
#define GPUMEMTRACE_API(symbol, ...)
#define GPUMEMTRACE_API_AND_PTSZ(symbol, ...) using symbol##_ptsz_t = symbol##_t;
#define GPUMEMTRACE_API_AND_PTDS(symbol, ...) using symbol##_ptds_t = symbol##_t;
#include "preload/driver/apis.def"

}  // namespace gpumemtrace::cuda_abi
