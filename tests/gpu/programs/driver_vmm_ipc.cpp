// SPDX-License-Identifier: Apache-2.0
// Uses the driver API only: one process makes physical memory (VMM) and a plain allocation; a
// second process opens both, by file descriptor and IPC handle. The memory exists once: the report
// must show imports, not allocations, for the second process.

#include <cuda.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "truth.hpp"

extern char** environ;

namespace {

using gpumemtrace::gpu_tests::KindLedger;
using gpumemtrace::gpu_tests::Truth;

constexpr std::size_t kSharedBytes = 6 << 20;
constexpr unsigned char kPlainPattern = 0x5a;
constexpr unsigned char kPhysicalPattern = 0x3c;

// The first process's message to the second, sent with the file descriptor of the physical memory.
struct Message {
  CUipcMemHandle plain;
  std::uint64_t physical_bytes;
};

bool report(const char* function, CUresult result) {
  const char* name = nullptr;
  cuGetErrorName(result, &name);
  std::printf("%s: %s\n", function, name == nullptr ? "unknown" : name);
  return result == CUDA_SUCCESS;
}

void require(const char* function, CUresult result) {
  if (report(function, result)) return;
  std::fprintf(stderr, "%s failed; this program needs a GPU with virtual memory management\n",
               function);
  std::exit(1);
}

void make_context_current() {
  require("cuInit", cuInit(0));
  CUdevice device = 0;
  require("cuDeviceGet", cuDeviceGet(&device, 0));
  CUcontext context = nullptr;
  require("cuDevicePrimaryCtxRetain", cuDevicePrimaryCtxRetain(&context, device));
  require("cuCtxSetCurrent", cuCtxSetCurrent(context));
}

void send_message(int socket, const Message& message, int descriptor) {
  iovec part = {const_cast<Message*>(&message), sizeof(message)};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr header = {};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = control;
  header.msg_controllen = sizeof(control);
  cmsghdr* first = CMSG_FIRSTHDR(&header);
  first->cmsg_level = SOL_SOCKET;
  first->cmsg_type = SCM_RIGHTS;
  first->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(first), &descriptor, sizeof(int));
  if (sendmsg(socket, &header, 0) < 0) std::perror("sendmsg to the second process");
}

int receive_message(int socket, Message& message) {
  iovec part = {&message, sizeof(message)};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr header = {};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = control;
  header.msg_controllen = sizeof(control);
  if (recvmsg(socket, &header, 0) != static_cast<ssize_t>(sizeof(message))) return -1;
  int descriptor = -1;
  const cmsghdr* first = CMSG_FIRSTHDR(&header);
  if (first != nullptr) std::memcpy(&descriptor, CMSG_DATA(first), sizeof(int));
  return descriptor;
}

CUmemAllocationProp exportable_memory() {
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  return properties;
}

// Maps physical memory at a new address that device 0 may read and write.
CUdeviceptr map_memory(CUmemGenericAllocationHandle handle, std::size_t bytes) {
  CUdeviceptr address = 0;
  require("cuMemAddressReserve", cuMemAddressReserve(&address, bytes, 0, 0, 0));
  require("cuMemMap", cuMemMap(address, bytes, 0, handle, 0));
  CUmemAccessDesc access = {};
  access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  require("cuMemSetAccess", cuMemSetAccess(address, bytes, &access, 1));
  return address;
}

void unmap_memory(CUdeviceptr address, std::size_t bytes) {
  report("cuMemUnmap", cuMemUnmap(address, bytes));
  report("cuMemAddressFree", cuMemAddressFree(address, bytes));
}

unsigned count_pattern(CUdeviceptr address, std::size_t bytes, unsigned char pattern) {
  std::vector<unsigned char> copy(bytes);
  require("cuMemcpyDtoH", cuMemcpyDtoH(copy.data(), address, bytes));
  unsigned count = 0;
  for (const unsigned char byte : copy) count += byte == pattern ? 1 : 0;
  return count;
}

