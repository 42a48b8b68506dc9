// SPDX-License-Identifier: Apache-2.0
#include "cupti/library.hpp"

#include "cupti/delivery.hpp"

namespace gpumemtrace::cupti {
namespace {

using trace::ActivityDomain;

constexpr std::size_t index_of(ActivityDomain domain) noexcept {
  return domain == ActivityDomain::kDriver ? 0 : 1;
}
constexpr bool is_copy(ActivityDomain domain, CallbackId function) noexcept {
  return (domain == ActivityDomain::kDriver ? kDriverCopies : kRuntimeCopies).contains(function);
}

}  // namespace

void Library::found(const Functions& functions, std::size_t index,
                    LibraryObserver& observer) noexcept {
  real_ = functions;
  index_ = index;
  observer_ = &observer;
}

void Library::attach(const OwnUse& own) noexcept {
  own_kinds_.store(own.kinds);
  own_calls_.store(own.calls);
  attached_.store(true);
}

std::uint64_t Library::now() const noexcept {
  std::uint64_t timestamp = 0;
  if (real_.cuptiGetTimestamp != nullptr) real_.cuptiGetTimestamp(&timestamp);
  return timestamp;
}

// --- Callbacks

// While we collect, our own callbacks stay registered, and the program's are only remembered.
Result Library::register_callbacks(RequestFunction* request, CompleteFunction* complete) noexcept {
  Result result = kSuccess;
  if (!is_attached()) {
    result = real_.cuptiActivityRegisterCallbacks(request, complete);
  } else if (request == nullptr || complete == nullptr) {
    result = kInvalidParameter;
  } else {
    restore_defaults();
  }
  if (result != kSuccess) return result;
  const bool is_first = !program_has_callbacks();
  client_.set_callbacks({request, complete});
  if (is_attached() && is_first) observer_->program_registered();
  ask_program_for_buffer();
  return result;
}

// Notes the begin times of the calls in this buffer, for the calls' activities, which may come in
// another buffer.
void Library::record_calls(std::uint8_t* buffer, std::size_t valid_bytes) noexcept {
  Walk walk(real_, buffer, valid_bytes);
  for (RawRecord record; walk.next(record);) {
    if (is_call(kind_of(record))) call_times_.note(correlation_of(record), start_of(record));
  }
}

// Gets the program's callbacks; false if the program cannot get records.
bool Library::get_callbacks(Callbacks& callbacks) noexcept {
  callbacks = client_.callbacks();
  return is_attached() && callbacks.request != nullptr && callbacks.complete != nullptr;
}

void Library::ask_program_for_buffer() noexcept {
  Callbacks callbacks;
  if (!client_.collects() || open_.is_there() || !get_callbacks(callbacks)) return;
  Delivery delivery(callbacks, open_);
  delivery.ask();
  delivery.leave_open();
}

// Copies the program's records from a buffer of ours into the program's own buffer. Holds a record
// back if it is not known yet whose it is.
void Library::serve_program(std::uint8_t* buffer, std::size_t valid_bytes) noexcept {
  if (own_calls_.load()) record_calls(buffer, valid_bytes);
  Callbacks callbacks;
  if (!get_callbacks(callbacks)) return;
  Delivery delivery(callbacks, open_);
  deliver_held(delivery, false);
  Walk walk(real_, buffer, valid_bytes);
  for (RawRecord record; walk.next(record);) {
    Owner owner = owner_of(record);
    if (owner == Owner::kNotKnown && !held_.hold(record)) owner = guess_owner_of(record);
    if (owner == Owner::kProgram) delivery.add(record);
  }
  if (flushes_by_period_.load()) delivery.give_back(false);
  delivery.leave_open();
  client_.add_dropped(delivery.dropped());
}

// Delivers held records that turn out to be the program's. The owner of a record that was held
// before the last flush is guessed if its call has not come.
void Library::deliver_held(Delivery& delivery, bool wait) noexcept {
  const std::uint64_t last_flushed = last_flushed_round_.load();
  held_.review(wait, [&](const RawRecord& record, std::uint64_t round) noexcept {
    Owner owner = owner_of(record);
    if (owner == Owner::kNotKnown && round <= last_flushed) owner = guess_owner_of(record);
    if (owner == Owner::kProgram) delivery.add(record);
    return owner == Owner::kNotKnown;
  });
}

void Library::deliver_decided_records() noexcept {
  Callbacks callbacks;
  if (!get_callbacks(callbacks)) return;
  Delivery delivery(callbacks, open_);
  deliver_held(delivery, true);
  delivery.leave_open();
  client_.add_dropped(delivery.dropped());
}

// Called after a flush has delivered all that CUPTI has. A held record whose call has not come (a
// function that is newer than our list, say) waits for a second flush, which would deliver the
// call; after that its owner is guessed.
void Library::decide_held_records(std::uint64_t round) noexcept {
  flush_ended(round);
  deliver_decided_records();
  if (!held_.holds_any()) return;
  const std::uint64_t next_round = flush_begins();
  real_.cuptiActivityFlushAll(0);
  flush_ended(next_round);
  deliver_decided_records();
}

// Called when the program's flush has ended, or the flush before cuptiFinalize(): gives the
// program's buffer back to it, with all records that are decided.
void Library::finish_program_flush(std::uint64_t round) noexcept {
  decide_held_records(round);
  Callbacks callbacks;
  if (!get_callbacks(callbacks)) return;
  observer_->program_flushed();
  Delivery delivery(callbacks, open_);
  delivery.give_back(!client_.collects());
  // CUPTI may go on filling a buffer of ours that was not complete, without asking us for a new
  // one: so the program is asked for its next buffer here.
  if (client_.collects()) delivery.ask();
  delivery.leave_open();
}

// Called when cuptiFinalize() has ended: CUPTI delivers no call any more that a held record waits
// for.
void Library::deliver_last_records() noexcept {
  flush_ended(flush_begins());
  deliver_decided_records();
  Callbacks callbacks;
  if (!get_callbacks(callbacks)) return;
  Delivery delivery(callbacks, open_);
  delivery.give_back(true);
}

void Library::pass_on(Context context, std::uint32_t stream, std::uint8_t* buffer,
                      std::size_t bytes, std::size_t valid_bytes) noexcept {
  const Callbacks callbacks = client_.callbacks();
  if (callbacks.complete != nullptr) {
    callbacks.complete(context, stream, buffer, bytes, valid_bytes);
  }
}

// Records of a kind that we have not enabled can only be the program's. If both have the kind on, a
// record is the program's if it had the kind on at the time of the call.
Library::Owner Library::owner_of(const RawRecord& record) noexcept {
  const Kind kind = kind_of(record);
  if (!is_call(kind) && !own_kinds_.load().contains(kind)) return Owner::kProgram;
  std::uint64_t time = start_of(record);
  // Copies and sets run on the GPU after their calls, so the times of the calls are looked up. For
  // records of other kinds their own time is taken: either they are records of calls, or we do not
  // collect the calls that they belong to.
  const bool ran_later = kind == Kind::kMemcpy || kind == Kind::kMemcpy2 || kind == Kind::kMemset;
  const bool is_known = !ran_later || !own_calls_.load() ||
                        call_times_.find(correlation_of(record), time) ||
                        client_.is_certain(record, time);
  if (!is_known) return Owner::kNotKnown;
  return client_.owns(record, time) ? Owner::kProgram : Owner::kNotProgram;
}

// Guesses the owner of a record by the time at which the work ran, because the time of the call is
// not known.
Library::Owner Library::guess_owner_of(const RawRecord& record) noexcept {
  return client_.owns(record, start_of(record)) ? Owner::kProgram : Owner::kNotProgram;
}

// --- Kinds

// True if we collect records of the kind, too: then the program cannot switch the kind off in
// CUPTI.
bool Library::is_shared(Kind kind) const noexcept {
  return is_attached() &&
         (own_kinds_.load().contains(kind) || (own_calls_.load() && is_call(kind)));
}

// The present time, for a kind that the program switches on or off; 0 as long as we do not collect
// through the library, because all records are the program's then.
std::uint64_t Library::time_of_switch() const noexcept { return is_attached() ? now() : 0; }

void Library::switch_kind(Kind kind, Context context, bool on) noexcept {
  Switch change{time_of_switch(), kEverywhere, on};
  // API records name no context.
  if (context != nullptr && !is_call(kind) && real_.cuptiGetContextId != nullptr) {
    real_.cuptiGetContextId(context, &change.context);
  }
  client_.switch_kind(kind, change);
  if (on) ask_program_for_buffer();
}

Result Library::enable(Kind kind) noexcept {
  const Result result = real_.cuptiActivityEnable(kind);
  if (result == kSuccess) switch_kind(kind, nullptr, true);
  return enable_calls(kind, result);
}

Result Library::enable_and_dump(Kind kind) noexcept {
  const Result result = real_.cuptiActivityEnableAndDump(kind);
  if (result == kSuccess) switch_kind(kind, nullptr, true);
  return enable_calls(kind, result);
}

Result Library::enable_context(Context context, Kind kind) noexcept {
  const Result result = real_.cuptiActivityEnableContext(context, kind);
  if (result == kSuccess) switch_kind(kind, context, true);
  return result;
}

Result Library::disable(Kind kind) noexcept {
  if (!is_shared(kind)) {
    const Result result = real_.cuptiActivityDisable(kind);
    if (result == kSuccess) switch_kind(kind, nullptr, false);
    return result;
  }
  switch_kind(kind, nullptr, false);
  return is_call(kind) ? disable_calls(kind) : kSuccess;
}

Result Library::disable_context(Context context, Kind kind) noexcept {
  const Result result =
      is_shared(kind) ? kSuccess : real_.cuptiActivityDisableContext(context, kind);
  if (result == kSuccess) switch_kind(kind, context, false);
  return result;
}

// --- API records, by kind and by function

// Enables again, one by one, the functions that an earlier disable_calls() switched off.
Result Library::enable_calls(Kind kind, Result result) noexcept {
  if (result != kSuccess || !is_call(kind)) return result;
  const ActivityDomain domain = domain_of(kind);
  if (!kind_left_on_[index_of(domain)].exchange(false)) return result;
  for (CallbackId function = 1; function < kMostFunctions; ++function) {
    call_enable_function(domain, function, 1);
  }
  return result;
}

// CUPTI's own function would disable our functions, too, and once there is a context they cannot be
// selected again. So the kind stays on in CUPTI, and all functions but ours are switched off.
Result Library::disable_calls(Kind kind) noexcept {
  const ActivityDomain domain = domain_of(kind);
  for (CallbackId function = 1; function < kMostFunctions; ++function) {
    if (!is_copy(domain, function)) call_enable_function(domain, function, 0);
  }
  kind_left_on_[index_of(domain)].store(true);
  return kSuccess;
}

// Enables both kinds of API records, and then switches off all functions but those that copy.
bool Library::select_within_kinds() noexcept {
  bool done = true;
  for (const Kind kind : {Kind::kDriver, Kind::kRuntime}) {
    if (real_.cuptiActivityEnable(kind) == kSuccess) {
      disable_calls(kind);
    } else {
      done = false;
    }
  }
  return done;
}

Result Library::call_enable_function(ActivityDomain domain, CallbackId function,
                                     std::uint8_t on) noexcept {
  const auto real = domain == ActivityDomain::kDriver ? real_.cuptiActivityEnableDriverApi
                                                      : real_.cuptiActivityEnableRuntimeApi;
  return real == nullptr ? kNotSupported : real(function, on);
}

Result Library::enable_function(ActivityDomain domain, CallbackId function,
                                std::uint8_t on) noexcept {
  // A function that we need stays on in CUPTI.
  const bool is_ours = is_attached() && own_calls_.load() && is_copy(domain, function);
  const Result result = is_ours && on == 0 ? kSuccess : call_enable_function(domain, function, on);
  if (result == kSuccess) {
    client_.switch_function(domain, function, {time_of_switch(), kEverywhere, on != 0});
    if (on != 0) ask_program_for_buffer();
  }
  return result;
}

Result Library::enable_driver_function(CallbackId function, std::uint8_t on) noexcept {
  return enable_function(ActivityDomain::kDriver, function, on);
}

Result Library::enable_runtime_function(CallbackId function, std::uint8_t on) noexcept {
  return enable_function(ActivityDomain::kRuntime, function, on);
}

// --- Flushes, counts, the clock

Result Library::flush_all(std::uint32_t flag) noexcept {
  const std::uint64_t round = flush_begins();
  const Result result = real_.cuptiActivityFlushAll(flag);
  finish_program_flush(round);
  return result;
}

Result Library::flush(Context context, std::uint32_t stream, std::uint32_t flag) noexcept {
  const std::uint64_t round = flush_begins();
  const Result result = real_.cuptiActivityFlush(context, stream, flag);
  finish_program_flush(round);
  return result;
}

Result Library::set_flush_period(std::uint32_t milliseconds) noexcept {
  const Result result = real_.cuptiActivityFlushPeriod(milliseconds);
  if (result == kSuccess) flushes_by_period_.store(milliseconds != 0);
  return result;
}

// CUPTI sets its count of dropped records to zero at each question. The recorder asks as well, so
// the records that were counted for the recorder since the program's last question are added.
Result Library::dropped_records(Context context, std::uint32_t stream,
                                std::size_t* dropped) noexcept {
  const Result result = real_.cuptiActivityGetNumDroppedRecords(context, stream, dropped);
  if (!is_attached() || result != kSuccess || dropped == nullptr) return result;
  observer_->count_dropped(*dropped);
  *dropped += client_.take_dropped();
  return result;
}

// Flushes first: with a new clock, CUPTI loses the times of records that it has not delivered yet,
// and we lose those of records that wait for their call.
Result Library::register_clock(TimestampFunction* clock) noexcept {
  if (is_attached()) {
    const std::uint64_t round = flush_begins();
    real_.cuptiActivityFlushAll(0);
    decide_held_records(round);
    observer_->clock_changes();
  }
  const Result result = real_.cuptiActivityRegisterTimestampCallback(clock);
  if (result != kSuccess) return result;
  client_.forget_times();
  call_times_.forget();
  if (is_attached()) observer_->clock_changed();
  return result;
}

// --- Attributes that we set for ourselves

Result Library::set_attribute(Attribute attribute, std::size_t* bytes, void* value) noexcept {
  const Result result = real_.cuptiActivitySetAttribute(attribute, bytes, value);
  if (result == kSuccess && attribute >= 0 && attribute < static_cast<Attribute>(kMostAttributes)) {
    attributes_[attribute].set_by_program.store(true);
  }
  return result;
}

// Returns the value that CUPTI had by itself for an attribute that we have changed and the program
// has not.
Result Library::get_attribute(Attribute attribute, std::size_t* bytes, void* value) noexcept {
  const Result result = real_.cuptiActivityGetAttribute(attribute, bytes, value);
  if (result != kSuccess || attribute < 0 || attribute >= static_cast<Attribute>(kMostAttributes)) {
    return result;
  }
  const KeptAttribute& kept = attributes_[attribute];
  if (kept.kept.load() && !kept.set_by_program.load() && bytes != nullptr &&
      *bytes == sizeof kept.value) {
    *static_cast<std::size_t*>(value) = kept.value;
  }
  return result;
}

bool Library::program_has_set(Attribute attribute) const noexcept {
  return attributes_[attribute].set_by_program.load();
}

void Library::keep_default(Attribute attribute, std::size_t value) noexcept {
  attributes_[attribute].value = value;
  attributes_[attribute].kept.store(true);
}

// Sets the attributes that we changed back: the program's own collection gets the buffers that it
// would have without us.
void Library::restore_defaults() noexcept {
  for (std::size_t i = 0; i < kMostAttributes; ++i) {
    KeptAttribute& kept = attributes_[i];
    if (!kept.kept.exchange(false) || kept.set_by_program.load()) continue;
    std::size_t bytes = sizeof kept.value;
    real_.cuptiActivitySetAttribute(static_cast<Attribute>(i), &bytes, &kept.value);
  }
}

// --- The end

Result Library::finalize() noexcept {
  if (!is_attached()) {
    const Result result = real_.cuptiFinalize();
    if (result == kSuccess) client_.forget_all();
    return result;
  }
  observer_->finalize_begins();
  const std::uint64_t round = flush_begins();
  real_.cuptiActivityFlushAll(0);
  finish_program_flush(round);
  const Result result = real_.cuptiFinalize();
  if (result == kSuccess) {
    deliver_last_records();
    client_.forget_all();
  }
  observer_->finalize_ended(result == kSuccess);
  return result;
}

void Library::reset() noexcept {
  open_.free_in_child();
  client_.free_in_child();
  call_times_.free_in_child();
  held_.free_in_child();
  attached_.store(false);
  open_.take();
  flushes_by_period_.store(false);
  client_.forget_all();
  call_times_.forget();
  held_.forget();
  for (auto& left_on : kind_left_on_) left_on.store(false);
  for (KeptAttribute& attribute : attributes_) {
    attribute.kept.store(false);
    attribute.set_by_program.store(false);
  }
}

}  // namespace gpumemtrace::cupti
