// SPDX-License-Identifier: Apache-2.0
// Compares preload/hooks/nvtx_abi.hpp with NVTX 3's own headers, at compile time. Empty without
// them.
#include "preload/hooks/nvtx_abi.hpp"

#if __has_include(<nvtx3/nvToolsExt.h>)
#include <nvtx3/nvToolsExt.h>

namespace {

namespace ours = gpumemtrace::preload::nvtx;

#define GPUMEMTRACE_SAME(ours_value, theirs_value) \
  static_assert(static_cast<long long>(ours_value) == static_cast<long long>(theirs_value))
#define GPUMEMTRACE_CORE(name) GPUMEMTRACE_SAME(ours::Core::k##name, NVTX_CBID_CORE_##name)
#define GPUMEMTRACE_CORE2(name) GPUMEMTRACE_SAME(ours::Core2::k##name, NVTX_CBID_CORE2_##name)
#define GPUMEMTRACE_MEMBER(Ours, our_member, Theirs, their_member)                    \
  static_assert(offsetof(ours::Ours, our_member) == offsetof(Theirs, their_member) && \
                sizeof(ours::Ours::our_member) == sizeof(Theirs::their_member))

GPUMEMTRACE_SAME(ours::kVersion, NVTX_VERSION);
GPUMEMTRACE_SAME(ours::kCallbacksTable, NVTX_ETID_CALLBACKS);
GPUMEMTRACE_SAME(ours::kVersionTable, NVTX_ETID_VERSIONINFO);
GPUMEMTRACE_SAME(ours::Module::kCore, NVTX_CB_MODULE_CORE);
GPUMEMTRACE_SAME(ours::Module::kCore2, NVTX_CB_MODULE_CORE2);
GPUMEMTRACE_CORE(MarkEx);
GPUMEMTRACE_CORE(MarkA);
GPUMEMTRACE_CORE(MarkW);
GPUMEMTRACE_CORE(RangeStartEx);
GPUMEMTRACE_CORE(RangeStartA);
GPUMEMTRACE_CORE(RangeStartW);
GPUMEMTRACE_CORE(RangeEnd);
GPUMEMTRACE_CORE(RangePushEx);
GPUMEMTRACE_CORE(RangePushA);
GPUMEMTRACE_CORE(RangePushW);
GPUMEMTRACE_CORE(RangePop);
GPUMEMTRACE_CORE2(DomainMarkEx);
GPUMEMTRACE_CORE2(DomainRangeStartEx);
GPUMEMTRACE_CORE2(DomainRangeEnd);
GPUMEMTRACE_CORE2(DomainRangePushEx);
GPUMEMTRACE_CORE2(DomainRangePop);
GPUMEMTRACE_CORE2(DomainRegisterStringA);
GPUMEMTRACE_CORE2(DomainRegisterStringW);
GPUMEMTRACE_CORE2(DomainCreateA);
GPUMEMTRACE_CORE2(DomainCreateW);
GPUMEMTRACE_SAME(ours::Message::kAscii, NVTX_MESSAGE_TYPE_ASCII);
GPUMEMTRACE_SAME(ours::Message::kUnicode, NVTX_MESSAGE_TYPE_UNICODE);
GPUMEMTRACE_SAME(ours::Message::kRegistered, NVTX_MESSAGE_TYPE_REGISTERED);
GPUMEMTRACE_SAME(ours::kNoPushPopTracking, NVTX_NO_PUSH_POP_TRACKING);

static_assert(sizeof(ours::Callbacks) == sizeof(NvtxExportTableCallbacks));
GPUMEMTRACE_MEMBER(Callbacks, get_module_function_table, NvtxExportTableCallbacks,
                   GetModuleFunctionTable);
static_assert(sizeof(ours::VersionInfo) == sizeof(NvtxExportTableVersionInfo));
GPUMEMTRACE_MEMBER(VersionInfo, version, NvtxExportTableVersionInfo, version);
GPUMEMTRACE_MEMBER(VersionInfo, set_injection_version, NvtxExportTableVersionInfo,
                   SetInjectionNvtxVersion);
static_assert(sizeof(ours::EventAttributes) == sizeof(nvtxEventAttributes_t));
GPUMEMTRACE_MEMBER(EventAttributes, size, nvtxEventAttributes_t, size);
GPUMEMTRACE_MEMBER(EventAttributes, message_type, nvtxEventAttributes_t, messageType);
GPUMEMTRACE_MEMBER(EventAttributes, message, nvtxEventAttributes_t, message);

}  // namespace
#endif
