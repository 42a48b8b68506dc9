// SPDX-License-Identifier: Apache-2.0
// A small NCCL: memory, threads and NVTX ranges as in NCCL 2.28. A communicator takes 8 MiB on the
// thread that makes it, and starts a thread that takes 16 MiB at the first collective. A range that
// makes a communicator begins without a payload and ends with one; a collective's range begins with
// one. A split's payload names its parent and the parent's ranks. Built with NVTX's own headers
// (libnccl_real) if the toolkit is there.
#include "tests/end_to_end/victims/nccl.hpp"

#include <array>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <thread>

#ifdef GPUMEMTRACE_REAL_NVTX
#include <nvtx3/nvToolsExtPayload.h>
#else
#include "tests/end_to_end/victims/small_nvtx.hpp"
#endif

#include "tests/end_to_end/victims/driver_calls.hpp"

namespace victims = gpumemtrace::victims;
namespace abi = victims::abi;

struct SimulatedCommunicator {
  std::uint64_t hash = 0;
  int ranks = 0;
  int rank = 0;
  abi::CUcontext context = nullptr;
  abi::CUdeviceptr own_memory = 0;
  abi::CUdeviceptr connection = 0;
  bool is_asked = false;  // the service thread has to connect or to end
  bool is_ending = false;
  std::mutex mutex;
  std::condition_variable changed;
  std::thread service;
};

namespace {

struct CommunicatorPayload {
  std::uint64_t hash;
  int ranks;
  int rank;
  int cuda_device;
};
struct SplitPayload {
  std::uint64_t hash;
  std::uint64_t parent;
  int ranks;
  int rank;
  int cuda_device;
};
struct CollectivePayload {
  std::uint64_t hash;
  std::size_t bytes;
};

constexpr std::uint64_t kFirstSchema = 1 << 24;
enum Schema : std::uint64_t { kInit = kFirstSchema, kSplit, kCollective, kDestroy };

nvtxPayloadSchemaEntry_t entry(std::uint64_t type, const char* name, std::size_t offset) {
  nvtxPayloadSchemaEntry_t field = {};
  field.type = type;
  field.name = name;
  field.offset = offset;
  return field;
}

nvtxDomainHandle_t domain() {
  static const nvtxDomainHandle_t handle = [] {
    nvtxInitialize(nullptr);
    return nvtxDomainCreateA("NCCL");
  }();
  return handle;
}

template <std::size_t kCount>
bool register_schema(std::uint64_t id, std::size_t bytes,
                     const std::array<nvtxPayloadSchemaEntry_t, kCount>& entries) {
  nvtxPayloadSchemaAttr_t schema = {};
  schema.fieldMask = NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_TYPE | NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_ENTRIES |
                     NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_NUM_ENTRIES |
                     NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_STATIC_SIZE |
                     NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_SCHEMA_ID;
  schema.type = NVTX_PAYLOAD_SCHEMA_TYPE_STATIC;
  schema.entries = entries.data();
  schema.numEntries = kCount;
  schema.payloadStaticSize = bytes;
  schema.schemaId = id;
  nvtxPayloadSchemaRegister(domain(), &schema);
  return true;
}

void register_init_schema(std::uint64_t id) {
  using Payload = CommunicatorPayload;
  register_schema(
      id, sizeof(Payload),
      std::array{
          entry(NVTX_PAYLOAD_ENTRY_TYPE_UINT64, "NCCL communicator ID", 0),
          entry(NVTX_PAYLOAD_ENTRY_TYPE_INT, "No. of ranks", offsetof(Payload, ranks)),
          entry(NVTX_PAYLOAD_ENTRY_TYPE_INT, "Rank", offsetof(Payload, rank)),
          entry(NVTX_PAYLOAD_ENTRY_TYPE_INT, "CUDA device", offsetof(Payload, cuda_device))});
}

void register_split_schema() {
  using Payload = SplitPayload;
  register_schema(
      kSplit, sizeof(Payload),
      std::array{
          entry(NVTX_PAYLOAD_ENTRY_TYPE_UINT64, "NCCL communicator ID", 0),
          entry(NVTX_PAYLOAD_ENTRY_TYPE_UINT64, "Parent NCCL communicator ID",
                offsetof(Payload, parent)),
          entry(NVTX_PAYLOAD_ENTRY_TYPE_INT, "No. of ranks", offsetof(Payload, ranks)),
          entry(NVTX_PAYLOAD_ENTRY_TYPE_INT, "Rank", offsetof(Payload, rank)),
          entry(NVTX_PAYLOAD_ENTRY_TYPE_INT, "CUDA device", offsetof(Payload, cuda_device))});
}

void register_collective_schema() {
  using Payload = CollectivePayload;
  register_schema(kCollective, sizeof(Payload),
                  std::array{entry(NVTX_PAYLOAD_ENTRY_TYPE_UINT64, "NCCL communicator ID", 0),
                             entry(NVTX_PAYLOAD_ENTRY_TYPE_SIZE, "Message size [bytes]",
                                   offsetof(Payload, bytes))});
}

void begin_range(const char* name, const nvtxPayloadData_t* payload = nullptr) {
  nvtxEventAttributes_t event = {};
  event.version = NVTX_VERSION;
  event.size = sizeof event;
  event.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
  event.message.registered = nvtxDomainRegisterStringA(domain(), name);
  if (payload != nullptr) {
    event.payloadType = NVTX_PAYLOAD_TYPE_EXT;
    event.reserved0 = 1;
    event.payload.ullValue = reinterpret_cast<std::uintptr_t>(payload);
  }
  nvtxDomainRangePushEx(domain(), &event);
}

void end_range() { nvtxDomainRangePop(domain()); }

template <class Payload>
void end_range(std::uint64_t schema, const Payload& payload) {
  const nvtxPayloadData_t data = {schema, sizeof payload, &payload};
  nvtxRangePopPayload(domain(), &data, 1);
}

void serve(SimulatedCommunicator& communicator) {
  std::unique_lock lock(communicator.mutex);
  communicator.changed.wait(lock, [&] { return communicator.is_asked; });
  if (communicator.is_ending) return;
  victims::call(victims::function<abi::cuCtxSetCurrent_t>("cuCtxSetCurrent")(communicator.context),
                "cuCtxSetCurrent");
  communicator.connection = victims::allocate(16 << 20);
  communicator.changed.notify_all();
}

SimulatedCommunicator* make(std::uint64_t hash, int ranks, int rank) {
  auto* const made = new SimulatedCommunicator;
  made->hash = hash;
  made->ranks = ranks;
  made->rank = rank;
  victims::call(victims::function<abi::cuCtxGetCurrent_t>("cuCtxGetCurrent")(&made->context),
                "cuCtxGetCurrent");
  made->own_memory = victims::allocate(8 << 20);
  made->service = std::thread([made] { serve(*made); });
  return made;
}

}  // namespace

