// SPDX-License-Identifier: Apache-2.0
// CUPTI's activity buffers in every order of the threads' steps: threads on which CUPTI requests
// and completes buffers, the thread that reads them, a program that finalizes CUPTI, a fork at any
// moment. There are four buffers instead of 1024. This file plays CUPTI, the program's part of a
// buffer (library.hpp) and the consumer of its records (records.hpp).
#include <array>
#include <atomic>
#include <cstring>
#include <functional>
#include <map>
#include <set>
#include <vector>

#include "cupti/buffers.cpp"     // NOLINT: one unit, so that all of it is instrumented
#include "cupti/collection.cpp"  // NOLINT
#include "tests/exploration/explorer.hpp"
#include "tests/exploration/run_all.hpp"

// Plays futex: a thread that sleeps checks its condition again once other threads have stored.
extern "C" long __wrap_syscall(long, ...) {
  gpumemtrace::exploration::wait_for_others();
  return 0;
}

namespace gpumemtrace::exploration {
namespace {

using namespace cupti;

// The state of the played CUPTI. Its records are numbers, one in each buffer; accesses are not
// explored.
struct Played {
  RequestFunction* request = nullptr;
  CompleteFunction* complete = nullptr;
  std::uint32_t version = 130001;
  std::function<void()> on_flush;
  std::set<std::uint8_t*> with_cupti;
  std::map<std::uint64_t, int> reads;  // times that each number was read
  std::uint64_t dropped = 0;           // requests that got no buffer or the spare one
};
Played played;

std::uint64_t number_in(const std::uint8_t* buffer) {
  std::uint64_t number = 0;
  memcpy(&number, buffer, sizeof number);
  return number;
}

}  // namespace
}  // namespace gpumemtrace::exploration

namespace gpumemtrace::cupti {

// Reads the buffer, as the real function does, which gives the program its records.
void Library::serve_program(std::uint8_t* buffer, std::size_t) noexcept {
  exploration::number_in(buffer);
}
void Library::ask_program_for_buffer() noexcept {}
void Library::pass_on(Context, std::uint32_t, std::uint8_t*, std::size_t, std::size_t) noexcept {}
void Library::found(const Functions& functions, std::size_t index,
                    LibraryObserver& observer) noexcept {
  real_ = functions;
  index_ = index;
  observer_ = &observer;
}
void Library::attach(const OwnUse&) noexcept { attached_.store(true); }
bool Library::select_within_kinds() noexcept { return true; }
bool Library::program_has_set(Attribute) const noexcept { return false; }
void Library::keep_default(Attribute, std::size_t) noexcept {}
std::uint64_t Library::now() const noexcept { return 1; }
Callbacks Client::callbacks() noexcept { return {}; }

Taken take_over(const RawRecord& record, const TakeOver& what, const Recorder&) noexcept {
  exploration::promise(what.kinds.contains(Kind::kMemcpy),
                       "a buffer is read before it is settled what is taken over");
  const std::uint64_t number = exploration::number_in(record.bytes);
  const exploration::Unseen unseen;
  const auto found = exploration::played.reads.find(number);
  exploration::promise(found != exploration::played.reads.end(),
                       "a buffer is read that was not completed");
  exploration::promise(++found->second == 1, "a buffer is read twice");
  return Taken::kWritten;
}

}  // namespace gpumemtrace::cupti

