// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "preload/driver/cuda_abi.hpp"

// The types of all driver functions that the simulated driver exports and the tests call: those
// that the recorder wraps or calls (preload/driver/cuda_abi.hpp), and all others, in the same form.

namespace gpumemtrace::cuda_abi {

using CUhostFn = void (*)(void* userData);
using CUstreamCallback = void (*)(CUstream hStream, CUresult status, void* userData);
using CUDA_KERNEL_NODE_PARAMS = CUDA_KERNEL_NODE_PARAMS_v3;

// The simulated driver only passes these types through pointers, so it needs no layout of them.
enum CUfunction_attribute : int;
enum CUdevResourceType : int;
struct CUcheckpointLockArgs;
struct CUcheckpointUnlockArgs;
struct CUlaunchAttribute;
struct CUgraphExecUpdateResultInfo;
struct CUdevResource;

enum CUmemAccess_flags : int {
  CU_MEM_ACCESS_FLAGS_PROT_NONE = 0,
  CU_MEM_ACCESS_FLAGS_PROT_READWRITE = 3,
};

enum CUgraphInstantiateResult : int {
  CUDA_GRAPH_INSTANTIATE_SUCCESS = 0,
};

enum CUmem_advise : int {
  CU_MEM_ADVISE_SET_READ_MOSTLY = 1,
  CU_MEM_ADVISE_UNSET_READ_MOSTLY = 2,
};

struct CUmemAccessDesc {
  CUmemLocation location;
  CUmemAccess_flags flags;
};

struct CUmemPoolPtrExportData {
  unsigned char reserved[64];
};

struct CUgraphEdgeData {
  unsigned char from_port;
  unsigned char to_port;
  unsigned char type;
  unsigned char reserved[5];
};

struct CUDA_GRAPH_INSTANTIATE_PARAMS {
  std::uint64_t flags;
  CUstream hUploadStream;
  CUgraphNode hErrNode_out;
  CUgraphInstantiateResult result_out;
};

struct CUmemcpyAttributes {
  CUmemcpySrcAccessOrder srcAccessOrder;
  CUmemLocation srcLocHint;
  CUmemLocation dstLocHint;
  unsigned int flags;
};

struct CUDA_ARRAY_MEMORY_REQUIREMENTS {
  std::size_t size;
  std::size_t alignment;
  unsigned int reserved[4];
};

struct CUlaunchConfig {
  unsigned int gridDimX;
  unsigned int gridDimY;
  unsigned int gridDimZ;
  unsigned int blockDimX;
  unsigned int blockDimY;
  unsigned int blockDimZ;
  unsigned int sharedMemBytes;
  CUstream hStream;
  CUlaunchAttribute* attrs;
  unsigned int numAttrs;
};

struct CUDA_KERNEL_NODE_PARAMS_v1 {
  CUfunction func;
  unsigned int gridDimX;
  unsigned int gridDimY;
  unsigned int gridDimZ;
  unsigned int blockDimX;
  unsigned int blockDimY;
  unsigned int blockDimZ;
  unsigned int sharedMemBytes;
  void** kernelParams;
  void** extra;
};

struct CUDA_POINTER_ATTRIBUTE_P2P_TOKENS {
  unsigned long long p2pToken;
  unsigned int vaSpaceToken;
};

enum CUpointer_attribute : int {
  CU_POINTER_ATTRIBUTE_CONTEXT = 1,
  CU_POINTER_ATTRIBUTE_MEMORY_TYPE = 2,
  CU_POINTER_ATTRIBUTE_DEVICE_POINTER = 3,
  CU_POINTER_ATTRIBUTE_HOST_POINTER = 4,
  CU_POINTER_ATTRIBUTE_SYNC_MEMOPS = 6,
  CU_POINTER_ATTRIBUTE_BUFFER_ID = 7,
  CU_POINTER_ATTRIBUTE_IS_MANAGED = 8,
  CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL = 9,
  CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE = 10,
  CU_POINTER_ATTRIBUTE_RANGE_START_ADDR = 11,
  CU_POINTER_ATTRIBUTE_RANGE_SIZE = 12,
  CU_POINTER_ATTRIBUTE_MAPPED = 13,
  CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE = 17,
};

enum CUgraphMem_attribute : int {
  CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT = 0,
  CU_GRAPH_MEM_ATTR_USED_MEM_HIGH = 1,
  CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT = 2,
  CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH = 3,
};

enum CUmemAllocationGranularity_flags : int {
  CU_MEM_ALLOC_GRANULARITY_MINIMUM = 0,
};

enum CUgraphExecUpdateResult : int {};

enum CUstream_flags : int {
  CU_STREAM_DEFAULT = 0,
  CU_STREAM_NON_BLOCKING = 1,
};

enum CUmemAttach_flags : int {
  CU_MEM_ATTACH_GLOBAL = 1,
  CU_MEM_ATTACH_HOST = 2,
  CU_MEM_ATTACH_SINGLE = 4,
};

enum CUipcMem_flags : int {
  CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS = 1,
};

enum CUgraphInstantiate_flags : int {
  CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH = 1,
};

enum CUdriverProcAddress_flags : int {
  CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM = 2,
};

// Types of driver functions: start-up and resolution of symbols.
using cuGetExportTable_t = CUresult(const void** ppExportTable, const CUuuid* pExportTableId);
using cuCheckpointProcessLock_t = CUresult(int pid, CUcheckpointLockArgs* args);
using cuCheckpointProcessUnlock_t = CUresult(int pid, CUcheckpointUnlockArgs* args);
using cuGetErrorName_t = CUresult(CUresult error, const char** pStr);
using cuGetErrorString_t = CUresult(CUresult error, const char** pStr);

// Types of driver functions: devices.
using cuDeviceGet_t = CUresult(CUdevice* device, int ordinal);
using cuDeviceTotalMem_t = CUresult(unsigned int* bytes, CUdevice dev);
using cuDeviceGetByPCIBusId_t = CUresult(CUdevice* dev, const char* pciBusId);
using cuDeviceComputeCapability_t = CUresult(int* major, int* minor, CUdevice dev);
using cuDeviceCanAccessPeer_t = CUresult(int* canAccessPeer, CUdevice dev, CUdevice peerDev);

// Types of driver functions: contexts.
using cuDevicePrimaryCtxSetFlags_t = CUresult(CUdevice dev, unsigned int flags);
using cuDevicePrimaryCtxSetFlags_v2_t = CUresult(CUdevice dev, unsigned int flags);
using cuCtxGetDevice_v2_t = CUresult(CUdevice* device, CUcontext ctx);
using cuCtxSynchronize_t = CUresult();
using cuCtxSynchronize_v2_t = CUresult(CUcontext ctx);
using cuCtxGetFlags_t = CUresult(unsigned int* flags);
using cuCtxGetApiVersion_t = CUresult(CUcontext ctx, unsigned int* version);
using cuCtxAttach_t = CUresult(CUcontext* pctx, unsigned int flags);
using cuCtxDetach_t = CUresult(CUcontext ctx);
using cuCtxGetId_t = CUresult(CUcontext ctx, unsigned long long* ctxId);
using cuCtxGetStreamPriorityRange_t = CUresult(int* leastPriority, int* greatestPriority);
using cuGreenCtxStreamCreate_t = CUresult(CUstream* phStream, CUgreenCtx greenCtx,
                                          unsigned int flags, int priority);
using cuDeviceGetDevResource_t = CUresult(CUdevice device, CUdevResource* resource,
                                          CUdevResourceType type);
using cuDevResourceGenerateDesc_t = CUresult(CUdevResourceDesc* phDesc, CUdevResource* resources,
                                             unsigned int nbResources);

// Types of driver functions: device, managed and host memory.
using cuMemGetInfo_t = CUresult(unsigned int* free, unsigned int* total);
using cuMemGetAddressRange_t = CUresult(CUdeviceptr_v1* pbase, unsigned int* psize,
                                        CUdeviceptr_v1 dptr);
using cuPointerGetAttribute_t = CUresult(void* data, CUpointer_attribute attribute,
                                         CUdeviceptr ptr);
using cuPointerGetAttributes_t = CUresult(unsigned int numAttributes,
                                          CUpointer_attribute* attributes, void** data,
                                          CUdeviceptr ptr);
using cuPointerSetAttribute_t = CUresult(const void* value, CUpointer_attribute attribute,
                                         CUdeviceptr ptr);
using cuMemHostGetDevicePointer_t = CUresult(CUdeviceptr_v1* pdptr, void* p, unsigned int Flags);
using cuMemHostGetDevicePointer_v2_t = CUresult(CUdeviceptr* pdptr, void* p, unsigned int Flags);
using cuMemHostGetFlags_t = CUresult(unsigned int* pFlags, void* p);

// Types of driver functions: stream-ordered memory and pools.
using cuMemPoolGetAccess_t = CUresult(CUmemAccess_flags* flags, CUmemoryPool memPool,
                                      CUmemLocation* location);
using cuMemGetDefaultMemPool_t = CUresult(CUmemoryPool* pool_out, CUmemLocation* location,
                                          CUmemAllocationType type);
using cuMemGetMemPool_t = CUresult(CUmemoryPool* pool, CUmemLocation* location,
                                   CUmemAllocationType type);

// Types of driver functions: virtual memory management.
using cuMemGetAllocationGranularity_t = CUresult(std::size_t* granularity,
                                                 const CUmemAllocationProp* prop,
                                                 CUmemAllocationGranularity_flags option);
using cuMemGetAccess_t = CUresult(unsigned long long* flags, const CUmemLocation* location,
                                  CUdeviceptr ptr);
using cuMemGetAllocationPropertiesFromHandle_t = CUresult(CUmemAllocationProp* prop,
                                                          CUmemGenericAllocationHandle handle);
using cuMulticastGetGranularity_t = CUresult(std::size_t* granularity,
                                             const CUmulticastObjectProp* prop,
                                             CUmulticastGranularity_flags option);

// Types of driver functions: arrays.
using cuArrayGetDescriptor_t = CUresult(CUDA_ARRAY_DESCRIPTOR_v1* pArrayDescriptor, CUarray hArray);
using cuArrayGetDescriptor_v2_t = CUresult(CUDA_ARRAY_DESCRIPTOR* pArrayDescriptor, CUarray hArray);
using cuArray3DGetDescriptor_t = CUresult(CUDA_ARRAY3D_DESCRIPTOR_v1* pArrayDescriptor,
                                          CUarray hArray);
using cuArray3DGetDescriptor_v2_t = CUresult(CUDA_ARRAY3D_DESCRIPTOR* pArrayDescriptor,
                                             CUarray hArray);
using cuArrayGetMemoryRequirements_t = CUresult(CUDA_ARRAY_MEMORY_REQUIREMENTS* memoryRequirements,
                                                CUarray array, CUdevice device);
using cuMipmappedArrayGetLevel_t = CUresult(CUarray* pLevelArray, CUmipmappedArray hMipmappedArray,
                                            unsigned int level);
using cuMipmappedArrayGetMemoryRequirements_t = CUresult(
    CUDA_ARRAY_MEMORY_REQUIREMENTS* memoryRequirements, CUmipmappedArray mipmap, CUdevice device);

// Types of driver functions: graphics interoperability.
using cuGraphicsSubResourceGetMappedArray_t = CUresult(CUarray* pArray, CUgraphicsResource resource,
                                                       unsigned int arrayIndex,
                                                       unsigned int mipLevel);
using cuGraphicsResourceGetMappedMipmappedArray_t = CUresult(CUmipmappedArray* pMipmappedArray,
                                                             CUgraphicsResource resource);
using cuGraphicsUnregisterResource_t = CUresult(CUgraphicsResource resource);

// Types of driver functions: placement of managed memory and batches of it.
using cuMemRangeGetAttributes_t = CUresult(void** data, std::size_t* dataSizes,
                                           CUmem_range_attribute* attributes,
                                           std::size_t numAttributes, CUdeviceptr devPtr,
                                           std::size_t count);

// Types of driver functions: graphs.
using cuDeviceGetGraphMemAttribute_t = CUresult(CUdevice device, CUgraphMem_attribute attr,
                                                void* value);
using cuDeviceSetGraphMemAttribute_t = CUresult(CUdevice device, CUgraphMem_attribute attr,
                                                void* value);
using cuGraphCreate_t = CUresult(CUgraph* phGraph, unsigned int flags);
using cuGraphAddKernelNode_t = CUresult(CUgraphNode* phGraphNode, CUgraph hGraph,
                                        const CUgraphNode* dependencies,
                                        std::size_t numDependencies,
                                        const CUDA_KERNEL_NODE_PARAMS_v1* nodeParams);
using cuGraphAddKernelNode_v2_t = CUresult(CUgraphNode* phGraphNode, CUgraph hGraph,
                                           const CUgraphNode* dependencies,
                                           std::size_t numDependencies,
                                           const CUDA_KERNEL_NODE_PARAMS* nodeParams);
using cuGraphAddEmptyNode_t = CUresult(CUgraphNode* phGraphNode, CUgraph hGraph,
                                       const CUgraphNode* dependencies,
                                       std::size_t numDependencies);
using cuGraphGetNodes_t = CUresult(CUgraph hGraph, CUgraphNode* nodes, std::size_t* numNodes);
using cuGraphNodeGetType_t = CUresult(CUgraphNode hNode, CUgraphNodeType* type);
using cuGraphMemAllocNodeGetParams_t = CUresult(CUgraphNode hNode,
                                                CUDA_MEM_ALLOC_NODE_PARAMS* params_out);
using cuGraphMemFreeNodeGetParams_t = CUresult(CUgraphNode hNode, CUdeviceptr* dptr_out);
using cuGraphExecUpdate_t = CUresult(CUgraphExec hGraphExec, CUgraph hGraph,
                                     CUgraphNode* hErrorNode_out,
                                     CUgraphExecUpdateResult* updateResult_out);
using cuGraphExecUpdate_v2_t = CUresult(CUgraphExec hGraphExec, CUgraph hGraph,
                                        CUgraphExecUpdateResultInfo* resultInfo);

// Types of driver functions: streams, events and capture.
using cuStreamDestroy_t = CUresult(CUstream hStream);
using cuStreamDestroy_v2_t = CUresult(CUstream hStream);
using cuStreamSynchronize_t = CUresult(CUstream hStream);
using cuStreamSynchronize_ptsz_t = cuStreamSynchronize_t;
using cuStreamQuery_t = CUresult(CUstream hStream);
using cuStreamQuery_ptsz_t = cuStreamQuery_t;
using cuStreamWaitEvent_t = CUresult(CUstream hStream, CUevent hEvent, unsigned int Flags);
using cuStreamWaitEvent_ptsz_t = cuStreamWaitEvent_t;
using cuStreamGetCtx_ptsz_t = cuStreamGetCtx_t;
using cuStreamGetCtx_v2_t = CUresult(CUstream hStream, CUcontext* pCtx, CUgreenCtx* pGreenCtx);
using cuStreamGetCtx_v2_ptsz_t = cuStreamGetCtx_v2_t;
using cuStreamGetPriority_t = CUresult(CUstream hStream, int* priority);
using cuStreamGetPriority_ptsz_t = cuStreamGetPriority_t;
using cuStreamGetFlags_t = CUresult(CUstream hStream, unsigned int* flags);
using cuStreamGetFlags_ptsz_t = cuStreamGetFlags_t;
using cuStreamGetCaptureInfo_t = CUresult(CUstream hStream,
                                          CUstreamCaptureStatus* captureStatus_out,
                                          std::uint64_t* id_out);
using cuStreamGetCaptureInfo_ptsz_t = cuStreamGetCaptureInfo_t;
using cuStreamGetCaptureInfo_v2_t = CUresult(CUstream hStream,
                                             CUstreamCaptureStatus* captureStatus_out,
                                             std::uint64_t* id_out, CUgraph* graph_out,
                                             const CUgraphNode** dependencies_out,
                                             std::size_t* numDependencies_out);
using cuStreamGetCaptureInfo_v2_ptsz_t = cuStreamGetCaptureInfo_v2_t;
using cuStreamGetCaptureInfo_v3_t = CUresult(CUstream hStream,
                                             CUstreamCaptureStatus* captureStatus_out,
                                             std::uint64_t* id_out, CUgraph* graph_out,
                                             const CUgraphNode** dependencies_out,
                                             const CUgraphEdgeData** edgeData_out,
                                             std::size_t* numDependencies_out);
using cuStreamGetCaptureInfo_v3_ptsz_t = cuStreamGetCaptureInfo_v3_t;
using cuStreamAddCallback_t = CUresult(CUstream hStream, CUstreamCallback callback, void* userData,
                                       unsigned int flags);
using cuStreamAddCallback_ptsz_t = cuStreamAddCallback_t;
using cuStreamGetId_t = CUresult(CUstream hStream, unsigned long long* streamId);
using cuStreamGetId_ptsz_t = cuStreamGetId_t;
using cuStreamGetDevice_t = CUresult(CUstream hStream, CUdevice* device);
using cuStreamGetDevice_ptsz_t = cuStreamGetDevice_t;
using cuEventDestroy_t = CUresult(CUevent hEvent);
using cuEventDestroy_v2_t = CUresult(CUevent hEvent);
using cuEventRecordWithFlags_t = CUresult(CUevent hEvent, CUstream hStream, unsigned int flags);
using cuEventRecordWithFlags_ptsz_t = cuEventRecordWithFlags_t;
using cuEventSynchronize_t = CUresult(CUevent hEvent);
using cuEventElapsedTime_t = CUresult(float* pMilliseconds, CUevent hStart, CUevent hEnd);
using cuEventElapsedTime_v2_t = CUresult(float* pMilliseconds, CUevent hStart, CUevent hEnd);

// Types of driver functions: modules and launches.
using cuModuleGetGlobal_t = CUresult(CUdeviceptr_v1* dptr, unsigned int* bytes, CUmodule hmod,
                                     const char* name);
using cuModuleGetGlobal_v2_t = CUresult(CUdeviceptr* dptr, std::size_t* bytes, CUmodule hmod,
                                        const char* name);
using cuLibraryGetGlobal_t = CUresult(CUdeviceptr* dptr, std::size_t* bytes, CUlibrary library,
                                      const char* name);
using cuLibraryGetManaged_t = CUresult(CUdeviceptr* dptr, std::size_t* bytes, CUlibrary library,
                                       const char* name);
using cuLaunchKernel_t = CUresult(CUfunction f, unsigned int gridDimX, unsigned int gridDimY,
                                  unsigned int gridDimZ, unsigned int blockDimX,
                                  unsigned int blockDimY, unsigned int blockDimZ,
                                  unsigned int sharedMemBytes, CUstream hStream,
                                  void** kernelParams, void** extra);
using cuLaunchKernel_ptsz_t = cuLaunchKernel_t;
using cuLaunchKernelEx_t = CUresult(const CUlaunchConfig* config, CUfunction f, void** kernelParams,
                                    void** extra);
using cuLaunchKernelEx_ptsz_t = cuLaunchKernelEx_t;
using cuLaunchCooperativeKernel_t = CUresult(CUfunction f, unsigned int gridDimX,
                                             unsigned int gridDimY, unsigned int gridDimZ,
                                             unsigned int blockDimX, unsigned int blockDimY,
                                             unsigned int blockDimZ, unsigned int sharedMemBytes,
                                             CUstream hStream, void** kernelParams);
using cuLaunchCooperativeKernel_ptsz_t = cuLaunchCooperativeKernel_t;
using cuLaunchHostFunc_t = CUresult(CUstream hStream, CUhostFn fn, void* userData);
using cuLaunchHostFunc_ptsz_t = cuLaunchHostFunc_t;
using cuFuncGetAttribute_t = CUresult(int* pi, CUfunction_attribute attrib, CUfunction hfunc);
using cuFuncGetParamInfo_t = CUresult(CUfunction func, std::size_t paramIndex,
                                      std::size_t* paramOffset, std::size_t* paramSize);
using cuKernelGetParamInfo_t = CUresult(CUkernel kernel, std::size_t paramIndex,
                                        std::size_t* paramOffset, std::size_t* paramSize);
using cuKernelGetFunction_t = CUresult(CUfunction* pFunc, CUkernel kernel);
using cuModuleGetFunction_t = CUresult(CUfunction* hfunc, CUmodule hmod, const char* name);
using cuLibraryGetKernel_t = CUresult(CUkernel* pKernel, CUlibrary library, const char* name);

}  // namespace gpumemtrace::cuda_abi
