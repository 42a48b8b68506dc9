// SPDX-License-Identifier: Apache-2.0
// Every sentence of the findings. A rule chooses among them and sets the names in braces that its
// row and its framework do not have; analyzer/text/sentence.hpp tells what braces and brackets
// mean.
#pragma once

#include <string_view>

#include "analyzer/rules/finding_text.hpp"

namespace gpumemtrace::analyzer::sentences {

using Text = std::string_view;

// Sentences on requests for memory that failed.
constexpr Text kOutOfMemory =
    "Out of memory: a request for {requested_bytes}[ at {site}] failed[ ({times})]";
constexpr Text kTitleWentOn = "; the program went on";
constexpr Text kRecovered =
    "A request for {requested_bytes}[ at {site}] ran out of memory and recovered[ ({times})]";
constexpr Text kTried =
    "Tried to allocate {tried} at {site}[ with {free}][: the memory was {reason}].";
constexpr Text kMetAfterFlush =
    " It was met after {flushed_bytes} had been given back, which took {lost_ns}.";
constexpr Text kWentOn = " The program went on, allocated again and ended by itself.";
constexpr Text kOutcomeUnknown = " The trace does not show what the program did after that.";
constexpr Text kHeldBy = " Held by: {holders}.";
constexpr Text kOutsideFramework = " Outside {framework} most is held by {other}.";
constexpr Text kHolder = "{site}, {bytes} in {count|allocation|allocations}";
constexpr Text kFewerRetries =
    "{set}: {setting_retries|retry|retries} of {framework}'s allocator instead of "
    "{recorded_retries} {basis}, with no change of the program. Or: ";
constexpr Text kFlushBefore =
    "{flushed_bytes} had to be given back first{count?|, over all times}. Free memory before this "
    "request, or hold less[ ({holder})]";
constexpr Text kSmallerBatch = ", with a smaller batch";
constexpr Text kOrExpandableSegments = " or {expandable_setting}";
constexpr Text kSavesAttempts = ". It would save the {lost_ns} of the failed attempts (exact).";
constexpr Text kNoFewerRetries =
    " No other setting of {framework}'s allocator retries less often (replayed: {settings}).";
constexpr Text kNoSettingMeets =
    "No other setting of {framework}'s allocator meets this request (replayed: {settings}).";
constexpr Text kAtMostReplayed = "at most {most_bytes} (replayed)";
constexpr Text kAtMostAvailable = "at most {most_bytes} (arithmetic)";
constexpr Text kAskForLess = "Ask for less[ at {site}][, {at_most}]";
constexpr Text kJoinPieces =
    "Set {expandable_setting}, which needs no change of the program, so that the {cached_bytes} "
    "that {framework} keeps free in pieces can be one: the request needs {requested_bytes} "
    "(arithmetic).";
constexpr Text kCanNeverFit =
    ": the device has {capacity_bytes} in all, so nothing that is freed makes room for this "
    "request.";
constexpr Text kLargerThanAll =
    ": it is larger than all {live_memory} together, {held_bytes}. If it has to be that large, "
    "free {missing_bytes} before it (arithmetic)[: most is held by {holder}].";
constexpr Text kAvoidAtLeast =
    "Free or avoid at least {missing_bytes} before this request (arithmetic), beginning with the "
    "largest holder";
constexpr Text kAvoidUpTo =
    "Free or avoid up to {missing_bytes} before this request (arithmetic), beginning with the "
    "largest holder";
constexpr Text kTheOther = ", the {other} outside {framework}.";
constexpr Text kTheHolder = "[ ({holder})]";
constexpr Text kHolderGrew = ", whose memory grew throughout the run: stop that first.";
constexpr Text kShardState =
    ": {category}, which a smaller batch does not change; shard or offload it.";
constexpr Text kWorkspaces =
    ": workspaces of cuBLAS, which a smaller batch does not change; CUBLAS_WORKSPACE_CONFIG sets "
    "their size.";
constexpr Text kActivations = ": a smaller batch, or activation checkpointing.";
constexpr Text kAnyTensors =
    ": a smaller batch, activation checkpointing, or letting go of tensors that are no longer "
    "needed.";
constexpr Text kPileUp =
    "{site} had asked for more {rises|time|times} in a row before this request, by {rise_bytes} on "
    "average, up to {last_bytes}";
constexpr Text kKeepLess =
    "Keep less of each round: {pile_up}. Reduce each result before it is kept, send it to the host "
    "(.cpu()), or free it in each round.";
constexpr Text kHigherLimit =
    " A higher limit of {framework}'s own ({limit_function}) would meet this request, as "
    "{device_bytes} of the device were free, and at most {rounds|round|rounds} of this kind "
    "(arithmetic).";
constexpr Text kSettingMeetsOne =
    " With {setting} this request would have been met {basis}; the next round asks for another "
    "{rise_bytes}.";
constexpr Text kRaiseLimit =
    "Raise {framework}'s own limit ({limit_function}, or {limit_setting} of "
    "{settings_variable}): {device_bytes} of the device were free.[ Else: {else}]";
constexpr Text kSettingMeets =
    "{set}: this request would have been met {basis}. The program needs no change. What happens "
    "after this request is not known.";
constexpr Text kSettingJustMeets =
    " With {setting} this one request would have been met {basis}, and hardly any after it.";
constexpr Text kOnRank = " This was on rank {rank}.";
constexpr Text kFirstToFail = " It was the first rank to fail.";
constexpr Text kFirstToFailWas = " The first rank to fail was {first_rank}.";

// Sentences on settings of the framework's allocator.
constexpr Text kSet = "Set {settings_variable}={options}";
constexpr Text kSetNothing = "Leave {settings_variable} empty";
constexpr Text kDefaults = "{framework}'s defaults";
constexpr Text kReserved =
    "[{low_bytes} to ]{high_bytes} reserved at most instead of {recorded_bytes} {basis}";
constexpr Text kEmptyCacheBefore =
    "free the short-lived tensors and call {empty_cache} before {site}; or allocate the long-lived "
    "tensors first";
constexpr Text kOr = "[ Or {or_else}.]";

constexpr FindingText kFragmentation = {
    "{stranded_bytes} of {reserved_bytes} reserved memory was free but stranded beside live blocks",
    "At worst {stranded_bytes} lay beside live blocks, the largest free piece was "
    "{largest_piece_bytes}.[ Blocks from {pin}, {pin_bytes}, keep {pinned_bytes} of it.]",
    "[{settings}][ Or {or_else}.]"};
constexpr Text kUsableAgain =
    "Set {expandable_setting}, which needs no change of the program: up to {stranded_bytes} would "
    "be usable again (arithmetic).";
constexpr Text kReservesLess = "{set}: {reserved}, with no change of the program.";
constexpr Text kMeetsRefused =
    "{set}: a request that was refused would have been met {basis}, with no change of the program.";
constexpr Text kUndecided = "{setting} may or may not help: {reserved}.";
constexpr Text kNoSettingHelps =
    "Other settings of {framework}'s allocator do not help: those that were tried ({settings}) "
    "save "
    "less than 5 % of what is reserved, or nothing (replayed).";

// Sentences on memory that was never freed.
constexpr FindingText kLeak = {
    "{bytes} leaked at {site}[, {count} of {more_allocations} allocations there]",
    "{count|allocation|allocations} of {kind} memory from {site}, {bytes}, had not been freed when "
    "the process ended.",
    "{advice} It would give back {bytes} (exact)."};
constexpr FindingText kLeakUntilContextEnd = {
    "{bytes} of {site} was never freed: {teardown} took it",
    "{count|allocation|allocations} of {kind} memory from {site}, {bytes}, ended with its context "
    "and not by a free.",
    "{advice} It would give back {bytes} (exact)."};
constexpr Text kReset = "the reset of the device[ at {ended_at}]";
constexpr Text kReleased = "the release of its context[ at {ended_at}]";
constexpr Text kEnded = "the end of its context[ at {ended_at}]";
constexpr Text kMade = "made at {first_time_ns}[ in step {first_step}]";
constexpr Text kOthersWereFreed =
    "{back_count} of {made_count} {back_count?was|were} {back_word}[, {at}]; {rest} "
    "{count?was|were} not. ";
constexpr Text kFindPath = "Find the path that skips {function}.";
constexpr Text kNothingFreedIt = "Nothing freed it[; it was {made}]. ";
constexpr Text kNothingFreedAny = "Nothing freed any of the {count}. ";
constexpr Text kFreeByObject =
    "Free what {site} allocates ({function})[ before {teardown}], or let go of the object that "
    "holds it.";
constexpr Text kFreeByCall = "Call {function} for what {site} allocates[ before {teardown}].";
constexpr Text kOwnerUnknown = " Who allocated it is not known; it may be a library's own buffer.";
constexpr Text kRefusedFree =
    " A free was tried {tries|time|times}[ at {site}] and refused ({answer}).";
constexpr Text kFreeOutsideCallback =
    "Free it outside of the callback, in which CUDA permits no call: after the stream was "
    "synchronized, or with cudaFreeAsync on that stream. ";
constexpr FindingText kUnreleasedHandle = {
    "{count|handle|handles} ({handle_kind}) of {site} never released[, {count} of "
    "{more_allocations} opened there]",
    "{count|handle|handles} ({handle_kind}) that {site} opened had not been given back when the "
    "process ended.",
    "{advice}"};
constexpr Text kReleaseAlways =
    "Call {function} for what {site} opens, on every way through the program.";

// Sentences on frees that the driver refused. Each detail follows kFreeRefused.
constexpr Text kFreeRefused = "{function} was refused {count|time|times} ({answer}): ";
constexpr Text kNotPermitted = "800, not permitted: from a callback of the stream";
constexpr Text kInvalidValue = "invalid value";
constexpr Text kOtherError = "error {result}";
constexpr Text kTheMemory = "what {allocated_at} allocated";
constexpr FindingText kFreeOfOtherKind = {
    "{function} at {site} was refused",
    "{memory} is live, but this function does not free its kind.",
    "Free {memory} with the counterpart of the function that allocated it."};
constexpr FindingText kFreeInCallback = {
    "{function} at {site} was refused",
    "{memory} is live, and CUDA permits no call from within a callback.",
    "Free {memory} after the stream was synchronized, not in its callback."};
constexpr FindingText kFreedTwice = {
    "{function} at {site} freed memory that had been freed before",
    "{memory} had been freed[ at {freed_before_at}].",
    "Remove this free or the one before it[ at {freed_before_at}]: {memory} is to be freed once."};
constexpr FindingText kFreedAfterContext = {
    "{function} at {site} freed memory that had ended with its context",
    "{memory} had ended with its context[ at {freed_before_at}].",
    "Free {memory} before its context ends[ at {freed_before_at}], or not at all."};
constexpr FindingText kFreedInside = {
    "{function} at {site} freed an address within an allocation",
    "the address lies {offset_bytes} behind the start of {memory}.",
    "Free the address that {allocation} was given, {offset_bytes} before this one."};
constexpr FindingText kFreedNothing = {"{function} at {site} freed memory that was not allocated",
                                       "the trace shows no allocation at the address.",
                                       "Free only what an allocation returned, and that once."};

// Sentences on memory that rises throughout the run.
constexpr Text kBlocks = "{blocks|block|blocks} of {block_bytes}";
constexpr Text kBlocksOnAverage = "{blocks|block|blocks} of {block_bytes} on average";
constexpr Text kAStep = "{step_bytes} a step over {times|step|steps}";
constexpr Text kARepetition = "{step_bytes} a repetition over {times|repetition|repetitions}";
constexpr Text kASecond = "{second_bytes} a second";
constexpr Text kGrew = "{what} grew by {bytes}[, {rate}]";
constexpr Text kGrewToo = " It grew throughout the run, by {bytes}[, {rate}].";
constexpr Text kFull = "[ At this rate the device is full {forecast_ns} after the start.]";
constexpr Text kMemoryFrom = "{level_word} from {site}";
constexpr Text kSizeOfKept = "The size of what {site} keeps";
constexpr Text kGraphKept = "A graph of autograd from {site} is kept: memory";
constexpr Text kMemoryFromPlaces = "Memory from {site} and {other_lines|other place|other places}";
constexpr Text kRose =
    "After the warm-up the memory that {site} holds rose throughout the run, by {bytes} ({kept}) "
    "in {rises|stretch|stretches}, and did not come back while the program went on allocating "
    "there.";
constexpr Text kRoseTogether =
    "After the warm-up the memory of {lines|place|places} rose together throughout the run, by "
    "{bytes} ({kept}): {line_names}.";
constexpr Text kLayersSave =
    " What layers save for backward stays as long as a result of theirs does.";
constexpr Text kGotLarger =
    "After the warm-up {as_many} of {site} {than_before} were live, and they got larger throughout "
    "the run, by {bytes} in all, as when a cache has a fixed number of entries, or batches or "
    "sequences grow.";
constexpr Text kFilled =
    "The memory of {site} rose for as long as the program allocated there, by {bytes} ({kept}) "
    "after the warm-up, and none of it was freed in that time, as when a cache or a data set "
    "fills.";
constexpr Text kWhileItGrew =
    "While it grew, {allocations|block was|blocks were} allocated there and {freed} freed";
constexpr Text kFreedLater = ". After that, {frees_after|was|were} freed{older}[, {at}]";
constexpr Text kOlderIncluded = ", older ones included";
constexpr Text kBoundSize = "Bound the size of what is kept there, if nothing else does. ";
constexpr Text kBoundFilling =
    "If it fills on purpose and ends by itself, nothing is to be done; else give it a bound. ";
constexpr Text kFindKeeper =
    "Find what keeps the tensors: a list that is appended to, a dict or an attribute.";
constexpr Text kFindKeeperOfLoss =
    "Find what keeps the tensors: a list that is appended to, a loss kept without .item(), or "
    "retain_graph.";
constexpr Text kFindGraph =
    "Find the tensor that this line or its callers append, add up or store, such as a loss or a "
    "hidden state, and keep .detach() or .item() of it: much of what the model's layers allocate "
    "here stays, as when a graph of autograd is kept.";
constexpr Text kFindSum =
    "Find the tensor that its callers append or add up, and keep .detach() or .item() of "
    "it{retain}: the memory of {other_places_growing|other place|other places} grows with it, as "
    "when a whole graph of autograd stays, or several results of each round are kept.";
constexpr Text kDropRetainGraph = "; or drop retain_graph=True";
constexpr Text kStoreCopies =
    "Something keeps the tensors made here: a list, a dict or an attribute. Store .cpu() of them, "
    "or .item() of one value, or drop old ones. No graph of autograd is kept{unless}: "
    "{other_places|other place|other places} allocated meanwhile and did not grow.";
constexpr Text kUnlessModel = " (unless this line runs the whole model)";
constexpr Text kFreeThem =
    "Free them where they are no longer needed, or bound the cache or list that keeps them.";
constexpr Text kFreeSooner =
    "Free them sooner, or bound the cache or list that holds them until then: this line or its "
    "callers put them there.";
constexpr Text kDoSooner =
    "Do sooner what frees them at {later}, or bound the cache or list that holds them until then: "
    "this line or its callers put them there.";
constexpr Text kGrowthStops = " Growth would stop (inferred).";
constexpr Text kDetachResult =
    "Find what keeps the result of {site}, such as a sum over steps{retain}, and keep .detach() or "
    ".item() of it. It would release {bytes} (arithmetic), and growth would stop (inferred).";
constexpr Text kOrList = " or a list";
constexpr Text kListOrRetain = ", a list, or retain_graph=True";
constexpr Text kDropResults =
    "Find the lists, dicts or attributes that keep these tensors, and store .cpu() of them, or "
    "drop old ones. It would release {bytes} (arithmetic), and growth would stop (inferred).";
constexpr Text kLastsSteps = " At this rate the rest of the device lasts for {steps_left} steps.";
constexpr Text kLastsDays = " At this rate the rest of the device lasts for {days_left|day|days}.";

constexpr FindingText kReferenceCycles = {
    "{largest_collection_bytes} from {site} waited for Python's cycle collector",
    "Python's cycle collector freed {count|allocation|allocations} ({collected_bytes}) of {site}, "
    "in at least {collections} runs, {largest_collection_bytes} at once. Nobody could reach that "
    "memory any more; it stayed until the collector ran.",
    "Break the cycle of references that holds it, or make one of them a weakref; in {framework} "
    "{show_cycles} shows the cycles. gc.collect() at a fixed place is a workaround. "
    "{largest_collection_bytes} would have been free earlier (exact)."};

// Sentences on processes and devices.
constexpr FindingText kWrongDevice = {
    "Local rank {local_rank} uses {device}, which belongs to local rank {owner_rank}: {bytes}[ "
    "({context_bytes} context, {held_bytes} allocated)]",
    "The process of local rank {local_rank} allocated {held_bytes} on {device}[, and its context "
    "there takes {context_bytes}]; most of its memory is on {own_device}.",
    "{choose} before the first use of CUDA in each rank[, which is at or before {site}]. It would "
    "free {bytes} on {device} (inferred)."};
constexpr Text kSameDevice =
    "Local ranks {owner_rank} and {local_rank} use the same device {device}";
constexpr FindingText kContextElsewhere = {
    "Local rank {local_rank} opened a context on {device}, the device of local rank {owner_rank}[, "
    "at {opened_at}]",
    "The process of local rank {local_rank} allocated nothing on {device}, but a context takes "
    "{context} of its own; its memory is on {own_device}.",
    "{choose} before {before}, or let each rank see its device alone (CUDA_VISIBLE_DEVICES). It "
    "would free the context on {device}, {saved} (inferred)."};
constexpr Text kFirstUse = "the first use of CUDA in each rank";
constexpr Text kSizeOfContext = "some hundred MiB";
constexpr Text kSizeNotShown = "some hundred MiB that no call shows";
constexpr FindingText kIdleContexts = {
    "{processes|process|processes} {processes?holds|hold} a CUDA context on {device} and almost "
    "nothing else, {bytes}{processes?| together}; made at {site}",
    "{processes?The|Each} context of {names} takes up to {context_bytes}, and calls asked for no "
    "more than {most_allocated_bytes}. The memory is that of the driver and goes when the process "
    "ends.",
    "Keep CUDA out of {processes?this process|these processes}: nothing at {site} should use the "
    "GPU (what asks for a device, its properties or a tensor on it makes the context), or hide it "
    "from them (CUDA_VISIBLE_DEVICES=\"\"). It would free {bytes} on {device} (inferred)."};
constexpr FindingText kOpaquePool = {
    "{name} holds {bytes} whose use is not visible",
    "The trace sees what {name} takes from the driver, not what it hands out of that.",
    "Record again with {setting}, which opens the pool to the trace."};

// Sentences on ranks. {whom} is "the others" or "the others of its group", whose ranks are {group}.
constexpr FindingText kHoldsMore = {
    "Rank {rank} peaked at {peak_bytes}[ of {memory}], {bytes} more than {whom}",
    "The other {others?rank|ranks} ({group}) {others?has|have} a median of {usual_bytes}.[ It "
    "holds {excess_bytes} more {where}.][ {left_out}]",
    "{advice} The largest rank decides what fits: up to {bytes} would be saved on it "
    "(arithmetic)."};
constexpr FindingText kHoldsLess = {
    "Rank {rank} peaked at {peak_bytes}[ of {memory}], {bytes} less than {whom}",
    "The other {others?rank|ranks} ({group}) {others?has|have} a median of {usual_bytes}.[ "
    "{left_out}]",
    "See whether the rank ended early, or divide the work evenly: the others need {bytes} more "
    "than this one (arithmetic)."};
constexpr std::string_view kTheOthers = "the others";
constexpr std::string_view kTheOthersOfGroup = "the others of its group";
constexpr std::string_view kDriversMemory = "the driver's memory";
constexpr std::string_view kExpertsLeftOut = "Layers of experts are left out of the comparison.";
constexpr Text kDivideAll = "Divide among the ranks what this one alone holds.";
constexpr Text kDivideEvenly =
    "Divide evenly what {place} allocates: rank {rank} holds {excess_bytes} more there than the "
    "others do.";
constexpr Text kOnHost =
    "Let {place} allocate on the host, or in smaller pieces: rank {rank} alone allocates "
    "there[ {made}], and the GPUs of the others do without it.";
constexpr Text kMadeThere = "({allocations|time|times}[, {freed}])";
constexpr Text kFirstToFill =
    " Rank {rank} is the first to run out of memory: in {steps|step|steps} at this rate.";

// Sentences on ranks that end early. {end} says how they ended.
constexpr FindingText kEndedEarly = {
    "Rank {rank} ended {early_ns} before the others[, after {steps} of {usual_steps} steps]",
    "It {end} at {end_ns}. The other ranks ({others}) ended at {usual_end_ns}, in the median.",
    "See why this rank stopped: the others can only wait for it in what they do together."};
constexpr std::string_view kLeftByExit = "exited";
constexpr std::string_view kEndedBySignal = "was ended by a signal";
constexpr std::string_view kWasKilled = "was killed";
constexpr std::string_view kEndedWithoutExit = "ended without an exit";

// Sentences of findings about copies. {copies} is the number of copies that the finding is about.
constexpr Text kCopies = "{copies|copy|copies} at {site} ";
constexpr Text kSameBytes = "send the same bytes again, {again} of them";
constexpr Text kPageable = "use pageable host memory, so the program waits for each";
constexpr Text kSynchronous = "each made the program wait for the GPU";
constexpr Text kComeBack = "bring back what was copied down before[ at {down_at}]";
constexpr Text kSlow = "reach {link_share} of what the link can carry";
constexpr Text kNotHidden = "are not hidden behind kernels";
constexpr Text kSmall = "are small, {mean_bytes} on average; each pays for a call of its own";
constexpr Text kMoved =
    "{count|copy|copies} ({direction}, {api}) from {site} moved {bytes}, {mean_bytes} each.";
constexpr Text kSentAgain =
    " {again} of them ({again_bytes}) sent the same bytes as a copy before, by a hash of what they "
    "sent. Whether the GPU still held these bytes is not known.";
constexpr Text kTookLong =
    " They took {gpu_ns}, {time_lost_ns} more than the link needs{pageable}.";
constexpr Text kHostIsPageable = "; their host memory is pageable";
constexpr Text kNoKernelRan =
    " They took {gpu_ns} on the GPU; no kernel ran there for {time_lost_ns} of it.";
constexpr Text kHeldThread = " They held the calling thread for {time_lost_ns}.";
constexpr Text kKeepParked =
    "The GPU's memory was freed in between, so the data were parked on purpose: keep them there if "
    "they fit, else suppress this.";
constexpr Text kRemoveCopyBack =
    "Remove the copy back at {site}: the GPU's memory that it fills stayed allocated while the "
    "data were away (for {away_ns} on average), so parking them saved no memory. Only what the "
    "host or a kernel changed in between has to come back. Remove the copy down[ at {down_at}], "
    "too, where nothing on the host reads it.";
constexpr Text kSavesCopies =
    " It would save {again_bytes} of copies (exact), which held the calling thread for "
    "{time_lost_ns} (exact).";
constexpr Text kBothWays =
    " The calls back took {up_ns}, those of both ways {returned_host_ns} (exact).";
constexpr Text kIdleNotShown =
    " The calls took {time_lost_ns} (exact); the trace does not show how long the GPU then "
    "stood idle.";
constexpr Text kAtStake = " At stake: {time_lost_ns} (exact).";
constexpr Text kCallsTook = " The calls took {time_lost_ns} (exact).";
constexpr Text kShareOfLoop =
    " By themselves they need {share} of the time from the first of them to the last.";
constexpr FindingText kManagedThrash = {
    "Managed memory of {site} went to the device and back {round_trips} times",
    "Of the managed memory that {site} allocated, one allocation of {round_trip_bytes} went up and "
    "came down {round_trips} times. In all {to_device_bytes} went to the device and "
    "{to_host_bytes} came back, which took {migration_time_ns}.",
    "Touch it from one side only while it is in use: keep what the host reads in memory of its "
    "own, or move it ahead of use with cudaMemPrefetchAsync, or let the other side map it "
    "(cudaMemAdviseSetPreferredLocation, cudaMemAdviseSetAccessedBy). It would save "
    "{migration_time_ns} of migration at most (exact time)."};

// Sentences on memory that goes back and forth (churn). {cost} is kLocksPages or kWaitsForGpu.
constexpr FindingText kChurn = {
    "{lines} {line_count?allocates|allocate} {kind} memory from the driver again and again, "
    "{allocations|time|times}",
    "{lines} allocated {kind} memory {allocations|time|times}, {allocations_after_warmup} of them "
    "after the warm-up, {allocated_bytes} in all, and freed it again[ at {freed}]. The calls took "
    "{time_in_calls_ns}; {cost}.",
    "{advice} The calls took {time_in_calls_ns} (exact), most of which would be saved."};
constexpr FindingText kChurnOfCache = {
    "{freed} makes {framework} ask the driver for memory again and again, {allocations|time|times}",
    "What {framework} allocated from the driver for {line}, {allocations|time|times}, "
    "{allocations_after_warmup} of them after the warm-up, was freed again at {freed}. The calls "
    "took {time_in_calls_ns}; {cost}.",
    kChurn.fix};
constexpr Text kLocksPages = "each of them locks pages";
constexpr Text kWaitsForGpu = "a free of such memory also waits for the GPU";
constexpr Text kAndOtherLines = "{line} and {more_lines|other line|other lines}";
constexpr Text kTheLines = " The lines: ";
constexpr Text kTimesEach = "{line}, {allocations|time|times}, {each_bytes} each";
constexpr Text kMoreLines = "and {more_lines|other line|other lines}";
constexpr Text kNoLineAsks =
    "No line of the program asks for it; the stack of the finding says which library does.";
constexpr Text kPinBefore =
    "Pin one buffer before the loop and free it after the loop[, not at {freed_in_loop}].";
constexpr Text kAllocateBefore =
    "Allocate once before the loop and free it after the loop[, not at {freed_in_loop}]; or use "
    "cudaMallocAsync (cuMemAllocAsync), which takes from a pool and does not wait for the GPU.";

// Sentences on memory that the program could save.
constexpr FindingText kPinnedRounding = {
    "{bytes} of host memory is pinned at {site} for {used_bytes} that is used",
    "{count|pinned allocation|pinned allocations} at {site} took {bytes} of the host's memory. "
    "{framework} rounds each request up to a power of two; the program's copies used {used_bytes}.",
    "Pin the memory that a tensor already has, which rounds nothing: {pin_exactly}. Or put the "
    "tensors into one pinned buffer whose size is just below a power of two. It would save "
    "{saved_bytes} of host memory (inferred)."};
constexpr FindingText kManyPools = {
    "{pools|private pool|private pools} of CUDA graphs captured at {site} reserve {bytes} and use "
    "{used_bytes}",
    "A graph that is captured without `pool` gets a pool of its own. The pool keeps the room for "
    "all results in between for as long as the graph lives. The largest of these pools has "
    "{largest_bytes}.",
    "Capture all of them into one pool: {share_graph_pool}, the largest size first. One pool needs "
    "at least {largest_bytes}, which saves up to {saved_bytes} (arithmetic). Graphs that share a "
    "pool must not run at the same time."};
constexpr FindingText kManyCommunicators = {
    "{communicators|NCCL communicator|NCCL communicators} made at {site} hold {bytes}",
    "Each communicator has buffers of its own, {each_bytes} on average, until it is destroyed. "
    "None of these had been when they held most together.",
    "Make the process group once and use it again, or call {end_communicator} when it is no longer "
    "needed. One communicator instead of {communicators} saves {saved_bytes} (arithmetic)."};
constexpr FindingText kLoadedAndKept = {
    "{bytes} that {site} loaded stays on the GPU beside its copy",
    "{count|tensor|tensors} that {site} read from a file, {bytes}, were copied to other tensors "
    "and not freed: they are part of the peak of {peak_bytes}.",
    "Load to the host: {load_to_host}. Or delete what was loaded (del checkpoint) once it was "
    "copied. It would save {bytes} of the peak (inferred)."};
constexpr FindingText kGradientsInForward = {
    "{bytes} of gradients from the step before, made at {site}, were alive at the peak",
    "{count|gradient|gradients}, {bytes} of the {peak_bytes} at the peak, had already been used by "
    "the optimizer and were kept through the next forward pass.",
    "Call {zero_gradients} before the forward pass, with set_to_none=True (the default). Up to "
    "{bytes} of the peak would be saved (arithmetic)."};
constexpr FindingText kGraphWithoutBackward = {
    "The forward pass at {site} kept {bytes} for a backward pass that never came",
    "{count|block|blocks} of {places|place|places}, {bytes} of the {peak_bytes} at the peak, were "
    "allocated in forward with gradients enabled, one after the other, and freed together before "
    "any backward pass began.",
    "If this is an evaluation, run it under {without_gradients}: each layer's result is then freed "
    "when the next one is done with it. Up to {bytes} of the peak would be saved (inferred)."};
constexpr FindingText kGraphsPileUp = {
    "{live_peak|CUDA graph|CUDA graphs} were alive at once; most were instantiated at {site}",
    "{instantiated|graph was|graphs were} instantiated, {instantiated_here} of them at this place; "
    "{destroyed_then} had been destroyed when most were alive. All launches together are "
    "{launches}.",
    "Update one executable graph (cudaGraphExecUpdate, cuGraphExecUpdate) instead of instantiating "
    "the next one, find the one that is there by what is the same in every round, or destroy it "
    "after its last use (cudaGraphExecDestroy): later graphs then reuse its memory. Up to {bytes} "
    "would be saved (inferred)."};
constexpr Text kDriverRoseMeanwhile =
    " Meanwhile the driver's own memory rose by {bytes} (sampled).";
constexpr Text kDriverRoseForGraphs =
    " The driver's own memory rose by {sampled_bytes} for {sampled} of them (sampled), which is "
    "{bytes} for all (inferred).";

constexpr Text kBeganInRange = " It began in the range '{range}'.";

}  // namespace gpumemtrace::analyzer::sentences