namespace gpumemtrace::exploration {
namespace {

// --- The functions that play CUPTI

Result play_register(RequestFunction* request, CompleteFunction* complete) {
  const Unseen unseen;
  played.request = request;
  played.complete = complete;
  return kSuccess;
}
Result play_enable(Kind) { return kSuccess; }
Result play_flush(std::uint32_t) {
  if (played.on_flush) played.on_flush();
  return kSuccess;
}
Result play_version(std::uint32_t* version) {
  *version = played.version;
  return kSuccess;
}
Result play_timestamp(std::uint64_t* timestamp) {
  *timestamp = 1;
  return kSuccess;
}
Result play_next_record(std::uint8_t* buffer, std::size_t, std::uint8_t** record) {
  if (*record != nullptr) return kMaxLimitReached;
  *record = buffer;
  return kSuccess;
}

// Requests a buffer as CUPTI does; nullptr if CUPTI gets none and has to drop its records.
std::uint8_t* get_buffer() {
  std::uint8_t* buffer = nullptr;
  std::size_t bytes = 0;
  std::size_t most_records = 0;
  played.request(&buffer, &bytes, &most_records);
  const Unseen unseen;
  if (bytes != Buffers::kBytes) ++played.dropped;
  if (bytes == 0) {
    promise(buffer == nullptr, "CUPTI gets a buffer of no size");
    return nullptr;
  }
  if (bytes == Buffers::kBytes) {
    promise(played.with_cupti.insert(buffer).second, "CUPTI gets a buffer twice");
  }
  return buffer;
}
// Puts a number into the buffer and completes it, as CUPTI does.
void complete(std::uint8_t* buffer, std::uint64_t number) {
  std::size_t bytes = 0;
  bool is_spare = false;
  {
    const Unseen unseen;
    is_spare = played.with_cupti.count(buffer) == 0;
  }
  if (!is_spare) {
    memcpy(buffer, &number, sizeof number);
    const Unseen unseen;
    played.with_cupti.erase(buffer);
    played.reads[number] = 0;
    bytes = Buffers::kBytes;
  }
  played.complete(nullptr, 0, buffer, bytes, sizeof number);
}
void fill_one(std::uint64_t number) {
  std::uint8_t* const buffer = get_buffer();
  if (buffer != nullptr) complete(buffer, number);
}

// --- The functions that play the recorder

std::uint64_t counted_dropped = 0;  // accesses are not explored
bool has_room = true;

std::uint64_t no_ticks() { return 1; }
bool write(const void* record, std::size_t, const char*, std::size_t) {
  const Unseen unseen;
  if (!has_room) return false;
  trace::RecordHeader header;
  std::memcpy(&header, record, sizeof header);
  if (header.kind == trace::RecordKind::kActivityDropped) {
    trace::ActivityDropped dropped;
    std::memcpy(&dropped, record, sizeof dropped);
    counted_dropped += dropped.by_recorder;
  }
  return true;
}
void set_room(bool room) {
  const Unseen unseen;
  has_room = room;
}
void wake() {}
constexpr Recorder kRecorder = {no_ticks, write, wake};

void read_all() {
  while (the_collection().read_one(&kRecorder)) {
  }
}

// A collection of CUPTI's records that has begun. Constructed before the exploration, which
// restores its memory after each execution.
class Stage {
 public:
  explicit Stage(std::uint32_t version = kVersionThatTakesNoBuffer, bool has_begun = true) {
    played = Played{};
    played.version = version;
    Functions functions;
    functions.cuptiActivityRegisterCallbacks = play_register;
    functions.cuptiActivityEnable = functions.cuptiActivityDisable = play_enable;
    functions.cuptiActivityFlushAll = play_flush;
    functions.cuptiGetVersion = play_version;
    functions.cuptiGetTimestamp = play_timestamp;
    functions.cuptiActivityGetNextRecord = play_next_record;
    library_.found(functions, 0, the_collection());
    the_collection().reset();
    begin_collection();  // also reserves the buffers
    if (!has_begun) the_collection().reset();
    the_collection().set_reading(true);
  }
  void begin_collection() {
    promise(the_collection().start(library_, Plan{}, kRecorder), "there is no collection");
  }

