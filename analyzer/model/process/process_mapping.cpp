// SPDX-License-Identifier: Apache-2.0
// Calls about memory that is not simply allocated and freed by address: virtual memory management,
// pools, graphs, and memory of other processes.
#include "analyzer/model/process/process.hpp"
#include "trace/order.hpp"

namespace gpumemtrace::analyzer {

void ProcessModel::apply_mapping(const trace::Mapping& call, std::uint32_t writer) {
  if (call.call.record.result != trace::kCudaSuccess) return;
  switch (call.operation) {
    case trace::MappingOperation::kReserve:
      return reserve(call);
    case trace::MappingOperation::kFreeReservation: {
      const auto* reservation = virtual_memory_.find_reservation(call.address);
      if (reservation == nullptr || reservation->begin() != call.address) return;
      if (reservation->tag != 0) framework_.remove_segment(reservation->tag, now_);
      address_map_.forget(reservation->begin(), reservation->bytes());
      return virtual_memory_.free_reservation(call.address);
    }
    case trace::MappingOperation::kMap:
      return map(call);
    case trace::MappingOperation::kUnmap:
      return unmap(call, writer);
    case trace::MappingOperation::kRetainHandle: {
      if (!virtual_memory_.retain(call.handle, call.address)) ++course_.unknown_frees;
      return;
    }
    case trace::MappingOperation::kImport:
      return import_handle(call);
    default:
      return;
  }
}

void ProcessModel::reserve(const trace::Mapping& call) {
  std::uint32_t id = 0;
  if ((call.call.record.flags & trace::kFlagSegment) != 0) {
    // Its first block came before a checkpoint's cut.
    Segment segment;
    segment.begin = call.address;
    segment.end = call.address + call.bytes;
    segment.device = call.location;
    segment.mapped = true;
    id = framework_.add_segment(segment, now_);
  }
  virtual_memory_.reserve(call.address, call.bytes, id);
}

void ProcessModel::import_handle(const trace::Mapping& call) {
  if (call.handle == 0 || virtual_memory_.retain(call.handle, 0)) return;
  const GroupKey key = key_of(call.call, Kind::kImportedVmm, call.location);
  (void)virtual_memory_.create({call.handle, call.bytes, now_, accounts_.group_of(key), 0});
}

void ProcessModel::map(const trace::Mapping& call) {
  const VirtualMemory::Mapping* mapping =
      virtual_memory_.map(call.address, call.bytes, call.handle, now_);
  if (mapping == nullptr) return;
  const LiveAllocation entry = mapping->entry;
  const std::int32_t device = accounts_.group(entry.group).key.device;
  const MemoryClass memory = device == kHostDevice ? MemoryClass::kPinned : MemoryClass::kDevice;
  address_map_.set(entry.address, entry.bytes, {memory, device});
  if (entry.link != 0) {
    framework_.grow_segment(entry.link, entry.address, entry.bytes, entry.born, now_);
  }
}

void ProcessModel::unmap(const trace::Mapping& call, std::uint32_t writer) {
  VirtualMemory::Removed freed;
  for (const LiveAllocation& entry : virtual_memory_.unmap(call.address, call.bytes, freed)) {
    if (entry.link != 0) {
      framework_.shrink_segment(entry.link, entry.address, entry.bytes, now_);
    }
  }
  after_physical_release(freed, writer, &call.call);
}

void ProcessModel::apply_pool_call(const trace::Pool& call) {
  if (call.call.record.result != trace::kCudaSuccess) return;
  if (pools_.apply_call(call, now_)) pools_changed(call.device);
}

void ProcessModel::apply_graph(const trace::Graph& call, std::uint32_t writer) {
  if (call.call.record.result != trace::kCudaSuccess) return;
  switch (call.operation) {
    case trace::GraphOperation::kAddAllocation: {
      const GroupKey key = key_of(call.call, Kind::kGraph, call.device);
      return graphs_.add_allocation(call.graph,
                                    {call.address, call.bytes, accounts_.group_of(key)});
    }
    case trace::GraphOperation::kAddFree:
      return graphs_.add_free(call.graph, call.address);
    case trace::GraphOperation::kInstantiate:
      return graphs_.instantiate(call, now_);
    case trace::GraphOperation::kLaunch: {
      if (activity_.is_on() && !in_checkpoint_) {
        activity_.join().add_launch(writer, call.call, site_of(call.call));
      }
      const GraphExecutable* executable = graphs_.find_executable(call.graph);
      if (executable != nullptr) launch(executable->memory, writer);
      return;
    }
    case trace::GraphOperation::kDestroyExecutable:
      return graphs_.destroy_executable(call.graph != 0 ? call.graph : call.executable);
    case trace::GraphOperation::kDestroy:
      return graphs_.destroy(call.graph);
    case trace::GraphOperation::kBeginCapture:
      return graphs_.begin_capture(call.stream);
    case trace::GraphOperation::kEndCapture:
      return graphs_.end_capture(call.stream, call.graph);
    case trace::GraphOperation::kClone:
      return graphs_.clone(call.graph, call.executable);
    default:
      return;
  }
}

void ProcessModel::launch(const GraphMemory& graph, std::uint32_t writer) {
  for (const GraphAllocation& allocation : graph.allocations) {
    if (allocation.address == 0) continue;
    release(Memory::Space::kAddresses, allocation.address, writer);
    add({allocation.address, allocation.bytes, now_, allocation.group, 0},
        accounts_.group(allocation.group).key);
    begin_next_moment();
  }
  for (const std::uint64_t address : graph.frees) {
    release(Memory::Space::kAddresses, address, writer);
  }
}

void ProcessModel::apply_import(const trace::Import& call) {
  if (call.call.record.result != trace::kCudaSuccess) return;
  switch (call.operation) {
    case trace::ImportOperation::kIpcOpen:
    case trace::ImportOperation::kPoolImportPointer:
    case trace::ImportOperation::kExternalImport: {
      const bool external = call.operation == trace::ImportOperation::kExternalImport;
      const std::uint64_t key_address = external ? call.handle : call.address;
      if (key_address == 0 || memory_.find(Memory::Space::kImports, key_address) != nullptr) return;
      const GroupKey key = key_of(call.call, external ? Kind::kExternal : Kind::kIpc, -1);
      memory_.add(Memory::Space::kImports,
                  {key_address, call.bytes, now_, accounts_.group_of(key), 0});
      if (!external) {
        address_map_.set(call.address, call.bytes, {MemoryClass::kDevice, key.device});
      }
      return;
    }
    case trace::ImportOperation::kExternalMap:
      external_mappings_.insert(call.address);
      [[fallthrough]];
    case trace::ImportOperation::kGraphicsPointer:
      return address_map_.set(call.address, call.bytes,
                              {MemoryClass::kDevice, contexts_.device_of(call.call.context)});
    case trace::ImportOperation::kIpcClose:
      return release_import(call.address, call.call);
    case trace::ImportOperation::kExternalDestroy:
      return release_import(call.handle, call.call);
    default:
      return;
  }
}

void ProcessModel::release_import(std::uint64_t key_address, const trace::CallHeader& call) {
  LiveAllocation removed;
  if (memory_.remove(Memory::Space::kImports, key_address, Accounts::End::kFreed, removed)) {
    accounts_.add_free_site(removed.group, site_of(call), now_);
  }
}

}  // namespace gpumemtrace::analyzer
