// SPDX-License-Identifier: Apache-2.0
// Effects that need more than one line: those that read structs passed by pointer.
#include "preload/effects/allocations.hpp"
#include "preload/effects/graphs.hpp"
#include "preload/effects/other_calls.hpp"

namespace gpumemtrace::preload::effects {

// Bytes of an element by its format and number of channels; packed and block formats count as one
// byte a channel.
std::uint64_t element_bytes(CUarray_format format, unsigned int channels) noexcept {
  switch (format) {
    case CU_AD_FORMAT_UNSIGNED_INT16:
    case CU_AD_FORMAT_SIGNED_INT16:
    case CU_AD_FORMAT_HALF:
      return 2ull * channels;
    case CU_AD_FORMAT_UNSIGNED_INT32:
    case CU_AD_FORMAT_SIGNED_INT32:
    case CU_AD_FORMAT_FLOAT:
      return 4ull * channels;
    default:
      return channels;
  }
}

void AllocatesMipmappedArray::before(Record& record, CUmipmappedArray*,
                                     const CUDA_ARRAY3D_DESCRIPTOR* descriptor,
                                     unsigned int levels) noexcept {
  record.memory = trace::MemoryKind::kMipmappedArray;
  record.call.record.flags |= trace::kFlagEstimated;
  if (descriptor == nullptr) return;
  CUDA_ARRAY3D_DESCRIPTOR level = *descriptor;
  for (unsigned int i = 0; i < levels && i < 64; ++i) {
    record.bytes += array_bytes(level);
    const auto halve = [](std::size_t extent) { return extent > 1 ? extent / 2 : extent; };
    level.Width = halve(level.Width);
    level.Height = halve(level.Height);
    if ((level.Flags & CUDA_ARRAY3D_LAYERED) == 0) level.Depth = halve(level.Depth);
  }
}

void CreatesPhysical::before(Record& record, CUmemGenericAllocationHandle*, std::size_t bytes,
                             const CUmemAllocationProp* properties, unsigned long long) noexcept {
  record.memory = trace::MemoryKind::kPhysical;
  record.bytes = bytes;
  if (properties == nullptr) return;
  if (properties->location.type == CU_MEM_LOCATION_TYPE_DEVICE) {
    record.location = properties->location.id;
  } else {
    record.memory = trace::MemoryKind::kPhysicalHost;
  }
}

void SetsPoolAttribute::before(Record& record, CUmemoryPool pool, CUmemPool_attribute attribute,
                               void* value) noexcept {
  record.operation = trace::PoolOperation::kSetAttribute;
  record.pool = bits(pool);
  record.attribute = static_cast<std::uint32_t>(attribute);
  if (value == nullptr) return;
  const bool is_flag = attribute == CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES ||
                       attribute == CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC ||
                       attribute == CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES;
  if (is_flag) {
    record.value = static_cast<std::uint64_t>(*static_cast<const int*>(value));
  } else {
    record.value = *static_cast<const std::uint64_t*>(value);
  }
}

void Decompresses::before(Record& record, CUmemDecompressParams* parameters, std::size_t count,
                          unsigned int, std::size_t*, CUstream stream) noexcept {
  record.operation = trace::RangeOperation::kDecompress;
  record.stream = bits(stream);
  if (parameters == nullptr) return;
  if (count > 0) record.address = bits(parameters[0].dst);
  for (std::size_t i = 0; i < count; ++i) record.bytes += parameters[i].dstNumBytes;
}

template <int kParameters>
void AddsGraphNode<kParameters>::describe(Record& record,
                                          const CUgraphNodeParams* parameters) noexcept {
  record.operation = trace::GraphOperation::kSetNode;
  if (parameters == nullptr) return;
  switch (parameters->type) {
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
      record.operation = trace::GraphOperation::kAddAllocation;
      record.address = parameters->alloc.dptr;
      record.bytes = parameters->alloc.bytesize;
      record.device = parameters->alloc.poolProps.location.id;
      break;
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
      record.operation = trace::GraphOperation::kAddFree;
      record.address = parameters->free.dptr;
      break;
    case CU_GRAPH_NODE_TYPE_MEMCPY:
      record.operation = trace::GraphOperation::kAddCopy;
      record.bytes = region_bytes(&parameters->memcpy.copyParams);
      break;
    case CU_GRAPH_NODE_TYPE_MEMSET:
      record.operation = trace::GraphOperation::kAddSet;
      record.address = parameters->memset.dst;
      record.bytes =
          parameters->memset.width * parameters->memset.height * parameters->memset.elementSize;
      break;
    default:
      break;
  }
}

template struct AddsGraphNode<4>;
template struct AddsGraphNode<5>;

std::uint64_t region_bytes(const CUDA_MEMCPY3D* copy) noexcept {
  return copy == nullptr ? 0 : copy->WidthInBytes * copy->Height * copy->Depth;
}

}  // namespace gpumemtrace::preload::effects
