// SPDX-License-Identifier: Apache-2.0
// Every record of a trace, declared once: the recorder fills these structs in the ring, the packer
// turns their fields into columns, the reader turns columns back into these structs, `dump` prints
// their fields and docs/format.md lists them.
//
// Rules for a change: kinds and fields are append-only, numbers are never reused. A trace carries
// its own schema (trace/schema.hpp), so an older reader skips what it does not know and a newer one
// fills what is missing with zero.
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
  // Calls of the driver API: one slot a call, filled in two steps (see CallHeader).
  kAllocation = 1,
  kFree = 2,
  kMapping = 3,
  kPool = 4,
  kCopy = 5,
  kSet = 6,
  kRange = 7,
  kContextCall = 8,
  kGraph = 9,
  kImport = 10,
  kOtherCall = 11,
  // The framework's own allocator.
  kBlock = 20,
  kFrameworkOom = 21,
  // What the background thread observes.
  kClock = 30,
  kMemorySample = 31,
  kPoolSample = 32,
  // Dictionary: what the numbers in other records mean.
  kThread = 40,
  kContext = 41,
  kDevice = 42,
  kModule = 43,
  kApiName = 44,
  kText = 45,
  kUnwrapped = 46,
  kRequester = 47,
  kStack = 48,
  kCode = 49,
  // The course of the trace itself.
  kMark = 50,
  kGap = 51,
  kAnnotation = 52,
  kWaitingStack = 53,
  kName = 54,
  kTensor = 55,
  // What a checkpoint keeps of records that are gone (trace/checkpoint_records.hpp).
  kTotals = 60,
  kPeak = 61,
  kPeakHolder = 62,
  kCheckpoint = 63,
  kRefusedFree = 64,
  kRecentFree = 65,
  // CUPTI's activity records (trace/activity_records.hpp).
  kActivityCall = 70,
  kActivityCopy = 71,
  kActivitySet = 72,
  kActivityMemory = 73,
  kActivityPool = 74,
  kActivityManaged = 75,
  kActivityOverhead = 76,
  kActivityKernel = 77,
  kActivityClock = 78,
  kActivityState = 79,
  kActivityDropped = 80,
};

// How a column of values is written before compression.
enum class Encoding : std::uint8_t {
  kPlain = 0,       // the value
  kSigned = 1,      // zigzag of the sign-extended value
  kDelta = 2,       // zigzag of the difference to the same field of the previous record of the kind
  kTime = 3,        // zigzag of the difference to the time of the previous record of the chunk
  kAfterStart = 4,  // 0 while the call runs, else 1 + zigzag of the difference to the own time
};

struct Field {
  std::string_view name;
  std::uint16_t offset = 0;  // in the struct
  std::uint8_t bytes = 0;    // 1, 2, 4 or 8
  Encoding encoding = Encoding::kPlain;
};

// First two words of every record.
struct RecordHeader {
  RecordKind kind = RecordKind::kNone;
  std::uint8_t words = 0;    // length in words, tail included
  std::uint16_t api = 0;     // calls: index of the kApiName record; 0 elsewhere
  std::uint16_t result = 0;  // calls: CUresult, valid once `end` is not 0
  std::uint16_t flags = 0;   // kFlag...
  std::uint64_t time = 0;    // ticks; for a call its start
};

// Bits of `flags`.
// The caller held a pointer from dlsym or cuGetProcAddress; else it was linked to the driver.
inline constexpr std::uint16_t kFlagByPointer = 1;
// The call was captured into a graph, not carried out.
inline constexpr std::uint16_t kFlagCaptured = 2;
// `bytes` is an estimate (arrays).
inline constexpr std::uint16_t kFlagEstimated = 4;
// The stream-ordered variant of the function.
inline constexpr std::uint16_t kFlagAsynchronous = 8;
// Stream 0 means the thread's own stream.
inline constexpr std::uint16_t kFlagPerThreadStream = 16;
// Set by checkpoints: the framework dealt blocks from this memory.
inline constexpr std::uint16_t kFlagSegment = 32;
// Stacks: there were more frames, at the outer end.
inline constexpr std::uint16_t kFlagCut = 64;
// Frees, and blocks taken back: Python's cycle collector ran on the thread.
inline constexpr std::uint16_t kFlagCollected = 128;
// Blocks: `stream` is known. Traces from before it was recorded have neither.
inline constexpr std::uint16_t kFlagStream = 256;

// A call of the driver API. The slot is committed before the real call with its arguments and
// completed after it: `result` and outputs first, `end` last (release). `end` is 0 for a call that
// the process died in, or hangs in. Outputs are meaningful only where `result` is 0.
struct CallHeader {
  RecordHeader record;
  std::uint64_t end = 0;      // ticks
  std::uint64_t caller = 0;   // return address of the wrapper
  std::uint32_t stack = 0;    // StackId; 0 = none recorded
  std::uint32_t context = 0;  // ContextId of the calling thread; 0 = none known
};