int run_second_process(int socket) {
  Message message = {};
  const int descriptor = receive_message(socket, message);
  make_context_current();
  KindLedger opened;
  KindLedger mapped;
  CUdeviceptr plain = 0;
  if (report("cuIpcOpenMemHandle",
             cuIpcOpenMemHandle(&plain, message.plain, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS))) {
    opened.allocate(kSharedBytes);
    std::printf("plain memory holds %u bytes of the pattern\n",
                count_pattern(plain, kSharedBytes, kPlainPattern));
    if (report("cuIpcCloseMemHandle", cuIpcCloseMemHandle(plain))) opened.free(kSharedBytes);
  }
  CUmemGenericAllocationHandle handle = 0;
  void* shareable = reinterpret_cast<void*>(static_cast<std::intptr_t>(descriptor));
  if (report("cuMemImportFromShareableHandle",
             cuMemImportFromShareableHandle(&handle, shareable,
                                            CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR))) {
    mapped.allocate(message.physical_bytes);
    const CUdeviceptr address = map_memory(handle, message.physical_bytes);
    std::printf("physical memory holds %u bytes of the pattern\n",
                count_pattern(address, message.physical_bytes, kPhysicalPattern));
    unmap_memory(address, message.physical_bytes);
    if (report("cuMemRelease", cuMemRelease(handle))) mapped.free(message.physical_bytes);
  }
  Truth truth("driver_vmm_ipc", ".second");
  truth.usage_field("imported", "ipc", "peak_bytes", opened.peak_bytes());
  truth.usage_field("imported", "ipc", "live_bytes_at_end", opened.live_bytes());
  truth.usage_field("imported", "vmm", "peak_bytes", mapped.peak_bytes());
  truth.usage_field("imported", "vmm", "live_bytes_at_end", mapped.live_bytes());
  truth.check("imports are no allocations", "usage", 0,
              R"(,"where":{"level":"driver"},"field":"allocations","device":0)");
  truth.write();
  return 0;
}

// Runs this program again with one end of a socket pair; returns the other end.
int start_second_process(const char* program, pid_t& child) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) {
    std::perror("socketpair");
    std::exit(1);
  }
  const std::string number = std::to_string(ends[1]);
  char* const arguments[] = {const_cast<char*>(program), const_cast<char*>("--second"),
                             const_cast<char*>(number.c_str()), nullptr};
  if (posix_spawn(&child, "/proc/self/exe", nullptr, nullptr, arguments, environ) != 0) {
    std::perror("posix_spawn of the second process");
    std::exit(1);
  }
  close(ends[1]);
  return ends[0];
}

int run_first_process(const char* program) {
  make_context_current();
  KindLedger device;
  KindLedger physical;
  CUdeviceptr plain = 0;
  require("cuMemAlloc", cuMemAlloc(&plain, kSharedBytes));
  device.allocate(kSharedBytes);
  require("cuMemsetD8", cuMemsetD8(plain, kPlainPattern, kSharedBytes));

  const CUmemAllocationProp properties = exportable_memory();
  std::size_t granularity = 0;
  require(
      "cuMemGetAllocationGranularity",
      cuMemGetAllocationGranularity(&granularity, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
  const std::size_t physical_bytes = 4 * granularity;
  CUmemGenericAllocationHandle handle = 0;
  require("cuMemCreate", cuMemCreate(&handle, physical_bytes, &properties, 0));
  physical.allocate(physical_bytes);
  const CUdeviceptr address = map_memory(handle, physical_bytes);
  require("cuMemsetD8", cuMemsetD8(address, kPhysicalPattern, physical_bytes));
  require("cuCtxSynchronize", cuCtxSynchronize());

  Message message = {};
  message.physical_bytes = physical_bytes;
  report("cuIpcGetMemHandle", cuIpcGetMemHandle(&message.plain, plain));
  int descriptor = -1;
  require("cuMemExportToShareableHandle",
          cuMemExportToShareableHandle(&descriptor, handle,
                                       CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
  std::fflush(stdout);
  pid_t child = 0;
  const int socket = start_second_process(program, child);
  send_message(socket, message, descriptor);
  int status = 0;
  waitpid(child, &status, 0);
  std::printf("second process: %s\n",
              WIFEXITED(status) && WEXITSTATUS(status) == 0 ? "ok" : "failed");

  unmap_memory(address, physical_bytes);
  if (report("cuMemRelease", cuMemRelease(handle))) physical.free(physical_bytes);
  if (report("cuMemFree", cuMemFree(plain))) device.free(kSharedBytes);
  Truth truth("driver_vmm_ipc", ".first");
  truth.usage("driver", "device", device);
  truth.usage("driver", "vmm", physical);
  truth.check("memory of both processes exists once", "devices", kSharedBytes + physical_bytes,
              R"(,"field":"physical_peak.bytes","device":0,"scope":"job")");
  truth.write();
  return status == 0 ? 0 : 1;
}

}  // namespace

int main(int argument_count, char** arguments) {
  if (argument_count == 3 && std::strcmp(arguments[1], "--second") == 0) {
    return run_second_process(std::atoi(arguments[2]));
  }
  return run_first_process(arguments[0]);
}
