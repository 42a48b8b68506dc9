// SPDX-License-Identifier: Apache-2.0
// Every record of a trace: the recorder fills these structs in the ring, the packer turns their
// fields into columns, the reader turns columns back into these structs, `dump` prints their fields
// and docs/internals/records.txt lists them. This file has the meaning of their fields' values. The
// records are declared in trace/{run,checkpoint,activity}_records.def.
//
// A trace carries its own schema (trace/schema.hpp), so an older reader skips fields that it does
// not know and a newer one fills missing ones with zero.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>

namespace gpumemtrace::trace {

// Word size of the ring: every record starts and ends on a multiple of it.
inline constexpr std::size_t kWordBytes = 8;

enum class RecordKind : std::uint8_t {
  kNone = 0,
#define GPUMEMTRACE_RECORD(Type, number, name, tail) k##Type = number,
#include "trace/every_record.def"
};

// The encodings by which a column turns the values of a field into varints.
enum class Encoding : std::uint8_t {
  kPlain = 0,   // the field's value itself
  kSigned = 1,  // zigzag of the sign-extended value
  kDelta = 2,   // zigzag of the difference to the same field of the previous record of the kind
  kTime = 3,    // zigzag of the difference to the time of the previous record of the chunk
  // 0 while the call runs, else 1 + zigzag of the difference to the record's `time`
  kAfterStart = 4,
};

struct Field {
  std::string_view name;
  std::uint16_t offset = 0;  // offset of the field in the record's struct, in bytes
  std::uint8_t bytes = 0;    // width of the field: 1, 2, 4 or 8
  Encoding encoding = Encoding::kPlain;
};

// The first two words of every record.
struct RecordHeader {
  RecordKind kind = RecordKind::kNone;
  std::uint8_t words = 0;    // length of the record in words, tail included
  std::uint16_t api = 0;     // calls: index of the kApiName record of the function; 0 elsewhere
  std::uint16_t result = 0;  // calls: CUresult, valid once `end` is not 0
  std::uint16_t flags = 0;   // bits: the constants kFlag... in this file
  std::uint64_t time = 0;    // ticks; for a call the time of its start
};

// Bits of RecordHeader::flags. kFlagByPointer: the caller held a pointer from dlsym or
// cuGetProcAddress; without this flag, the caller was linked to the driver.
inline constexpr std::uint16_t kFlagByPointer = 1;
// The call was captured into a CUDA graph, not carried out.
inline constexpr std::uint16_t kFlagCaptured = 2;
// The record's `bytes` is an estimate (arrays).
inline constexpr std::uint16_t kFlagEstimated = 4;
// The call was the stream-ordered variant of the function.
inline constexpr std::uint16_t kFlagAsynchronous = 8;
// Stream 0 of the call means the thread's own stream.
inline constexpr std::uint16_t kFlagPerThreadStream = 16;
// In records of checkpoints and of traces made from a snapshot: this memory held blocks of the
// framework's allocator.
inline constexpr std::uint16_t kFlagSegment = 32;
// In Stack records: the stack had more frames, at its outer end, than were recorded.
inline constexpr std::uint16_t kFlagCut = 64;
// In records of frees, and of blocks taken back: Python's cycle collector ran on the thread.
inline constexpr std::uint16_t kFlagCollected = 128;
// In Block records: `stream` is known. Older traces record neither the flag nor the stream.
inline constexpr std::uint16_t kFlagStream = 256;
// In Stack records of blocks: while the blocks were allocated, PyTorch's autograd recorded for a
// backward pass.
inline constexpr std::uint16_t kFlagAutograd = 512;
// In records of allocations and blocks that existed when recording began: they are older than all
// events. Such an allocation is a segment of the framework: `stream` is the framework's number as
// in Block, and `pool` the number of its private pool; 0 = none. Such a reservation is the address
// space of an expandable segment: `handle` is the number of its stream.
inline constexpr std::uint16_t kFlagEarlier = 1024;

// Ids are types of their own, so that the compiler finds code that confuses them with other
// numbers.
//
// A recorded call stack: the `id` of a Stack record.
enum class StackId : std::uint32_t { kNone = 0 };
[[nodiscard]] constexpr std::uint32_t number_of(StackId stack) noexcept {
  return static_cast<std::uint32_t>(stack);
}
// A CUDA context: the `id` of a Context record, 1 and up in the order in which the process first
// used the contexts. CUPTI's records have context numbers of CUPTI's own.
enum class ContextId : std::uint32_t { kNone = 0 };
[[nodiscard]] constexpr std::uint32_t number_of(ContextId context) noexcept {
  return static_cast<std::uint32_t>(context);
}

// The header of a record of a driver API call. The record is committed before the real call, with
// the call's arguments, and completed after it: `result` and outputs first, `end` last (release).
// `end` is 0 for a call in which the process died or hangs. Outputs are meaningful only if `result`
// is 0.
struct CallHeader {
  RecordHeader record;
  std::uint64_t end = 0;     // ticks at the call's end
  std::uint64_t caller = 0;  // return address of the wrapper
  StackId stack = StackId::kNone;
  ContextId context = ContextId::kNone;  // the current context of the calling thread
};

// The kind of memory that an allocation takes; the report's level and kind follow from it.
enum class MemoryKind : std::uint32_t {
  kUnknown = 0,
  kDevice = 1,
  kPitched = 2,
  kManaged = 3,
  kStreamOrdered = 4,
  kPinned = 5,
  kRegistered = 6,
  kArray = 7,
  kMipmappedArray = 8,
  kPhysical = 9,       // physical memory of cuMemCreate on a device; `address` is the handle
  kPhysicalHost = 10,  // physical memory of cuMemCreate on the host; `address` is the handle
};

enum class MappingOperation : std::uint32_t {
  kReserve = 1,
  kFreeReservation = 2,
  kMap = 3,
  kUnmap = 4,
  kSetAccess = 5,
  kRetainHandle = 6,
  kExport = 7,
  kImport = 8,
  kMulticastCreate = 9,
  kMulticastBind = 10,
  kMulticastUnbind = 11,
  kMapArray = 12,
};

enum class PoolOperation : std::uint32_t {
  kCreate = 1,
  kDestroy = 2,
  kTrim = 3,
  kSetAttribute = 4,
  kSetCurrent = 5,
  kGetDefault = 6,
  kGetCurrent = 7,
  kExport = 8,
  kImport = 9,
};

// The type of memory at one end of a copy, as far as the call's arguments show it (CUmemorytype).
enum class EndType : std::uint8_t {
  kUnknown = 0,
  kHost = 1,
  kDevice = 2,
  kArray = 3,
  kUnified = 4
};

enum class RangeOperation : std::uint32_t {
  kPrefetch = 1,
  kAdvise = 2,
  kAttach = 3,
  kDiscard = 4,
  kDiscardAndPrefetch = 5,
  kStreamWrite = 6,
  kDecompress = 7,
};

enum class ContextOperation : std::uint32_t {
  kCreate = 1,
  kDestroy = 2,
  kSetCurrent = 3,
  kPush = 4,
  kPop = 5,
  kRetainPrimary = 6,
  kReleasePrimary = 7,
  kResetPrimary = 8,
  kGreenCreate = 9,
  kGreenDestroy = 10,
  kEnablePeer = 11,
  kDisablePeer = 12,
  kSetLimit = 13,
};

enum class GraphOperation : std::uint32_t {
  kAddAllocation = 1,
  kAddFree = 2,
  kAddCopy = 3,
  kAddSet = 4,
  kInstantiate = 5,
  kLaunch = 6,
  kDestroyExecutable = 7,
  kDestroy = 8,
  kTrim = 9,
  kBeginCapture = 10,
  kEndCapture = 11,
  kSetNode = 12,
  kUpload = 13,
  kClone = 14,
};

enum class ImportOperation : std::uint32_t {
  kIpcExport = 1,
  kIpcOpen = 2,
  kIpcClose = 3,
  kExternalImport = 4,
  kExternalMap = 5,
  kExternalMapArray = 6,
  kExternalDestroy = 7,
  kPoolExportPointer = 8,
  kPoolImportPointer = 9,
  kGraphicsMap = 10,
  kGraphicsUnmap = 11,
  kGraphicsPointer = 12,
};

enum class Framework : std::uint32_t { kUnknown = 0, kPytorch = 1 };

inline constexpr std::int8_t kCudaDeviceType = 1;  // the value of c10::DeviceType::CUDA

// The files of other tools that a trace can be made from.
enum class SourceKind : std::uint32_t { kUnknown = 0, kPytorchSnapshot = 1 };

enum class SampleSource : std::uint32_t {
  kNone = 0,
  kMemGetInfo = 1,
  kNvmlProcess = 2,
  kNvmlDevice = 3,  // NVML knows the device's use, but not what this process uses of it
};

// The relation of a process that uses a device to the recorded process.
enum class ProcessRelation : std::uint32_t {
  kOther = 0,
  kThis = 1,
  kDescendant = 2,  // a child of the recorded process, or a descendant of a child
};

// The outcome of asking the kernel for the error of its time of day (adjtimex(2)). If a
// process has several outcomes, the analyzer keeps the one with the highest number.
enum class RealtimeState : std::uint32_t {
  kNotAsked = 0,
  // not asked: a filter of system calls (seccomp) is on, which could end the process
  kFiltered = 1,
  kRefused = 2,  // the kernel refused the system call
  kSynchronized = 3,
  kUnsynchronized = 4,  // nothing synchronizes the clock: the kernel's estimates mean nothing
};

inline constexpr std::uint64_t kBytesNotTold = ~std::uint64_t{0};

// Command lines are cut after this many bytes.
inline constexpr std::size_t kMaxCommandLineBytes = 64 << 10;

enum class TextKey : std::uint32_t {
  kNone = 0,
  kExecutable = 1,
  kCommandLine = 2,  // arguments separated by zero bytes
  kHost = 3,
  kBootId = 4,
  kRank = 5,
  kLocalRank = 6,
  kWorldSize = 7,
  kJob = 8,
  kToolVersion = 9,
  kDriverVersion = 10,
  kProcessId = 11,
  kParentProcessId = 12,
  kClockSource = 13,
  kTorchVersion = 14,
  kTorchAllocator = 15,
  kSimulatedDriver = 16,
  kNote = 17,
  kThreadLibrary = 18,
  kPythonVersion = 19,
  kPythonStacksOff = 20,  // why Python frames are not recorded
  kNativeStacksOff = 21,  // why native frames are not recorded
  kSuppression = 22,      // each record's text names a finding to leave out of the report
  // The environment variables PYTORCH_CUDA_ALLOC_CONF and PYTORCH_ALLOC_CONF as they stood when
  // recording began.
  kTorchCudaAllocConf = 23,
  kTorchAllocConf = 24,
  // The allocator options that PyTorch had when recording began, from either variable or set by the
  // program.
  kTorchAllocatorOptions = 25,
  // With kJob, these keys say which traces were recorded together.
  kAttempt = 26,  // the number of earlier starts of the job by the scheduler
  kRun = 27,      // the id of the `gpumemtrace run` that started the process
  kRestart = 28,  // the number of earlier starts of the workers by torchrun
  kArray = 29,    // the scheduler's job array of which the job is a task
  kTask = 30,     // the job's number in that array
};

enum class AllocatorOption : std::uint32_t {
  kText = 1,            // options as in PYTORCH_CUDA_ALLOC_CONF
  kMemoryFraction = 2,  // the part of the device's memory that the process may take
};

enum class CodeText : std::uint32_t { kName = 1, kFile = 2, kLineTable = 3 };

enum class MarkKind : std::uint32_t {
  kUser = 1,      // set by `gpumemtrace ctl mark NAME`
  kStarted = 2,   // recording began or was resumed
  kStopped = 3,   // recording was paused
  kExit = 4,      // the process runs its exit handlers
  kDisabled = 5,  // recording ended for good; the record's tail says why
  // the process is about to call exec; a record after this one means that exec failed
  kExec = 6,
};

enum class AnnotationOperation : std::uint32_t {
  kStep = 1,   // a new step begins; `value` is its number, or ~0 if it has none
  kMark = 2,   // a point of time, with a name
  kPush = 3,   // a range of this thread begins
  kPop = 4,    // the innermost range of this thread ends
  kStart = 5,  // a range of the process begins; `value` names it
  kEnd = 6,    // the range that `value` names ends
};

enum class AnnotationSource : std::uint16_t { kUnknown = 0, kApi = 1, kNvtx = 2 };

// The name of a mark: memory allocated before the mark is no leak. The macro
// GPUMEMTRACE_LEAKS_FROM_HERE of gpumemtrace.h sets it.
inline constexpr std::string_view kLeaksFromHere = "gpumemtrace: leaks from here";

enum class TensorRole : std::uint32_t {
  kUnknown = 0,
  kParameter = 1,
  kGradient = 2,
  kOptimizerState = 3,
  kBuffer = 4,  // a tensor of a module that is no parameter: running means, masks
};

// --- Checkpoints.

// The memory class at one end of a copy, found by the allocations before the copy and by the call's
// own type. kUnknown: the reader uses the call's own type.
enum class Place : std::uint8_t {
  kUnknown = 0,
  kPinned = 1,
  kDevice = 2,
  kManaged = 3,
  kPageable = 4,
  kArray = 5,
};

// The device ordinal that stands for an unknown device: in Totals::location for calls in a context
// that was not announced yet, and after reading for ordinals that no device has.
inline constexpr std::int32_t kNoKnownDevice = -2;

// Tells if one call site freed all allocations whose free is known.
enum class FreedAt : std::uint32_t { kNotTold = 0, kOnePlace = 1, kSeveralPlaces = 2 };

enum class PeakScope : std::uint32_t {
  kDriver = 1,     // all driver memory of the device
  kPools = 2,      // all stream-ordered allocations of the device
  kManaged = 3,    // all managed memory of the device
  kHost = 4,       // all page-locked host memory
  kFramework = 5,  // all framework blocks of the device
  kKind = 6,       // memory of one kind on the device; stream-ordered memory: of one pool
  // The bytes that the framework itself reported as reserved. peak_time is the time of its last
  // report, pool_reserved the bytes reserved at the checkpoint's cut: the time up to which the
  // checkpoint replaces records.
  kFrameworkReserved = 7,
  kPhysical = 8,  // driver memory of the device and the bytes that pools reserve of it
  // The scopes from here on are no peaks: they are the state with which the rest of the trace
  // begins. kPoolReserved: bytes of the pool at the cut; pool_reserved is the most that the pool
  // ever held.
  kPoolReserved = 9,
  kLastSample = 10,  // bytes that the process held by its own calls at the last memory sample
  // the sample at which the device's pools held most, in pool_used and pool_reserved
  kPoolSamples = 11,
};

// The curve of memory over time: of everything in use on a card, or of one process on it.
enum class CurveOf : std::uint8_t { kCard = 1, kJob = 2 };

// A part of the memory that the driver took by itself, without being asked. Calls of one cause led
// to it, or the limits of contexts tell its size.
enum class DriverPart : std::uint8_t {
  kContext = 0,
  kModules = 1,
  kGraphs = 2,
  kLocalMemory = 3,
  kLocalMemoryOfNewContexts = 4,  // the part of kLocalMemory that came with new contexts
  kHeap = 5,
};

enum class DriverMoment : std::uint8_t {
  kNow = 1,          // bytes at the cut: the time up to which a checkpoint replaces records
  kPeak = 2,         // bytes at the sample at which the driver had taken most
  kSinceSample = 3,  // calls since the last sample; how much the driver took for them is not known
};

// The allocation at the address of a free that the driver refused.
enum class FreedWhat : std::uint32_t {
  kLiveMemory = 0,   // a live allocation: the address is right, the function is not
  kFreedBefore = 1,  // the allocation was freed, and nothing was allocated there since
  kEndedBefore = 2,  // the allocation ended with its context
  kInsideLive = 3,   // an address within an allocation, not its start
  kNothingKnown = 4,
};

// A bit of allocated_flags and freed_flags of RefusedFree, beside kFlagByPointer: the call site is
// known.
inline constexpr std::uint16_t kRefusedFreeKnown = 2;

// --- CUPTI's activities.

enum class ActivityDomain : std::uint16_t { kDriver = 1, kRuntime = 2 };

enum class ActivityMode : std::uint16_t { kOff = 0, kCopies = 1, kFull = 2, kLost = 3 };

#define GPUMEMTRACE_RECORD(Type, number, name, tail) \
  struct Type {                                      \
    RecordHeader record;
#define GPUMEMTRACE_CALL_RECORD(Type, number, name, tail) \
  struct Type {                                           \
    CallHeader call;
#define GPUMEMTRACE_FIELD(type, name, initial, encoding) type name = initial;
// clang-format off
#define GPUMEMTRACE_END };
// clang-format on
#include "trace/every_record.def"

}  // namespace gpumemtrace::trace
