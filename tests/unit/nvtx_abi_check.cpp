// SPDX-License-Identifier: Apache-2.0
// Compares preload/hooks/nvtx_abi.hpp with NVTX 3's own headers, at compile time. Without those
// headers this file is empty.
#include "preload/hooks/nvtx_abi.hpp"

#if __has_include(<nvtx3/nvToolsExt.h>)
#include <nvtx3/nvToolsExt.h>
#if __has_include(<nvtx3/nvToolsExtPayload.h>)
#include <nvtx3/nvToolsExtPayload.h>
#endif

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
GPUMEMTRACE_MEMBER(EventAttributes, payload_type, nvtxEventAttributes_t, payloadType);
GPUMEMTRACE_MEMBER(EventAttributes, payload_count, nvtxEventAttributes_t, reserved0);
GPUMEMTRACE_MEMBER(EventAttributes, payload, nvtxEventAttributes_t, payload);
GPUMEMTRACE_MEMBER(EventAttributes, message_type, nvtxEventAttributes_t, messageType);
GPUMEMTRACE_MEMBER(EventAttributes, message, nvtxEventAttributes_t, message);

// Older toolkits have other names for these constants.
#ifdef NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_TYPE
GPUMEMTRACE_SAME(ours::kPayloadModule, NVTX_EXT_PAYLOAD_MODULEID);
GPUMEMTRACE_SAME(ours::kExtendedPayload, NVTX_PAYLOAD_TYPE_EXT);
GPUMEMTRACE_SAME(ours::Payload::kSchemaRegister, NVTX3EXT_CBID_nvtxPayloadSchemaRegister);
GPUMEMTRACE_SAME(ours::Payload::kRangePush, NVTX3EXT_CBID_nvtxRangePushPayload);
GPUMEMTRACE_SAME(ours::Payload::kRangePop, NVTX3EXT_CBID_nvtxRangePopPayload);
GPUMEMTRACE_SAME(ours::EntryType::kInt, NVTX_PAYLOAD_ENTRY_TYPE_INT);
GPUMEMTRACE_SAME(ours::EntryType::kUint64, NVTX_PAYLOAD_ENTRY_TYPE_UINT64);
GPUMEMTRACE_SAME(ours::kStaticSchema, NVTX_PAYLOAD_SCHEMA_TYPE_STATIC);
GPUMEMTRACE_SAME(ours::kSchemaHasType, NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_TYPE);
GPUMEMTRACE_SAME(ours::kSchemaHasEntries, NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_ENTRIES);
GPUMEMTRACE_SAME(ours::kSchemaHasEntryCount, NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_NUM_ENTRIES);
GPUMEMTRACE_SAME(ours::kSchemaHasId, NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_SCHEMA_ID);

static_assert(sizeof(ours::ExtensionSegment) == sizeof(nvtxExtModuleSegment_t));
GPUMEMTRACE_MEMBER(ExtensionSegment, slot_count, nvtxExtModuleSegment_t, slotCount);
GPUMEMTRACE_MEMBER(ExtensionSegment, slots, nvtxExtModuleSegment_t, functionSlots);
static_assert(sizeof(ours::ExtensionModule) == sizeof(nvtxExtModuleInfo_t));
GPUMEMTRACE_MEMBER(ExtensionModule, module_id, nvtxExtModuleInfo_t, moduleId);
GPUMEMTRACE_MEMBER(ExtensionModule, segment_count, nvtxExtModuleInfo_t, segmentsCount);
GPUMEMTRACE_MEMBER(ExtensionModule, segments, nvtxExtModuleInfo_t, segments);
static_assert(sizeof(ours::PayloadData) == sizeof(nvtxPayloadData_t));
GPUMEMTRACE_MEMBER(PayloadData, bytes, nvtxPayloadData_t, size);
GPUMEMTRACE_MEMBER(PayloadData, content, nvtxPayloadData_t, payload);
static_assert(sizeof(ours::SchemaEntry) == sizeof(nvtxPayloadSchemaEntry_t));
GPUMEMTRACE_MEMBER(SchemaEntry, flags, nvtxPayloadSchemaEntry_t, flags);
GPUMEMTRACE_MEMBER(SchemaEntry, type, nvtxPayloadSchemaEntry_t, type);
GPUMEMTRACE_MEMBER(SchemaEntry, name, nvtxPayloadSchemaEntry_t, name);
GPUMEMTRACE_MEMBER(SchemaEntry, offset, nvtxPayloadSchemaEntry_t, offset);
GPUMEMTRACE_MEMBER(SchemaAttributes, set_members, nvtxPayloadSchemaAttr_t, fieldMask);
GPUMEMTRACE_MEMBER(SchemaAttributes, type, nvtxPayloadSchemaAttr_t, type);
GPUMEMTRACE_MEMBER(SchemaAttributes, entries, nvtxPayloadSchemaAttr_t, entries);
GPUMEMTRACE_MEMBER(SchemaAttributes, entry_count, nvtxPayloadSchemaAttr_t, numEntries);
GPUMEMTRACE_MEMBER(SchemaAttributes, id, nvtxPayloadSchemaAttr_t, schemaId);
#endif

}  // namespace
#endif
