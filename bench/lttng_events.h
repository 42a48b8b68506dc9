// SPDX-License-Identifier: Apache-2.0
/* LTTng-UST's description of one event with the numbers of an allocation record. The form is
 * lttng-ust(3)'s: LTTng reads this file several times. */
#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER gpumemtrace_bench
#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "bench/lttng_events.h"

#if !defined(GPUMEMTRACE_BENCH_LTTNG_EVENTS_H) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)
#define GPUMEMTRACE_BENCH_LTTNG_EVENTS_H

#include <lttng/tracepoint.h>
#include <stdint.h>

/* clang-format off */
LTTNG_UST_TRACEPOINT_EVENT(
    gpumemtrace_bench, allocation,
    LTTNG_UST_TP_ARGS(uint64_t, end, uint64_t, address, uint64_t, bytes, uint64_t, stream,
                      uint32_t, context),
    LTTNG_UST_TP_FIELDS(
        lttng_ust_field_integer(uint64_t, end, end)
        lttng_ust_field_integer_hex(uint64_t, address, address)
        lttng_ust_field_integer(uint64_t, bytes, bytes)
        lttng_ust_field_integer_hex(uint64_t, stream, stream)
        lttng_ust_field_integer(uint32_t, context, context)
    )
)
/* clang-format on */

#endif
#include <lttng/tracepoint-event.h>