  Scenario scenario(std::vector<std::function<void()>> threads) {
    Scenario scenario;
    scenario.begin = [] {
      const Unseen unseen;
      played.with_cupti.clear();
      played.reads.clear();
      played.dropped = counted_dropped = 0;
      has_room = true;
    };
    scenario.threads = std::move(threads);
    scenario.end = [] {
      read_all();
      for (const auto& [number, times] : played.reads) {
        promise(times == 1, "a completed buffer is not read");
      }
      promise_all_come_back();
    };
    return scenario;
  }
  // Checks that CUPTI can get every buffer that it does not have, and no others.
  static void promise_all_come_back() {
    std::size_t count = played.with_cupti.size();
    while (get_buffer() != nullptr) ++count;
    promise(count == Buffers::kCount, "a buffer does not come back");
  }

 private:
  Library& library_ = the_library();
  static Library& the_library() {
    static Library library;
    return library;
  }
};

// CUPTI gets `count` buffers before the threads begin.
void take_before(Scenario& scenario, std::size_t count) {
  scenario.begin = [count, begin = scenario.begin] {
    begin();
    for (std::size_t i = 0; i < count; ++i) get_buffer();
  };
}

// CUPTI completes buffers on two threads while a third thread reads: each buffer is read once.
Outcome completed_buffers() {
  Stage stage;
  return explore(stage.scenario({[] { fill_one(1); }, [] { fill_one(2); },
                                 [] {
                                   for (int i = 0; i < 2; ++i) {
                                     (void)the_collection().read_one(&kRecorder);
                                   }
                                 }}));
}

// CUPTI keeps all buffers but one, which is filled again as soon as it has been read.
Outcome reused_buffer() {
  Stage stage;
  Scenario scenario = stage.scenario({[] {
                                        for (std::uint64_t i = 0; i < 3; ++i) fill_one(i);
                                      },
                                      [] {
                                        for (int i = 0; i < 2; ++i) {
                                          (void)the_collection().read_one(&kRecorder);
                                        }
                                      }});
  take_before(scenario, Buffers::kCount - 1);
  return explore(scenario);
}

// A buffer that was completed before a flush returns is read after the flush, whichever thread
// completes other buffers meanwhile.
Outcome flush_at_end() {
  Stage stage;
  static std::atomic<bool> has_filled = false;
  played.on_flush = [] {
    while (!has_filled.load()) wait_for_others();
  };
  return explore(stage.scenario({[] {
                                   fill_one(1);
                                   has_filled.store(true);
                                 },
                                 [] { fill_one(2); },
                                 [] {
                                   the_collection().flush(true, kRecorder);
                                   read_all();
                                   const Unseen unseen;
                                   promise(played.reads[1] == 1,
                                           "what was there before the end is not read");
                                 }}));
}

// CUPTI has all buffers but one: records that find no buffer are dropped and counted. `version`: an
// old CUPTI crashes without a buffer, so it gets a spare buffer that nobody reads.
Outcome last_buffer(std::uint32_t version, bool recorder_counts) {
  Stage stage(version);
  const auto thread = [](std::uint64_t first) {
    return [first] {
      for (std::uint64_t i = 0; i < 2; ++i) fill_one(first + i);
    };
  };
  Scenario scenario = stage.scenario({thread(1), thread(10), [] {
                                        set_room(false);
                                        the_collection().flush(false, kRecorder);
                                        set_room(true);
                                      }});
  take_before(scenario, Buffers::kCount - 1);
  const auto end = scenario.end;
  scenario.end = [recorder_counts, end] {
    the_collection().flush(false, kRecorder);
    promise(counted_dropped == (recorder_counts ? played.dropped : 0),
            "drops are not counted to the last one");
    if (!recorder_counts) end();
  };
  return explore(scenario);
}
Outcome no_buffer_left() { return last_buffer(kVersionThatTakesNoBuffer, false); }
Outcome spare_buffer_left() { return last_buffer(kVersionThatTakesNoBuffer - 1, true); }

// The program finalizes CUPTI while the recorder's thread flushes: no call enters a finalized
// CUPTI.
Outcome finalized() {
  Stage stage;
  static std::atomic<bool> is_there = true;
  const auto look = [] { promise(is_there.load(), "CUPTI is called that has been taken apart"); };
  played.on_flush = look;
  return explore(stage.scenario({[look] {
                                   the_collection().finalize_begins();
                                   look();
                                   is_there.store(false);
                                   the_collection().finalize_ended(true);
                                 },
                                 [] {
                                   the_collection().flush(false, kRecorder);
                                   the_collection().flush(true, kRecorder);
                                 },
                                 [] { fill_one(1); }}));
}

// CUPTI refuses to be finalized: the collection goes on.
Outcome not_finalized() {
  Stage stage;
  return explore(stage.scenario(
      {[] {
         the_collection().finalize_begins();
         the_collection().finalize_ended(false);
         promise(the_collection().collecting() != nullptr, "the collection does not go on");
       },
       [] { the_collection().flush(false, kRecorder); }, [] { fill_one(1); }}));
}

// A collection starts while CUPTI completes buffers and the recorder's thread already reads:
// buffers completed before the start ends may be discarded, and every buffer comes back.
Outcome start_meets_reader() {
  Stage stage(kVersionThatTakesNoBuffer, /*has_begun=*/false);
  return explore(stage.scenario({[&] {
                                   stage.begin_collection();
                                   fill_one(2);
                                 },
                                 [] {
                                   while (the_collection().collecting() == nullptr) {
                                     wait_for_others();
                                   }
                                   fill_one(1);
                                 },
                                 [] {
                                   the_collection().flush(false, kRecorder);
                                   (void)the_collection().read_one(&kRecorder);
                                 }}));
}

// The recorder stops reading: from then on every completed buffer is free again at once.
Outcome reading_ends() {
  Stage stage;
  Scenario scenario = stage.scenario({[] { fill_one(1); },
                                      [] {
                                        the_collection().set_reading(false);
                                        read_all();
                                      }});
  scenario.end = [] {
    fill_one(2);
    Stage::promise_all_come_back();
  };
  return explore(scenario);
}

// A fork at any moment: in the child there is no collection, all buffers are free, nothing waits
// for a thread that the child does not have, and a new collection can begin.
Outcome forked_collection() {
  Stage stage;
  Scenario scenario = stage.scenario({[] {
                                        the_collection().program_flushed();
                                        fill_one(1);
                                      },
                                      [] {
                                        the_collection().flush(false, kRecorder);
                                        (void)the_collection().read_one(&kRecorder);
                                      }});
  const auto begin = scenario.begin;
  scenario.begin = [begin] {
    begin();
    watch_file(&the_collection(), sizeof(Collection));
  };
  scenario.death = [&] {
    {
      const Unseen unseen;
      played.with_cupti.clear();
      played.reads.clear();
    }
    the_collection().reset();
    promise(the_collection().collecting() == nullptr, "a forked child goes on with its parent's");
    promise(!the_collection().read_one(&kRecorder), "a forked child reads its parent's buffers");
    stage.begin_collection();
    the_collection().set_reading(true);
    fill_one(5);
    read_all();
    promise(played.reads[5] == 1, "a forked child does not collect");
    Stage::promise_all_come_back();
  };
  return explore(scenario);
}

}  // namespace

const std::vector<Proof>& proofs() {
  static const std::vector<Proof> all = {
      {"flush_at_end", flush_at_end},
      {"not_finalized", not_finalized},
      {"finalized", finalized},
      {"start_meets_reader", start_meets_reader},
      {"reading_ends", reading_ends},
      {"no_buffer_left", no_buffer_left},
      {"spare_buffer_left", spare_buffer_left},
      {"forked_collection", forked_collection},
      {"reused_buffer", reused_buffer},
      {"completed_buffers", completed_buffers},
  };
  return all;
}

}  // namespace gpumemtrace::exploration
