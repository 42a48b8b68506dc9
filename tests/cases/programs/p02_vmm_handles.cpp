// SPDX-License-Identifier: Apache-2.0
// A memory resource over the driver's virtual memory functions, as a serving engine uses it for the key/value pages of
// its requests: allocate, grow while the answer gets longer, close. usage: p02_vmm_handles [clean]
#include <cuda.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

static void check(CUresult result, int line) {
  if (result == CUDA_SUCCESS) return;
  const char* text = "?";
  cuGetErrorName(result, &text);
  std::fprintf(stderr, "%s:%d: %s\n", __FILE__, line, text);
  std::exit(3);
}
#define CHECK(call) check((call), __LINE__)

static const size_t MiB = size_t(1) << 20;

struct Buffer {
  CUdeviceptr address = 0;
  size_t size = 0;
};

class VirtualMemory {
 public:
  VirtualMemory(CUdevice device, bool release_after_map) : release_(release_after_map) {
    prop_.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    prop_.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    prop_.location.id = device;
    access_.location = prop_.location;
    access_.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    CHECK(cuMemGetAllocationGranularity(&granularity_, &prop_, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED));
  }

  Buffer allocate(size_t size) {
    Buffer buffer;
    buffer.size = round_up(size);
    CHECK(cuMemAddressReserve(&buffer.address, buffer.size, 0, 0, 0));
    back(buffer.address, buffer.size);
    return buffer;
  }

  // A larger range; the pages that are there already are mapped into it, new ones come behind them.
  void grow(Buffer& buffer, size_t size) {
    Buffer larger;
    larger.size = round_up(size);
    CHECK(cuMemAddressReserve(&larger.address, larger.size, 0, 0, 0));
    std::vector<size_t>& pieces = pieces_[buffer.address];
    std::vector<size_t> moved;
    size_t offset = 0;
    for (size_t piece : pieces) {
      CUmemGenericAllocationHandle old;
      CHECK(cuMemRetainAllocationHandle(&old, reinterpret_cast<void*>(buffer.address + offset)));
      CHECK(cuMemUnmap(buffer.address + offset, piece));
      CHECK(cuMemMap(larger.address + offset, piece, 0, old, 0));
      CHECK(cuMemSetAccess(larger.address + offset, piece, &access_, 1));
      CHECK(cuMemRelease(old));
      moved.push_back(piece);
      offset += piece;
    }
    CHECK(cuMemAddressFree(buffer.address, buffer.size));
    pieces_.erase(buffer.address);
    pieces_[larger.address] = moved;
    back(larger.address + offset, larger.size - offset, larger.address);
    buffer = larger;
  }

  void close(Buffer& buffer) {
    size_t offset = 0;
    for (size_t piece : pieces_[buffer.address]) {
      CUmemGenericAllocationHandle handle;
      CHECK(cuMemRetainAllocationHandle(&handle, reinterpret_cast<void*>(buffer.address + offset)));
      CHECK(cuMemUnmap(buffer.address + offset, piece));
      CHECK(cuMemRelease(handle));
      offset += piece;
    }
    CHECK(cuMemAddressFree(buffer.address, buffer.size));
    pieces_.erase(buffer.address);
    buffer = Buffer();
  }

  size_t created_bytes() const { return created_bytes_; }
  size_t never_released_bytes() const { return kept_bytes_; }
  long never_released() const { return kept_; }

 private:
  size_t round_up(size_t n) const { return (n + granularity_ - 1) / granularity_ * granularity_; }

  void back(CUdeviceptr where, size_t size, CUdeviceptr owner = 0) {
    CUmemGenericAllocationHandle handle;
    CHECK(cuMemCreate(&handle, size, &prop_, 0));  //!FAULT
    CHECK(cuMemMap(where, size, 0, handle, 0));
    if (release_) {
      CHECK(cuMemRelease(handle));
    } else {
      kept_++;
      kept_bytes_ += size;
    }
    CHECK(cuMemSetAccess(where, size, &access_, 1));
    pieces_[owner ? owner : where].push_back(size);
    created_bytes_ += size;
  }

  CUmemAllocationProp prop_ = {};
  CUmemAccessDesc access_ = {};
  size_t granularity_ = 0;
  bool release_;
  size_t created_bytes_ = 0, kept_bytes_ = 0;
  long kept_ = 0;
  std::map<CUdeviceptr, std::vector<size_t>> pieces_;
};

class Request {
 public:
  Request(VirtualMemory& memory, int id) : memory_(memory), id_(id), pages_(memory.allocate(32 * MiB)) { fill(); }
  ~Request() { memory_.close(pages_); }
  void decode_long_answer() {
    memory_.grow(pages_, 64 * MiB);
    fill();
  }

 private:
  void fill() { CHECK(cuMemsetD8(pages_.address, static_cast<unsigned char>(id_), pages_.size)); }
  VirtualMemory& memory_;
  int id_;
  Buffer pages_;
};

static size_t free_bytes() {
  size_t free = 0, total = 0;
  CHECK(cuMemGetInfo(&free, &total));
  return free;
}

int main(int argc, char** argv) {
  bool clean = argc > 1 && std::string(argv[1]) == "clean";
  CUdevice device;
  CUcontext context;
  CHECK(cuInit(0));
  CHECK(cuDeviceGet(&device, 0));
  CHECK(cuDevicePrimaryCtxRetain(&context, device));
  CHECK(cuCtxSetCurrent(context));
  CUdeviceptr weights;
  CHECK(cuMemAlloc(&weights, 256 * MiB));
  CHECK(cuMemsetD8(weights, 1, 256 * MiB));
  CHECK(cuCtxSynchronize());

  size_t before = free_bytes();
  VirtualMemory memory(device, clean);
  const int requests = 48;
  for (int i = 0; i < requests; ++i) {
    Request request(memory, i);
    if (i % 3 == 0) request.decode_long_answer();
    CHECK(cuCtxSynchronize());
  }
  size_t after = free_bytes();
  CHECK(cuMemFree(weights));
  std::printf("TRUTH {\"case\": \"p02\", \"mode\": \"%s\", \"requests\": %d, \"created_bytes\": %zu, "
              "\"handles_never_released\": %ld, \"leaked_bytes\": %zu, \"missing_bytes_approx\": %lld}\n",
              clean ? "clean" : "faulty", requests, memory.created_bytes(), memory.never_released(),
              memory.never_released_bytes(), static_cast<long long>(before) - static_cast<long long>(after));
  std::fflush(stdout);
  CHECK(cuDevicePrimaryCtxRelease(device));
  return 0;
}