#define GPUMEMTRACE_EXPORT extern "C" [[gnu::visibility("default")]]

GPUMEMTRACE_EXPORT SimulatedCommunicator* ncclCommInitRankConfig(int ranks, int rank) {
  static std::uint64_t last_hash = 0xfeed0000;
  begin_range(__func__);
  SimulatedCommunicator* const made = make(++last_hash, ranks, rank);
  static const bool is_registered = (register_init_schema(kInit), true);
  if (is_registered) end_range(kInit, CommunicatorPayload{made->hash, ranks, rank, 0});
  return made;
}

GPUMEMTRACE_EXPORT SimulatedCommunicator* ncclCommSplit(SimulatedCommunicator* parent, int ranks,
                                                        int rank) {
  begin_range(__func__);
  SimulatedCommunicator* const made = make(parent->hash * 31, ranks, rank);
  static const bool is_registered = (register_split_schema(), true);
  if (is_registered) {
    end_range(kSplit, SplitPayload{0, parent->hash, parent->ranks, parent->rank, 0});
  }
  return made;
}

GPUMEMTRACE_EXPORT void ncclAllReduce(SimulatedCommunicator* communicator) {
  static const bool is_registered = (register_collective_schema(), true);
  const CollectivePayload payload{communicator->hash, 4096};
  const nvtxPayloadData_t data = {kCollective, sizeof payload, &payload};
  if (is_registered) begin_range(__func__, &data);
  {
    std::unique_lock lock(communicator->mutex);
    communicator->is_asked = true;
    communicator->changed.notify_all();
    communicator->changed.wait(lock, [&] { return communicator->connection != 0; });
  }
  end_range();
}

GPUMEMTRACE_EXPORT void ncclCommDestroy(SimulatedCommunicator* communicator) {
  static const bool is_registered = (register_init_schema(kDestroy), true);
  const CommunicatorPayload payload{communicator->hash, communicator->ranks, communicator->rank, 0};
  const nvtxPayloadData_t data = {kDestroy, sizeof payload, &payload};
  if (is_registered) begin_range(__func__, &data);
  {
    const std::lock_guard lock(communicator->mutex);
    communicator->is_asked = communicator->is_ending = true;
    communicator->changed.notify_all();
  }
  communicator->service.join();
  victims::free_memory(communicator->own_memory);
  if (communicator->connection != 0) victims::free_memory(communicator->connection);
  delete communicator;
  end_range();
}
