// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "preload/driver/cuda_enums.hpp"

// The handles and structures of the CUDA driver ABI that tracing needs, 64-bit Linux only. A name
// that ends in _v1 is the 32-bit layout of CUDA 2.0, which every driver still exports.
// tests/unit/cuda_abi_check.cpp compares sizes and offsets with cuda.h if a toolkit is present.

namespace gpumemtrace::cuda_abi {

using CUdeviceptr = std::uint64_t;
using CUdeviceptr_v1 = std::uint32_t;
using CUdevice = int;
using CUmemGenericAllocationHandle = std::uint64_t;

using CUstream = struct CUstream_st*;
using CUevent = struct CUevent_st*;
using CUmemoryPool = struct CUmemPoolHandle_st*;
using CUmipmappedArray = struct CUmipmappedArray_st*;
using CUarray = struct CUarray_st*;
using CUexternalMemory = struct CUextMemory_st*;
using CUgraphicsResource = struct CUgraphicsResource_st*;
using CUgraphNode = struct CUgraphNode_st*;
using CUgraph = struct CUgraph_st*;
using CUfunction = struct CUfunc_st*;
using CUkernel = struct CUkern_st*;
using CUcontext = struct CUctx_st*;
using CUgraphExec = struct CUgraphExec_st*;
using CUmodule = struct CUmod_st*;
using CUlibrary = struct CUlib_st*;
using CUgreenCtx = struct CUgreenCtx_st*;
using CUdevResourceDesc = struct CUdevResourceDesc_st*;

// These types are only passed through, so their layout is of no interest.
enum CUjit_option : int;
enum CUlibraryOption : int;
enum CUmem_advise : int;
union CUstreamBatchMemOpParams;
struct CUarrayMapInfo;
struct CUmemAccessDesc;
struct CUmemPoolPtrExportData;
struct CUmemcpyAttributes;
struct CUgraphEdgeData;
struct CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC;
struct CUDA_GRAPH_INSTANTIATE_PARAMS;
struct CUexecAffinityParam;
struct CUctxCreateParams;
struct CUcheckpointCheckpointArgs;
struct CUcheckpointRestoreArgs;

inline constexpr CUdevice CU_DEVICE_CPU = -1;

// The values of a CUstream argument that name a default stream, which exists without being created.
inline constexpr std::uintptr_t CU_STREAM_LEGACY = 1;
inline constexpr std::uintptr_t CU_STREAM_PER_THREAD = 2;

inline constexpr unsigned int CU_MEMHOSTALLOC_PORTABLE = 0x1;
inline constexpr unsigned int CU_MEMHOSTALLOC_DEVICEMAP = 0x2;
inline constexpr unsigned int CU_MEMHOSTALLOC_WRITECOMBINED = 0x4;
inline constexpr unsigned int CU_MEMHOSTREGISTER_PORTABLE = 0x1;

inline constexpr unsigned int CUDA_ARRAY3D_LAYERED = 0x1;
inline constexpr unsigned int CUDA_ARRAY3D_SPARSE = 0x40;
inline constexpr unsigned int CUDA_ARRAY3D_DEFERRED_MAPPING = 0x80;

struct CUmemLocation {
  CUmemLocationType type;
  int id;
};

struct CUmemAllocationProp {
  CUmemAllocationType type;
  CUmemAllocationHandleType requestedHandleTypes;
  CUmemLocation location;
  void* win32HandleMetaData;
  struct {
    unsigned char compressionType;
    unsigned char gpuDirectRDMACapable;
    unsigned short usage;
    unsigned char reserved[4];
  } allocFlags;
};

struct CUmulticastObjectProp {
  unsigned int numDevices;
  std::size_t size;
  unsigned long long handleTypes;
  unsigned long long flags;
};

struct CUmemPoolProps {
  CUmemAllocationType allocType;
  CUmemAllocationHandleType handleTypes;
  CUmemLocation location;
  void* win32SecurityAttributes;
  std::size_t maxSize;
  unsigned short usage;
  unsigned char reserved[54];
};

struct CUDA_ARRAY_DESCRIPTOR_v1 {
  unsigned int Width;
  unsigned int Height;
  CUarray_format Format;
  unsigned int NumChannels;
};

struct CUDA_ARRAY_DESCRIPTOR {
  std::size_t Width;
  std::size_t Height;
  CUarray_format Format;
  unsigned int NumChannels;
};

struct CUDA_ARRAY3D_DESCRIPTOR_v1 {
  unsigned int Width;
  unsigned int Height;
  unsigned int Depth;
  CUarray_format Format;
  unsigned int NumChannels;
  unsigned int Flags;
};

struct CUDA_ARRAY3D_DESCRIPTOR {
  std::size_t Width;
  std::size_t Height;
  std::size_t Depth;
  CUarray_format Format;
  unsigned int NumChannels;
  unsigned int Flags;
};

struct CUipcMemHandle {
  char reserved[64];
};

struct CUDA_EXTERNAL_MEMORY_HANDLE_DESC {
  CUexternalMemoryHandleType type;
  union {
    int fd;
    struct {
      void* handle;
      const void* name;
    } win32;
    const void* nvSciBufObject;
  } handle;
  unsigned long long size;
  unsigned int flags;
  unsigned int reserved[16];
};

struct CUDA_EXTERNAL_MEMORY_BUFFER_DESC {
  unsigned long long offset;
  unsigned long long size;
  unsigned int flags;
  unsigned int reserved[16];
};

struct CUDA_MEM_ALLOC_NODE_PARAMS {
  CUmemPoolProps poolProps;
  const CUmemAccessDesc* accessDescs;
  std::size_t accessDescCount;
  std::size_t bytesize;
  CUdeviceptr dptr;
};

struct CUDA_KERNEL_NODE_PARAMS_v3 {
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
  CUkernel kern;
  CUcontext ctx;
};

template <class Size, class Address>
struct Memcpy3D {
  Size srcXInBytes;
  Size srcY;
  Size srcZ;
  Size srcLOD;
  CUmemorytype srcMemoryType;
  const void* srcHost;
  Address srcDevice;
  CUarray srcArray;
  void* reserved0;
  Size srcPitch;
  Size srcHeight;
  Size dstXInBytes;
  Size dstY;
  Size dstZ;
  Size dstLOD;
  CUmemorytype dstMemoryType;
  void* dstHost;
  Address dstDevice;
  CUarray dstArray;
  void* reserved1;
  Size dstPitch;
  Size dstHeight;
  Size WidthInBytes;
  Size Height;
  Size Depth;
};
using CUDA_MEMCPY3D = Memcpy3D<std::size_t, CUdeviceptr>;
using CUDA_MEMCPY3D_v1 = Memcpy3D<unsigned int, CUdeviceptr_v1>;

struct CUDA_MEMCPY_NODE_PARAMS {
  int flags;
  int reserved;
  CUcontext copyCtx;
  CUDA_MEMCPY3D copyParams;
};

struct CUDA_MEMSET_NODE_PARAMS_v2 {
  CUdeviceptr dst;
  std::size_t pitch;
  unsigned int value;
  unsigned int elementSize;
  std::size_t width;
  std::size_t height;
  CUcontext ctx;
};

using CUDA_MEM_ALLOC_NODE_PARAMS_v2 = CUDA_MEM_ALLOC_NODE_PARAMS;

struct CUDA_MEM_FREE_NODE_PARAMS {
  CUdeviceptr dptr;
};

struct CUgraphNodeParams {
  CUgraphNodeType type;
  int reserved0[3];
  union {
    long long reserved1[29];
    CUDA_KERNEL_NODE_PARAMS_v3 kernel;
    CUDA_MEMCPY_NODE_PARAMS memcpy;
    CUDA_MEMSET_NODE_PARAMS_v2 memset;
    CUDA_MEM_ALLOC_NODE_PARAMS_v2 alloc;
    CUDA_MEM_FREE_NODE_PARAMS free;
  };
  long long reserved2;
};

struct CUDA_MEMSET_NODE_PARAMS {
  CUdeviceptr dst;
  std::size_t pitch;
  unsigned int value;
  unsigned int elementSize;
  std::size_t width;
  std::size_t height;
};

template <class Size, class Address>
struct Memcpy2D {
  Size srcXInBytes;
  Size srcY;
  CUmemorytype srcMemoryType;
  const void* srcHost;
  Address srcDevice;
  CUarray srcArray;
  Size srcPitch;
  Size dstXInBytes;
  Size dstY;
  CUmemorytype dstMemoryType;
  void* dstHost;
  Address dstDevice;
  CUarray dstArray;
  Size dstPitch;
  Size WidthInBytes;
  Size Height;
};
using CUDA_MEMCPY2D = Memcpy2D<std::size_t, CUdeviceptr>;
using CUDA_MEMCPY2D_v1 = Memcpy2D<unsigned int, CUdeviceptr_v1>;

struct CUDA_MEMCPY3D_PEER {
  std::size_t srcXInBytes;
  std::size_t srcY;
  std::size_t srcZ;
  std::size_t srcLOD;
  CUmemorytype srcMemoryType;
  const void* srcHost;
  CUdeviceptr srcDevice;
  CUarray srcArray;
  CUcontext srcContext;
  std::size_t srcPitch;
  std::size_t srcHeight;
  std::size_t dstXInBytes;
  std::size_t dstY;
  std::size_t dstZ;
  std::size_t dstLOD;
  CUmemorytype dstMemoryType;
  void* dstHost;
  CUdeviceptr dstDevice;
  CUarray dstArray;
  CUcontext dstContext;
  std::size_t dstPitch;
  std::size_t dstHeight;
  std::size_t WidthInBytes;
  std::size_t Height;
  std::size_t Depth;
};

struct CUoffset3D {
  std::size_t x;
  std::size_t y;
  std::size_t z;
};

struct CUmemcpy3DOperand {
  CUmemcpy3DOperandType type;
  union {
    struct {
      CUdeviceptr ptr;
      std::size_t rowLength;
      std::size_t layerHeight;
      CUmemLocation locHint;
    } ptr;
    struct {
      CUarray array;
      CUoffset3D offset;
    } array;
  } op;
};

struct CUextent3D {
  std::size_t width;
  std::size_t height;
  std::size_t depth;
};

struct CUDA_MEMCPY3D_BATCH_OP {
  CUmemcpy3DOperand src;
  CUmemcpy3DOperand dst;
  CUextent3D extent;
  CUmemcpySrcAccessOrder srcAccessOrder;
  unsigned int flags;
};

struct CUmemDecompressParams {
  std::size_t srcNumBytes;
  std::size_t dstNumBytes;
  std::uint32_t* dstActBytes;
  const void* src;
  void* dst;
  CUmemDecompressAlgorithm algo;
  unsigned char padding[20];
};

struct CUuuid {
  char bytes[16];
};

}  // namespace gpumemtrace::cuda_abi
