// SPDX-License-Identifier: Apache-2.0
/* In C and apart from the rest: LTTng's macros are not clean of our warnings. */
#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#define LTTNG_UST_TRACEPOINT_DEFINE
#include "bench/lttng_events.h"

void bench_lttng_allocation(uint64_t end, uint64_t address, uint64_t bytes, uint64_t stream,
                            uint32_t context);

void bench_lttng_allocation(uint64_t end, uint64_t address, uint64_t bytes, uint64_t stream,
                            uint32_t context) {
  lttng_ust_tracepoint(gpumemtrace_bench, allocation, end, address, bytes, stream, context);
}
