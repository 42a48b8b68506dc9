// SPDX-License-Identifier: Apache-2.0
// Makes ranges and marks through NVTX, with NVTX's own headers if the toolkit is there
// (nvtx_ranges_real), else with a small client of our own. Prints the results of the calls. With
// the argument `only` it never uses CUDA.
#include <string_view>

#ifdef GPUMEMTRACE_REAL_NVTX
#include <nvtx3/nvToolsExt.h>
#else
#include "tests/end_to_end/victims/small_nvtx.hpp"
#endif

#include "tests/end_to_end/victims/driver_calls.hpp"

int main(int argc, char** argv) {
  using namespace gpumemtrace::victims;
  const bool use_cuda = argc < 2 || std::string_view(argv[1]) != "only";
  nvtxInitialize(nullptr);
  // The domain and the string are registered before the recording begins and used after.
  const nvtxDomainHandle_t domain = nvtxDomainCreateA("library");
  const nvtxStringHandle_t registered = nvtxDomainRegisterStringA(domain, "registered");
  if (use_cuda) {
    start_driver();
    free_memory(allocate(4096));
  }

  nvtxEventAttributes_t event = {};
  event.version = NVTX_VERSION;
  event.size = sizeof event;
  event.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
  event.message.registered = registered;

  const int outer = nvtxRangePushA("ProfilerStep#7");
  const int inner = nvtxRangePushW(L"w\u00efde");
  const int in_domain = nvtxDomainRangePushEx(domain, &event);
  if (use_cuda) free_memory(allocate(1 << 20));
  const int left_domain = nvtxDomainRangePop(domain);
  nvtxMarkA("marked");
  const int left_inner = nvtxRangePop();
  const int left_outer = nvtxRangePop();
  event.messageType = NVTX_MESSAGE_TYPE_ASCII;
  event.message.ascii = "process range";
  const nvtxRangeId_t id = nvtxRangeStartEx(&event);
  if (use_cuda) free_memory(allocate(2 << 20));
  nvtxRangeEnd(id);
  std::printf("%d %d %d %d %d %d %llu\n", outer, inner, in_domain, left_domain, left_inner,
              left_outer, static_cast<unsigned long long>(id));
  return 0;
}
