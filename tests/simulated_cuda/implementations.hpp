// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "tests/simulated_cuda/cuda_abi.hpp"
#include "tests/simulated_cuda/state.hpp"

// The implementations of the exported driver functions: symbols that differ only in the meaning of
// stream 0 or in the width of integers share one. exports.inc says which symbol runs which
// function. All run under the driver's lock.

namespace gpumemtrace::cuda_abi::simulated {

// Functions of startup.cpp.
CUresult initialize(unsigned int flags);
CUresult driver_get_version(int* version);
CUresult get_error_name(CUresult error, const char** name);
CUresult get_export_table(const void** table, const CUuuid*);
CUresult get_proc_address(const char* name, void** function, int version, std::uint64_t flags,
                          CUdriverProcAddressQueryResult* status);
CUresult get_proc_address_v1(const char* name, void** function, int version, std::uint64_t flags);

// Functions of devices.cpp.
CUresult device_get(CUdevice* device, int ordinal);
CUresult device_get_count(int* count);
CUresult device_get_name(char* name, int length, CUdevice device);
CUresult device_get_uuid(CUuuid* uuid, CUdevice device);
CUresult device_total_mem(std::size_t* bytes, CUdevice device);
CUresult device_total_mem_v1(unsigned int* bytes, CUdevice device);
CUresult device_get_attribute(int* value, CUdevice_attribute attribute, CUdevice device);
CUresult device_get_pci_bus_id(char* text, int length, CUdevice device);
CUresult device_get_by_pci_bus_id(CUdevice* device, const char* text);
CUresult device_compute_capability(int* major, int* minor, CUdevice device);
CUresult device_can_access_peer(int* can_access, CUdevice device, CUdevice peer);

// Functions of contexts.cpp.
CUresult context_create(CUcontext* context, unsigned int flags, CUdevice ordinal);
CUresult context_create_with_affinity(CUcontext* context, CUexecAffinityParam*, int,
                                      unsigned int flags, CUdevice device);
CUresult context_create_with_parameters(CUcontext* context, CUctxCreateParams*, unsigned int flags,
                                        CUdevice device);
CUresult context_destroy(CUcontext context);
CUresult primary_retain(CUcontext* context, CUdevice ordinal);
CUresult primary_release(CUdevice ordinal);
CUresult primary_reset(CUdevice ordinal);
CUresult primary_get_state(CUdevice ordinal, unsigned int* flags, int* active);
CUresult primary_set_flags(CUdevice ordinal, unsigned int flags);
CUresult context_get_current(CUcontext* context);
CUresult context_set_current(CUcontext context);
CUresult context_push(CUcontext context);
CUresult context_pop(CUcontext* context);
CUresult context_get_device(CUdevice* device);
CUresult context_get_device_of(CUdevice* device, CUcontext context);
CUresult context_synchronize();
CUresult context_synchronize_of(CUcontext context);
CUresult context_get_flags(unsigned int* flags);
CUresult context_get_limit(std::size_t* value, CUlimit limit);
CUresult context_set_limit(CUlimit limit, std::size_t value);
// Charges the current context for the malloc heap, which its first kernel launch takes.
CUresult take_heap();
CUresult context_get_api_version(CUcontext context, unsigned int* version);
CUresult context_attach(CUcontext* context, unsigned int);
CUresult context_detach(CUcontext context);
CUresult context_get_id(CUcontext context, unsigned long long* id);
CUresult context_get_stream_priority_range(int* least, int* greatest);
CUresult context_enable_peer_access(CUcontext peer, unsigned int);
CUresult context_disable_peer_access(CUcontext peer);

// Functions of memory.cpp.
CUresult alloc(CUdeviceptr* address, std::size_t bytes);
CUresult alloc_v1(CUdeviceptr_v1* address, unsigned int bytes);
CUresult alloc_pitch(CUdeviceptr* address, std::size_t* pitch, std::size_t width_bytes,
                     std::size_t height, unsigned int element_bytes);
CUresult alloc_pitch_v1(CUdeviceptr_v1* address, unsigned int* pitch, unsigned int width_bytes,
                        unsigned int height, unsigned int);
CUresult alloc_managed(CUdeviceptr* address, std::size_t bytes, unsigned int flags);
CUresult free_memory(CUdeviceptr address);
CUresult host_alloc(void** host, std::size_t bytes, unsigned int flags);
CUresult alloc_host(void** host, std::size_t bytes);
CUresult free_host(void* host);
CUresult host_register(void* host, std::size_t bytes, unsigned int flags);
CUresult host_unregister(void* host);
CUresult host_get_device_pointer(CUdeviceptr* address, void* host, unsigned int);
CUresult host_get_flags(unsigned int* flags, void* host);
CUresult get_info(std::size_t* free_bytes, std::size_t* total_bytes);
CUresult get_info_v1(unsigned int* free_bytes, unsigned int* total_bytes);
CUresult get_address_range(CUdeviceptr* base, std::size_t* bytes, CUdeviceptr address);
CUresult get_address_range_v1(CUdeviceptr_v1* base, unsigned int* bytes, CUdeviceptr_v1 address);
CUresult host_get_device_pointer_v1(CUdeviceptr_v1* address, void* host, unsigned int flags);

// Functions of pointers.cpp.
CUresult pointer_get_attribute(void* data, CUpointer_attribute attribute, CUdeviceptr address);
CUresult pointer_get_attributes(unsigned int count, CUpointer_attribute* attributes, void** data,
                                CUdeviceptr address);
CUresult pointer_set_attribute(const void* value, CUpointer_attribute attribute,
                               CUdeviceptr address);

// Functions of pools.cpp.
CUresult alloc_async(CUdeviceptr* address, std::size_t bytes, CUstream stream);
CUresult alloc_from_pool_async(CUdeviceptr* address, std::size_t bytes, CUmemoryPool pool,
                               CUstream stream);
CUresult free_async(CUdeviceptr address, CUstream stream);
CUresult pool_create(CUmemoryPool* pool, const CUmemPoolProps* properties);
CUresult pool_destroy(CUmemoryPool pool);
CUresult pool_trim_to(CUmemoryPool pool, std::size_t kept_bytes);
CUresult pool_set_attribute(CUmemoryPool pool, CUmemPool_attribute attribute, void* value);
CUresult pool_get_attribute(CUmemoryPool pool, CUmemPool_attribute attribute, void* value);
CUresult pool_set_access(CUmemoryPool pool, const CUmemAccessDesc* descriptions, std::size_t count);
CUresult pool_get_access(CUmemAccess_flags* flags, CUmemoryPool pool, CUmemLocation*);
CUresult device_set_mem_pool(CUdevice ordinal, CUmemoryPool pool);
CUresult device_get_mem_pool(CUmemoryPool* pool, CUdevice ordinal);
CUresult device_get_default_mem_pool(CUmemoryPool* pool, CUdevice ordinal);
CUresult location_get_default_mem_pool(CUmemoryPool* pool, CUmemLocation* location,
                                       CUmemAllocationType);
CUresult location_get_mem_pool(CUmemoryPool* pool, CUmemLocation* location, CUmemAllocationType);
CUresult location_set_mem_pool(CUmemLocation* location, CUmemAllocationType, CUmemoryPool pool);
CUresult pool_export_handle(void* shareable, CUmemoryPool pool, CUmemAllocationHandleType type,
                            unsigned long long);
CUresult pool_import_handle(CUmemoryPool* pool, void*, CUmemAllocationHandleType type,
                            unsigned long long);
CUresult pool_export_pointer(CUmemPoolPtrExportData* data, CUdeviceptr address);
CUresult pool_import_pointer(CUdeviceptr* address, CUmemoryPool pool, CUmemPoolPtrExportData* data);

// Functions of vmm.cpp.
CUresult address_reserve(CUdeviceptr* address, std::size_t bytes, std::size_t alignment,
                         CUdeviceptr wanted, unsigned long long flags);
CUresult address_free(CUdeviceptr address, std::size_t bytes);
CUresult physical_create(CUmemGenericAllocationHandle* handle, std::size_t bytes,
                         const CUmemAllocationProp* properties, unsigned long long flags);
CUresult physical_release(CUmemGenericAllocationHandle handle);
CUresult physical_retain(CUmemGenericAllocationHandle* handle, void* address);
CUresult map_physical(CUdeviceptr address, std::size_t bytes, std::size_t offset,
                      CUmemGenericAllocationHandle handle, unsigned long long flags);
CUresult unmap_physical(CUdeviceptr address, std::size_t bytes);
CUresult set_access(CUdeviceptr address, std::size_t bytes, const CUmemAccessDesc* descriptions,
                    std::size_t count);
CUresult get_access(unsigned long long* flags, const CUmemLocation*, CUdeviceptr address);
CUresult physical_export(void* shareable, CUmemGenericAllocationHandle handle,
                         CUmemAllocationHandleType type, unsigned long long);
CUresult physical_import(CUmemGenericAllocationHandle* handle, void* shareable,
                         CUmemAllocationHandleType type);
CUresult get_allocation_granularity(std::size_t* granularity, const CUmemAllocationProp*,
                                    CUmemAllocationGranularity_flags);
CUresult get_allocation_properties(CUmemAllocationProp* properties,
                                   CUmemGenericAllocationHandle handle);

// Functions of arrays.cpp.
CUresult array_3d_create(CUarray* array, const CUDA_ARRAY3D_DESCRIPTOR* descriptor);
CUresult array_3d_create_v1(CUarray* array, const CUDA_ARRAY3D_DESCRIPTOR_v1* descriptor);
CUresult array_create(CUarray* array, const CUDA_ARRAY_DESCRIPTOR* descriptor);
CUresult array_create_v1(CUarray* array, const CUDA_ARRAY_DESCRIPTOR_v1* descriptor);
CUresult array_destroy(CUarray array);
CUresult array_3d_get_descriptor(CUDA_ARRAY3D_DESCRIPTOR* descriptor, CUarray array);
CUresult array_3d_get_descriptor_v1(CUDA_ARRAY3D_DESCRIPTOR_v1* descriptor, CUarray array);
CUresult array_get_descriptor(CUDA_ARRAY_DESCRIPTOR* descriptor, CUarray array);
CUresult array_get_descriptor_v1(CUDA_ARRAY_DESCRIPTOR_v1* descriptor, CUarray array);
CUresult mipmapped_array_create(CUmipmappedArray* mipmapped,
                                const CUDA_ARRAY3D_DESCRIPTOR* descriptor, unsigned int levels);
CUresult mipmapped_array_get_level(CUarray* array, CUmipmappedArray mipmapped, unsigned int level);
CUresult mipmapped_array_destroy(CUmipmappedArray mipmapped);

// Functions of sharing.cpp.
CUresult ipc_get_mem_handle(CUipcMemHandle* handle, CUdeviceptr address);
CUresult ipc_open_mem_handle(CUdeviceptr* address, CUipcMemHandle handle, unsigned int flags);
CUresult ipc_close_mem_handle(CUdeviceptr address);
CUresult import_external_memory(CUexternalMemory* memory,
                                const CUDA_EXTERNAL_MEMORY_HANDLE_DESC* description);
CUresult external_memory_get_mapped_buffer(CUdeviceptr* address, CUexternalMemory memory,
                                           const CUDA_EXTERNAL_MEMORY_BUFFER_DESC* description);
CUresult destroy_external_memory(CUexternalMemory memory);

// Functions of copies.cpp.
CUresult copy(CUdeviceptr destination, CUdeviceptr source, std::size_t bytes);
CUresult copy_async(CUdeviceptr destination, CUdeviceptr source, std::size_t bytes,
                    CUstream stream);
CUresult copy_peer(CUdeviceptr destination, CUcontext, CUdeviceptr source, CUcontext,
                   std::size_t bytes);
CUresult copy_peer_async(CUdeviceptr destination, CUcontext, CUdeviceptr source, CUcontext,
                         std::size_t bytes, CUstream stream);
CUresult copy_h_to_d(CUdeviceptr destination, const void* source, std::size_t bytes);
CUresult copy_h_to_d_async(CUdeviceptr destination, const void* source, std::size_t bytes,
                           CUstream stream);
CUresult copy_d_to_h(void* destination, CUdeviceptr source, std::size_t bytes);
CUresult copy_d_to_h_async(void* destination, CUdeviceptr source, std::size_t bytes,
                           CUstream stream);
CUresult copy_d_to_d(CUdeviceptr destination, CUdeviceptr source, std::size_t bytes);
CUresult copy_d_to_d_async(CUdeviceptr destination, CUdeviceptr source, std::size_t bytes,
                           CUstream stream);
CUresult copy_d_to_a(CUarray destination, std::size_t offset, CUdeviceptr source,
                     std::size_t bytes);
CUresult copy_a_to_d(CUdeviceptr destination, CUarray source, std::size_t offset,
                     std::size_t bytes);
CUresult copy_h_to_a(CUarray destination, std::size_t offset, const void* source,
                     std::size_t bytes);
CUresult copy_a_to_h(void* destination, CUarray source, std::size_t offset, std::size_t bytes);
CUresult copy_h_to_a_async(CUarray destination, std::size_t offset, const void* source,
                           std::size_t bytes, CUstream stream);
CUresult copy_a_to_h_async(void* destination, CUarray source, std::size_t offset, std::size_t bytes,
                           CUstream stream);
CUresult copy_a_to_a(CUarray destination, std::size_t destination_offset, CUarray source,
                     std::size_t source_offset, std::size_t bytes);
CUresult copy_batch_async(CUdeviceptr* destinations, CUdeviceptr* sources, std::size_t* sizes,
                          std::size_t count, CUmemcpyAttributes* attributes,
                          std::size_t* attribute_indices, std::size_t attribute_count,
                          CUstream stream);
CUresult copy_batch_async_v1(CUdeviceptr* destinations, CUdeviceptr* sources, std::size_t* sizes,
                             std::size_t count, CUmemcpyAttributes* attributes,
                             std::size_t* attribute_indices, std::size_t attribute_count,
                             std::size_t* failed_index, CUstream stream);
CUresult copy_3d_batch_async(std::size_t count, CUDA_MEMCPY3D_BATCH_OP* operations,
                             unsigned long long flags, CUstream stream);
CUresult copy_3d_batch_async_v1(std::size_t count, CUDA_MEMCPY3D_BATCH_OP* operations,
                                std::size_t* failed_index, unsigned long long flags,
                                CUstream stream);

// Functions of box_copy.cpp.
CUresult copy_2d(const CUDA_MEMCPY2D* parameters);
CUresult copy_2d_v1(const CUDA_MEMCPY2D_v1* parameters);
CUresult copy_2d_async(const CUDA_MEMCPY2D* parameters, CUstream stream);
CUresult copy_2d_async_v1(const CUDA_MEMCPY2D_v1* parameters, CUstream stream);
CUresult copy_3d(const CUDA_MEMCPY3D* parameters);
CUresult copy_3d_v1(const CUDA_MEMCPY3D_v1* parameters);
CUresult copy_3d_async(const CUDA_MEMCPY3D* parameters, CUstream stream);
CUresult copy_3d_async_v1(const CUDA_MEMCPY3D_v1* parameters, CUstream stream);
CUresult copy_3d_peer(const CUDA_MEMCPY3D_PEER* parameters);
CUresult copy_3d_peer_async(const CUDA_MEMCPY3D_PEER* parameters, CUstream stream);

// Functions of sets.cpp.
CUresult set_d8(CUdeviceptr address, unsigned char value, std::size_t count);
CUresult set_d16(CUdeviceptr address, unsigned short value, std::size_t count);
CUresult set_d32(CUdeviceptr address, unsigned int value, std::size_t count);
CUresult set_2d_d8(CUdeviceptr address, std::size_t pitch, unsigned char value, std::size_t width,
                   std::size_t height);
CUresult set_2d_d16(CUdeviceptr address, std::size_t pitch, unsigned short value, std::size_t width,
                    std::size_t height);
CUresult set_2d_d32(CUdeviceptr address, std::size_t pitch, unsigned int value, std::size_t width,
                    std::size_t height);
CUresult set_d8_async(CUdeviceptr address, unsigned char value, std::size_t count, CUstream stream);
CUresult set_d16_async(CUdeviceptr address, unsigned short value, std::size_t count,
                       CUstream stream);
CUresult set_d32_async(CUdeviceptr address, unsigned int value, std::size_t count, CUstream stream);
CUresult set_2d_d8_async(CUdeviceptr address, std::size_t pitch, unsigned char value,
                         std::size_t width, std::size_t height, CUstream stream);
CUresult set_2d_d16_async(CUdeviceptr address, std::size_t pitch, unsigned short value,
                          std::size_t width, std::size_t height, CUstream stream);
CUresult set_2d_d32_async(CUdeviceptr address, std::size_t pitch, unsigned int value,
                          std::size_t width, std::size_t height, CUstream stream);
CUresult stream_write_value_32(CUstream stream, CUdeviceptr address, std::uint32_t value,
                               unsigned int);
CUresult stream_write_value_64(CUstream stream, CUdeviceptr address, std::uint64_t value,
                               unsigned int);

// Functions of managed.cpp.
CUresult prefetch_async_v1(CUdeviceptr address, std::size_t bytes, CUdevice device,
                           CUstream stream);
CUresult prefetch_async(CUdeviceptr address, std::size_t bytes, CUmemLocation location,
                        unsigned int, CUstream stream);
CUresult prefetch_batch_async(CUdeviceptr* addresses, std::size_t* sizes, std::size_t count,
                              CUmemLocation*, std::size_t*, std::size_t, unsigned long long,
                              CUstream stream);
CUresult discard_batch_async(CUdeviceptr* addresses, std::size_t* sizes, std::size_t count,
                             unsigned long long, CUstream stream);
CUresult advise_v1(CUdeviceptr address, std::size_t bytes, CUmem_advise, CUdevice device);
CUresult advise(CUdeviceptr address, std::size_t bytes, CUmem_advise, CUmemLocation location);
CUresult stream_attach_async(CUstream stream, CUdeviceptr address, std::size_t, unsigned int);

// Functions of streams.cpp.
CUresult stream_create_with_priority(CUstream* stream, unsigned int flags, int priority);
CUresult stream_create(CUstream* stream, unsigned int flags);
CUresult stream_destroy(CUstream stream);
CUresult stream_synchronize(CUstream stream);
CUresult stream_query(CUstream stream);
CUresult stream_wait_event(CUstream handle, CUevent event, unsigned int);
CUresult stream_get_context(CUstream handle, CUcontext* context);
CUresult stream_get_device(CUstream handle, CUdevice* device);
CUresult stream_get_priority(CUstream handle, int* priority);
CUresult stream_get_flags(CUstream handle, unsigned int* flags);
CUresult stream_get_id(CUstream handle, unsigned long long* id);
CUresult stream_add_callback(CUstream handle, CUstreamCallback callback, void* data, unsigned int);
CUresult launch_host_function(CUstream stream, CUhostFn function, void* data);
CUresult stream_begin_capture(CUstream stream, CUstreamCaptureMode mode);
CUresult stream_begin_capture_v1(CUstream stream);
CUresult stream_begin_capture_to_graph(CUstream stream, CUgraph graph,
                                       const CUgraphNode* dependencies, const CUgraphEdgeData*,
                                       std::size_t count, CUstreamCaptureMode mode);
CUresult stream_end_capture(CUstream handle, CUgraph* graph);
CUresult stream_is_capturing(CUstream handle, CUstreamCaptureStatus* status);
CUresult stream_get_capture_info(CUstream handle, CUstreamCaptureStatus* status, std::uint64_t* id);
CUresult stream_get_capture_info_v2(CUstream handle, CUstreamCaptureStatus* status,
                                    std::uint64_t* id, CUgraph* graph,
                                    const CUgraphNode** dependencies, std::size_t* count);
CUresult stream_get_capture_info_v3(CUstream handle, CUstreamCaptureStatus* status,
                                    std::uint64_t* id, CUgraph* graph,
                                    const CUgraphNode** dependencies, const CUgraphEdgeData** edges,
                                    std::size_t* count);
CUresult thread_exchange_capture_mode(CUstreamCaptureMode* mode);
CUresult event_create(CUevent* event, unsigned int flags);
CUresult event_destroy(CUevent event);
CUresult event_record(CUevent event, CUstream handle);
CUresult event_record_with_flags(CUevent event, CUstream stream, unsigned int);
CUresult event_query(CUevent event);
CUresult event_synchronize(CUevent event);
CUresult event_elapsed_time(float* milliseconds, CUevent start, CUevent end);

// Functions of graphs.cpp.
CUresult graph_create(CUgraph* graph, unsigned int flags);
CUresult graph_clone(CUgraph* clone, CUgraph original);
CUresult graph_destroy(CUgraph graph);
CUresult graph_add_node(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies,
                        std::size_t count, CUgraphNodeParams* parameters);
CUresult graph_add_node_v2(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies,
                           const CUgraphEdgeData*, std::size_t count,
                           CUgraphNodeParams* parameters);
CUresult graph_add_mem_alloc_node(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies,
                                  std::size_t count, CUDA_MEM_ALLOC_NODE_PARAMS* parameters);
CUresult graph_add_mem_free_node(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies,
                                 std::size_t count, CUdeviceptr address);
CUresult graph_add_memcpy_node(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies,
                               std::size_t count, const CUDA_MEMCPY3D* parameters, CUcontext);
CUresult graph_add_memset_node(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies,
                               std::size_t count, const CUDA_MEMSET_NODE_PARAMS* parameters,
                               CUcontext);
CUresult graph_add_kernel_node(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies,
                               std::size_t count, const CUDA_KERNEL_NODE_PARAMS* parameters);
CUresult graph_add_kernel_node_v1(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies,
                                  std::size_t count, const CUDA_KERNEL_NODE_PARAMS_v1* parameters);
CUresult graph_add_empty_node(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies,
                              std::size_t count);
CUresult graph_get_nodes(CUgraph graph, CUgraphNode* nodes, std::size_t* count);
CUresult graph_node_get_type(CUgraphNode node, CUgraphNodeType* type);
CUresult graph_mem_alloc_node_get_parameters(CUgraphNode node,
                                             CUDA_MEM_ALLOC_NODE_PARAMS* parameters);
CUresult graph_memcpy_node_set_parameters(CUgraphNode node, const CUDA_MEMCPY3D* parameters);
CUresult graph_memset_node_set_parameters(CUgraphNode node,
                                          const CUDA_MEMSET_NODE_PARAMS* parameters);
CUresult executable_memcpy_node_set_parameters(CUgraphExec executable, CUgraphNode node,
                                               const CUDA_MEMCPY3D* parameters, CUcontext);
CUresult executable_memset_node_set_parameters(CUgraphExec executable, CUgraphNode node,
                                               const CUDA_MEMSET_NODE_PARAMS* parameters,
                                               CUcontext);
CUresult graph_instantiate_with_flags(CUgraphExec* executable, CUgraph graph,
                                      unsigned long long flags);
CUresult graph_instantiate(CUgraphExec* executable, CUgraph graph, CUgraphNode* error_node,
                           char* log, std::size_t log_bytes);
CUresult graph_instantiate_with_parameters(CUgraphExec* executable, CUgraph graph,
                                           CUDA_GRAPH_INSTANTIATE_PARAMS* parameters);
CUresult graph_launch(CUgraphExec executable, CUstream handle);
CUresult graph_upload(CUgraphExec executable, CUstream handle);
CUresult executable_destroy(CUgraphExec executable);
CUresult device_graph_mem_trim(CUdevice ordinal);
CUresult device_get_graph_mem_attribute(CUdevice ordinal, CUgraphMem_attribute attribute,
                                        void* value);
CUresult device_set_graph_mem_attribute(CUdevice ordinal, CUgraphMem_attribute attribute, void*);

// Functions of modules.cpp.
CUresult module_load(CUmodule* module, const char* file_name);
CUresult module_load_data(CUmodule* module, const void* image);
CUresult module_load_data_with_options(CUmodule* module, const void* image, unsigned int,
                                       CUjit_option*, void**);
CUresult module_unload(CUmodule module);
CUresult module_get_function(CUfunction* function, CUmodule module, const char* name);
CUresult module_get_global(CUdeviceptr*, std::size_t*, CUmodule module, const char*);
CUresult module_get_global_v1(CUdeviceptr_v1*, unsigned int*, CUmodule module, const char*);
CUresult library_load_data(CUlibrary* library, const void* code, CUjit_option*, void**,
                           unsigned int, CUlibraryOption*, void**, unsigned int);
CUresult library_load_from_file(CUlibrary* library, const char* file_name, CUjit_option*, void**,
                                unsigned int, CUlibraryOption*, void**, unsigned int);
CUresult library_unload(CUlibrary library);
CUresult library_get_kernel(CUkernel* kernel, CUlibrary library, const char* name);
CUresult library_get_global(CUdeviceptr*, std::size_t*, CUlibrary library, const char*);
CUresult kernel_get_function(CUfunction* function, CUkernel kernel);
CUresult launch_kernel(CUfunction function, unsigned int, unsigned int, unsigned int, unsigned int,
                       unsigned int, unsigned int, unsigned int, CUstream stream, void**, void**);
CUresult launch_cooperative_kernel(CUfunction function, unsigned int, unsigned int, unsigned int,
                                   unsigned int, unsigned int, unsigned int, unsigned int,
                                   CUstream stream, void**);
CUresult launch_kernel_with_configuration(const CUlaunchConfig* configuration, CUfunction function,
                                          void**, void**);
CUresult launch_kernel_with_configuration_ptsz(const CUlaunchConfig* configuration,
                                               CUfunction function, void**, void**);

}  // namespace gpumemtrace::cuda_abi::simulated