// Memory kinds of an allocation; level and kind of the report follow from it.
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
  kPhysical = 9,       // cuMemCreate on a device; `address` is the handle
  kPhysicalHost = 10,  // cuMemCreate on the host
};

struct Allocation {
  CallHeader call;
  std::uint64_t address = 0;  // or the handle of an array or of physical memory
  std::uint64_t bytes = 0;    // as requested; pitched: pitch * height
  std::uint64_t stream = 0;
  std::uint64_t pool = 0;  // 0 = the current pool of the stream's device
  MemoryKind memory = MemoryKind::kUnknown;
  std::int32_t location = -1;  // device ordinal that the arguments name; -1 = the context's
};

struct Free {
  CallHeader call;
  std::uint64_t address = 0;
  std::uint64_t stream = 0;
  MemoryKind memory = MemoryKind::kUnknown;  // which family of free function; kDevice for cuMemFree
  std::uint32_t reserved = 0;
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

// Virtual memory management: address space, never physical bytes of its own.
struct Mapping {
  CallHeader call;
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;
  std::uint64_t offset = 0;
  std::uint64_t handle = 0;
  MappingOperation operation = MappingOperation::kReserve;
  std::int32_t location = -1;
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

struct Pool {
  CallHeader call;
  std::uint64_t pool = 0;
  std::uint64_t value = 0;  // trim: bytes to keep; attribute: its value; create: maximum size
  PoolOperation operation = PoolOperation::kCreate;
  std::uint32_t attribute = 0;
  std::int32_t device = -1;
  std::uint32_t reserved = 0;
};

// What an end of a copy is, as far as the arguments say it (CUmemorytype).
enum class EndType : std::uint8_t {
  kUnknown = 0,
  kHost = 1,
  kDevice = 2,
  kArray = 3,
  kUnified = 4
};

struct Copy {
  CallHeader call;
  std::uint64_t destination = 0;
  std::uint64_t source = 0;
  std::uint64_t bytes = 0;
  std::uint64_t stream = 0;
  EndType destination_type = EndType::kUnknown;
  EndType source_type = EndType::kUnknown;
  std::uint16_t dimensions = 1;
  std::uint32_t part = 0;     // index within a batched call; part 0 stands for the call itself
  std::uint64_t content = 0;  // hash of the source's bytes before the call; 0 = not taken
};

struct Set {
  CallHeader call;
  std::uint64_t destination = 0;
  std::uint64_t bytes = 0;
  std::uint64_t stream = 0;
  std::uint32_t value = 0;
  std::uint32_t element_bytes = 1;
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

// Calls about a range of existing memory that move or advise and allocate nothing.
struct Range {
  CallHeader call;
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;
  std::uint64_t stream = 0;
  RangeOperation operation = RangeOperation::kPrefetch;
  std::int32_t value = 0;  // location ordinal, advice or flags
  std::uint32_t part = 0;
  std::uint32_t reserved = 0;
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

struct ContextCall {
  CallHeader call;
  std::uint64_t handle = 0;
  std::uint64_t value = 0;
  ContextOperation operation = ContextOperation::kCreate;
  std::int32_t device = -1;
  std::uint32_t still_active = 0;    // release: 1 where the primary context stayed active
  std::uint32_t handle_context = 0;  // ContextId of `handle`
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

struct Graph {
  CallHeader call;
  std::uint64_t graph = 0;       // instantiate: the graph; launch: the executable
  std::uint64_t executable = 0;  // instantiate: the new executable
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;
  std::uint64_t stream = 0;
  GraphOperation operation = GraphOperation::kAddAllocation;
  std::int32_t device = -1;
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

// Memory of another process or API that becomes visible here.
struct Import {
  CallHeader call;
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;  // 0 = not told by the call
  std::uint64_t handle = 0;
  ImportOperation operation = ImportOperation::kIpcOpen;
  std::uint32_t reserved = 0;
};

// A call that matters for its time and result only: module loads, initialisation.
struct OtherCall {
  CallHeader call;
  std::uint64_t argument = 0;
};

enum class Framework : std::uint32_t { kUnknown = 0, kPytorch = 1 };

inline constexpr std::int8_t kCudaDeviceType = 1;  // c10::DeviceType::CUDA

// A block of the framework's caching allocator; positive bytes: handed out, negative: taken back.
struct Block {
  RecordHeader record;
  std::uint64_t address = 0;
  std::int64_t bytes = 0;
  std::uint64_t allocated = 0;       // the framework's own total of the device after this event
  std::uint64_t reserved_bytes = 0;  // likewise, segments
  std::uint32_t stack = 0;
  std::int8_t device_type = 0;  // c10::DeviceType
  std::int8_t device = -1;
  std::uint16_t framework = 0;
  // With kFlagStream: the framework's current stream of the calling thread on the device, by the
  // framework's own number (c10::StreamId, no handle of the driver; 0 is its default stream).
  std::int64_t stream = 0;
  // What the program asked for, of a block that was handed out; 0 = not known.
  std::uint64_t requested = 0;
};

struct FrameworkOom {
  RecordHeader record;
  std::uint64_t requested = 0;
  std::uint64_t allocated = 0;
  std::uint64_t reserved_bytes = 0;
  std::uint32_t stack = 0;
  std::int8_t device_type = 0;
  std::int8_t device = -1;
  std::uint16_t framework = 0;
};

// Pairs the tick clock with the system's clocks, about once a second and at both ends.
struct Clock {
  RecordHeader record;
  std::uint64_t monotonic_ns = 0;
  std::uint64_t realtime_ns = 0;
  std::uint64_t uncertainty_ticks = 0;
  std::uint64_t background_cpu_ns = 0;  // processor time of the recorder's thread so far
};

enum class SampleSource : std::uint32_t { kNone = 0, kMemGetInfo = 1, kNvmlProcess = 2 };

struct MemorySample {
  RecordHeader record;
  std::uint64_t free_bytes = 0;
  std::uint64_t total_bytes = 0;
  std::uint64_t process_bytes = 0;  // NVML's number for this process; 0 with kMemGetInfo
  std::uint64_t other_bytes = 0;    // NVML's sum over other processes; 0 with kMemGetInfo
  SampleSource source = SampleSource::kNone;
  std::int32_t device = -1;
};

struct PoolSample {
  RecordHeader record;
  std::uint64_t pool = 0;
  std::uint64_t reserved_current = 0;
  std::uint64_t reserved_high = 0;
  std::uint64_t used_current = 0;
  std::uint64_t used_high = 0;
  std::int32_t device = -1;
  std::uint32_t reserved = 0;
};

// The records that follow in this writer's stream are this thread's. Tail: its name.
struct Thread {
  RecordHeader record;
  std::uint64_t thread_id = 0;     // the system's
  std::uint64_t pthread_self = 0;  // 0 = not known
  std::uint32_t writer = 0;        // in checkpoints: in whose stream the record stood
  std::uint32_t reserved = 0;
};

struct Context {
  RecordHeader record;
  std::uint64_t handle = 0;
  std::uint32_t id = 0;
  std::int32_t device = -1;
  std::uint32_t primary = 0;
  std::uint32_t reserved = 0;
};

// Tail: the device's name.
struct Device {
  RecordHeader record;
  std::uint64_t total_bytes = 0;
  std::uint64_t uuid_low = 0;  // the 16 bytes of CUuuid, little-endian halves
  std::uint64_t uuid_high = 0;
  std::int32_t ordinal = -1;
  std::uint32_t reserved = 0;
  std::uint32_t pcie_generation = 0;  // the most that device and board agree on; 0 = not known
  std::uint32_t pcie_width = 0;       // lanes, likewise
};

// A file mapped into the process. Tail: its path.
struct Module {
  RecordHeader record;
  std::uint64_t base = 0;   // load address of the file's virtual address 0
  std::uint64_t begin = 0;  // first and last + 1 address of its segments
  std::uint64_t end = 0;
  std::uint64_t unloaded = 0;  // 1 where it was seen to be gone
  // The first 24 bytes of the file's build-id note, as they stand in memory; unused ones are 0.
  std::uint64_t build_id_0 = 0;
  std::uint64_t build_id_1 = 0;
  std::uint64_t build_id_2 = 0;
  std::uint32_t build_id_bytes = 0;  // 0 = the file has none
  std::uint32_t reserved = 0;
};

// Tail: exported symbol, a zero byte, then the runtime function that reaches it (may be empty).
struct ApiName {
  RecordHeader record;
  std::uint32_t id = 0;
  std::uint32_t record_kind = 0;
};

// A longer command line is cut there.
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
  kSuppression = 22,      // each part a line: a finding that the program wants left out
  // PYTORCH_CUDA_ALLOC_CONF and PYTORCH_ALLOC_CONF as they stood when recording began.
  kTorchCudaAllocConf = 23,
  kTorchAllocConf = 24,
};

// Tail: the text. Texts longer than a record's room come in several records of increasing `part`.
struct Text {
  RecordHeader record;
  TextKey key = TextKey::kNone;
  std::uint32_t part = 0;
};

// A memory function that the process resolved and that is not wrapped. Tail: its name.
struct Unwrapped {
  RecordHeader record;
  std::uint64_t address = 0;
};

// Code that asked cuGetProcAddress for the driver's table: a CUDA runtime lives around `caller`.
struct Requester {
  RecordHeader record;
  std::uint64_t caller = 0;
};

// A call stack, innermost frame first. Tail: one word a Python frame, the number of its code object
// in the upper half, the byte offset of the running instruction in the lower; then one word a
// native frame, its return address; where a signal interrupted it, the address + 1.
struct Stack {
  RecordHeader record;
  std::uint32_t id = 0;  // what `stack` of other records names
  std::uint32_t python_frames = 0;
  std::uint32_t python_version = 0;  // PY_VERSION_HEX: tells the form of the line tables
  std::uint32_t native_frames = 0;
};

enum class CodeText : std::uint32_t { kName = 1, kFile = 2, kLineTable = 3 };

// One text of a Python code object. Tail: the text, or a piece of it.
struct Code {
  RecordHeader record;
  std::uint32_t id = 0;
  std::uint32_t first_line = 0;
  CodeText text = CodeText::kName;
  std::uint32_t part = 0;
  std::uint32_t bytes = 0;  // of this piece; a line table may end in zeros
  std::uint32_t reserved = 0;
};

enum class MarkKind : std::uint32_t {
  kUser = 1,      // gpumemtrace ctl mark NAME
  kStarted = 2,   // recording began or went on
  kStopped = 3,   // recording was paused
  kExit = 4,      // the process runs its exit handlers
  kDisabled = 5,  // recording ended for good; the tail says why
  kExec = 6,      // the process is about to replace itself; what follows says that it could not
};

// Tail: the name.
struct Mark {
  RecordHeader record;
  MarkKind mark = MarkKind::kUser;
  std::uint32_t reserved = 0;
};

enum class AnnotationOperation : std::uint32_t {
  kStep = 1,   // a new step begins; `value` is its number, or ~0 where it has none
  kMark = 2,   // a moment
  kPush = 3,   // a range of this thread begins
  kPop = 4,    // its innermost range ends
  kStart = 5,  // a range of the process begins; `value` names it
  kEnd = 6,    // the range `value` ends
};

enum class AnnotationSource : std::uint16_t { kUnknown = 0, kApi = 1, kNvtx = 2 };

// What the program says of its own course, through gpumemtrace.h or NVTX.
struct Annotation {
  RecordHeader record;
  std::uint64_t value = 0;
  AnnotationOperation operation = AnnotationOperation::kMark;
  std::uint32_t name = 0;    // NameId; 0 = none
  std::uint32_t domain = 0;  // NameId of NVTX's domain; 0 = the default one
  AnnotationSource source = AnnotationSource::kUnknown;
  std::uint16_t reserved = 0;
};

// The Python stack of a thread that waited in native code when the background thread looked.
struct WaitingStack {
  RecordHeader record;
  std::uint64_t thread_id = 0;  // 0 = not known
  std::uint32_t stack = 0;      // 0, of older recorders: it waits no more
  std::uint32_t reserved = 0;
};

// The name of a mark: what is allocated before it is no leak. GPUMEMTRACE_LEAKS_FROM_HERE of
// gpumemtrace.h.
inline constexpr std::string_view kLeaksFromHere = "gpumemtrace: leaks from here";

// A text that annotations and tensors name. Tail: the text.
struct Name {
  RecordHeader record;
  std::uint32_t id = 0;
  std::uint32_t reserved = 0;
};

enum class TensorRole : std::uint32_t {
  kUnknown = 0,
  kParameter = 1,
  kGradient = 2,
  kOptimizerState = 3,
  kBuffer = 4,  // of a module, beside its parameters: running means, masks
};

// What a storage of the framework is, as the program says while it is alive.
struct Tensor {
  RecordHeader record;
  std::uint64_t address = 0;  // of the storage's first byte
  std::uint64_t bytes = 0;    // of the storage, as the program asked for it
  TensorRole role = TensorRole::kUnknown;
  std::uint32_t name = 0;   // NameId: "h.3.mlp.c_fc.weight"; also of its gradient and its state
  std::uint32_t state = 0;  // NameId of an optimizer's key: "exp_avg"; 0 = none
  std::uint32_t layer = 0;  // NameId of the classes of its layer: "GPT2 > Block > MLP"; 0 = none
};

// Records that the writer had to drop between `since` and `time`, because the ring was full, and
// events of all threads that have no stack, because the table of stacks was. `parts`: calls of all
// threads that were taken for a part of another call because their stacks did not tell.
struct Gap {
  RecordHeader record;
  std::uint64_t since = 0;
  std::uint64_t allocations = 0;
  std::uint64_t frees = 0;
  std::uint64_t copies = 0;
  std::uint64_t blocks = 0;
  std::uint64_t others = 0;
  std::uint64_t stacks = 0;
  std::uint64_t parts = 0;
};

}  // namespace gpumemtrace::trace
