# SPDX-License-Identifier: Apache-2.0
# Mistakes that the exploration must find. Each is one text of the recorder's source replaced; a
# text that is not there any more stops the configuration.
#
# add_mutant(NAME FILE TEXT REPLACEMENT [SCENARIOS]): the scenarios are the ring's unless told.
function(add_mutant name file text replacement)
  set(scenarios ring_scenarios)
  if(ARGC GREATER 4)
    set(scenarios ${ARGV4})
  endif()
  set(folder ${CMAKE_CURRENT_BINARY_DIR}/mutants/${name})
  add_changed_copy(${folder} ${file} "${text}" "${replacement}")
  add_exploration(mutant_${name} ${scenarios} "${folder};${few_buffers}")
  add_test(NAME exploration.finds.${name} COMMAND mutant_${name} --mutant)
  set_tests_properties(exploration.finds.${name} PROPERTIES LABELS unit TIMEOUT 300)
endfunction()

# --- Weaker memory orders.
add_mutant(commit_without_release preload/ring/thread_state.hpp
  "state.cursor - content),\n                               std::memory_order_release"
  "state.cursor - content),\n                               std::memory_order_relaxed")
add_mutant(end_without_release preload/ring/recorder.hpp
  "store(end, std::memory_order_release)" "store(end, std::memory_order_relaxed)")
add_mutant(end_without_acquire preload/ring/packer.hpp
  "(call->end).load(std::memory_order_acquire)" "(call->end).load(std::memory_order_relaxed)")
add_mutant(committed_without_acquire preload/ring/packer.hpp
  "const std::uint32_t committed =\n        chunk.committed.load(std::memory_order_acquire)"
  "const std::uint32_t committed =\n        chunk.committed.load(std::memory_order_relaxed)")
add_mutant(active_without_release preload/ring/writers.cpp
  "ChunkState::kActive, std::memory_order_release" "ChunkState::kActive, std::memory_order_relaxed")
add_mutant(push_without_release preload/base/lock_free_stack.hpp
  "desired, std::memory_order_release" "desired, std::memory_order_relaxed")
add_mutant(pop_without_acquire preload/base/lock_free_stack.hpp
  "| next,\n                                      std::memory_order_acquire, std::memory_order_acquire"
  "| next,\n                                      std::memory_order_relaxed, std::memory_order_relaxed")
add_mutant(sealed_without_release preload/base/lock_free_stack.hpp
  "index + 1, std::memory_order_release" "index + 1, std::memory_order_relaxed")
add_mutant(sealed_without_acquire preload/base/lock_free_stack.hpp
  "exchange(0, std::memory_order_acquire)" "exchange(0, std::memory_order_relaxed)")

add_mutant(growth_without_release preload/ring/ring.cpp
  "offset + trace::kMaxChunkBytes, std::memory_order_release"
  "offset + trace::kMaxChunkBytes, std::memory_order_relaxed")
add_mutant(growth_without_acquire preload/ring/ring.hpp
  "used_bytes.load(std::memory_order_acquire)" "used_bytes.load(std::memory_order_relaxed)")

# --- Steps in another order, or left out.
add_mutant(no_tag preload/base/lock_free_stack.hpp "((head >> 32) + 1) << 32" "(head >> 32) << 32")
add_mutant(link_after_push preload/base/lock_free_stack.hpp
  "links[index].store(static_cast<std::uint32_t>(head), std::memory_order_relaxed)" "(void)links")
add_mutant(recycle_before_packed preload/ring/packer.hpp
  "if (pack(chunk, chunk.committed.load(std::memory_order_acquire), append)) ring.recycle(&chunk)"
  "ring.recycle(&chunk), void(pack(chunk, chunk.committed.load(std::memory_order_acquire), append))")
add_mutant(next_after_recycle preload/ring/packer.hpp
  "    index = next;" "    index = next != kNoIndex ? ring.next_sealed(index) : next;")
add_mutant(commit_before_write preload/ring/writers.cpp
  "  memcpy(out, record, bytes);\n  memset(out + bytes, 0, padded)"
  "  commit(total), state.cursor -= total;\n  memcpy(out, record, bytes);\n  memset(out + bytes, 0, padded)")
add_mutant(active_before_emptied preload/ring/writers.cpp
  "  chunk->committed.store(0, std::memory_order_relaxed)"
  "  chunk->state.store(trace::ChunkState::kActive), chunk->committed.store(0, std::memory_order_relaxed)")
add_mutant(packed_not_remembered preload/ring/packer.hpp "  chunk.packed = end;" "")
add_mutant(open_calls_packed preload/ring/packer.hpp
  "completed_bytes(chunk, chunk.packed, committed)" "committed")
add_mutant(drop_not_counted preload/ring/writers.cpp
  "counts[index].fetch_add(1, " "counts[index].fetch_add(0, ")
add_mutant(writer_returned_early preload/ring/writers.cpp
  "  ThreadState& state = thread_state;\n  Writer& writer = *state.writer;\n  writer.chunk = state.chunk"
  "  ThreadState& state = thread_state;\n  Writer& writer = *state.writer;\n  pool.idle.push(writer.id, pool.links);\n  writer.chunk = state.chunk")
add_mutant(reclaimed_without_exchange preload/ring/writers.cpp
  "if (!writer.thread_id.compare_exchange_strong(thread_id, 0)) continue;"
  "writer.thread_id.store(0);")
add_mutant(abandoned_chunk_kept preload/ring/writers.cpp
  "  writer.chunk = nullptr;\n  writer.cursor = writer.end = nullptr;" "")
add_mutant(work_done_early preload/base/file_thread.cpp
  "    state.work(state.argument);\n    state.done.store(asked);"
  "    state.done.store(asked);\n    state.work(state.argument);")
add_mutant(asleep_though_woken preload/base/file_thread.cpp
  "    const std::uint32_t wakes = state.wakes.load();\n    do_what_is_asked();"
  "    do_what_is_asked();\n    const std::uint32_t wakes = state.wakes.load();")
add_mutant(reserve_not_watched preload/ring/writers.cpp
  "    background_wake.wake_if_asleep();\n" "")
add_mutant(asleep_though_needed preload/ring/control.hpp
  "has_work() ? background_wake.announce(false) : background_wake.sleep(wakes_, ns)"
  "(void)has_work, background_wake.sleep(wakes_, ns)")
add_mutant(pause_not_announced preload/ring/control.hpp
  "    background_wake.announce(true);" "")
add_mutant(announcement_taken_back preload/ring/control.cpp
  "  is_announced_.store(false);\n  count_.fetch_add(1);\n  wake_all(count_);"
  "  count_.fetch_add(1);\n  wake_all(count_);\n  is_announced_.store(false);")
add_mutant(request_forgotten preload/base/file_thread.cpp "  state.requested.store(true);" "")
add_mutant(growth_not_wanted preload/ring/ring.cpp
  "    wanted_[size_class].store(true);" "")
add_mutant(growth_not_told preload/ring/ring.cpp
  "  header_->used_bytes.store(offset + trace::kMaxChunkBytes, std::memory_order_release);" "")
add_mutant(sequence_taken_early preload/ring/writers.cpp
  "  chunk->sequence = writer.next_sequence;" "  chunk->sequence = writer.next_sequence++;")
add_mutant(passed_before_filled preload/ring/recorder.hpp
  "    fill(*record_);\n    call.record.time = ticks();\n    commit(sizeof(Record));"
  "    commit(sizeof(Record));\n    fill(*record_);\n    call.record.time = ticks();")

# --- A session's life, and names.
function(add_session_mutant name file text replacement)
  add_mutant(${name} ${file} "${text}" "${replacement}" session_scenarios)
endfunction()
add_session_mutant(two_starts preload/session/attach.cpp
  "const bool is_first = control.session.compare_exchange_strong(not_started, kStarting);"
  "control.session.store(kStarting);\n  const bool is_first = not_started == kNotStarted;")
add_session_mutant(start_not_awaited preload/session/session.cpp
  "return control.session.load() != kStarting ||" "return true ||")
add_session_mutant(start_without_release preload/session/session.cpp
  "control.session.store(session.config.start_paused ? kPaused : session.id())"
  "control.session.store(session.config.start_paused ? kPaused : session.id(), std::memory_order_relaxed)")
add_session_mutant(failure_not_told preload/session/attach.cpp
  "!start_session(wanted)) control.session.store(kOff);"
  "!start_session(wanted)) control.session.store(kNotStarted);")
add_session_mutant(request_read_early preload/session/attach.cpp
  "if (control.session.load() == kNotStarted) {"
  "if (control.session.load(std::memory_order_acquire) == kNotStarted) {")
add_session_mutant(resumed_too_early preload/session/session.cpp
  "  std::uint32_t paused = settled_session();" "  std::uint32_t paused = control.session.load();")
add_session_mutant(answered_before_packed preload/session/session.hpp
  "  pack_all();\n  session.flush_answered.store(requested);"
  "  session.flush_answered.store(requested);\n  pack_all();")
add_session_mutant(answered_later_request preload/session/session.hpp
  "  session.flush_answered.store(requested);"
  "  session.flush_answered.store(session.flush_requested.load());")
add_session_mutant(end_answered_half_way preload/session/session.hpp
  "if (session.ending.load() || control" "if (control")
add_session_mutant(end_looked_at_first preload/session/session.hpp
  "  const std::uint32_t requested = session.flush_requested.load();\n  // After that: the library's end sets it before it requests its flush.\n  if (session.ending.load() || control.session.load() == kOff) return false;"
  "  if (session.ending.load() || control.session.load() == kOff) return false;\n  const std::uint32_t requested = session.flush_requested.load();")
add_session_mutant(emitted_before_written preload/session/annotations.cpp
  "  if (id != 0 && !emitted) {" "  if (id != 0 && !emitted) {\n    names.mark_emitted(id);")
add_session_mutant(emitted_without_release preload/base/key_table.hpp
  "fetch_or(kEmitted, std::memory_order_release)" "fetch_or(kEmitted, std::memory_order_relaxed)")
add_session_mutant(emitted_without_acquire preload/base/key_table.hpp
  "keys_[slot].load(std::memory_order_acquire)" "keys_[slot].load(std::memory_order_relaxed)")
add_session_mutant(claimed_without_exchange preload/base/key_table.hpp
  "keys_[slot].compare_exchange_strong(present, key & ~kEmitted, std::memory_order_acquire)"
  "(keys_[slot].store(key & ~kEmitted), true)")
add_session_mutant(session_of_parent preload/ring/control.hpp
  "if (thread_state.session == session) [[likely]]"
  "(void)session;\n  if (thread_state.session != kNoSession) [[likely]]")

# --- Pauses.
function(add_pause_mutant name file text replacement)
  add_mutant(${name} ${file} "${text}" "${replacement}" pause_scenarios)
endfunction()
add_pause_mutant(paused_before_told preload/session/session.cpp
  "  (void)write_mark(trace::MarkKind::kStopped, {});\n  Session& session = the_session();\n  std::uint32_t recording_id = session.id();\n  return control.session.compare_exchange_strong(recording_id, kPaused);"
  "  std::uint32_t recording_id = the_session().id();\n  const bool done = control.session.compare_exchange_strong(recording_id, kPaused);\n  (void)write_mark(trace::MarkKind::kStopped, {});\n  return done;")
add_pause_mutant(pause_overrules preload/session/session.cpp
  "return control.session.compare_exchange_strong(recording_id, kPaused);"
  "return control.session.exchange(kPaused) == recording_id++;")
add_pause_mutant(resume_overrules preload/session/session.cpp
  "if (!control.session.compare_exchange_strong(paused, the_session().id())) return false;"
  "control.session.store(the_session().id());")
add_pause_mutant(end_during_pause_not_told preload/session/session.cpp
  "  return session_exists() &&\n         syscall(SYS_getpid)"
  "  return control.session.load() == the_session().id() &&\n         syscall(SYS_getpid)")
add_pause_mutant(request_not_kept preload/session/attach.cpp
  "requested.store(wanted ? RequestedState::kRecord : RequestedState::kPause);"
  "if (wanted) requested.store(RequestedState::kPause);")

# --- Call stacks.
function(add_stack_mutant name file text replacement)
  add_mutant(${name} ${file} "${text}" "${replacement}" stack_scenarios)
endfunction()
add_stack_mutant(stack_emitted_early preload/stacks/stacks.cpp
  "  trace::Stack record;" "  stacks.mark_emitted(trace::number_of(id));\n  trace::Stack record;")
add_stack_mutant(stack_emitted_without_code preload/stacks/stacks.cpp
  "if (written && has_room) stacks" "if (written) stacks")
add_stack_mutant(code_emitted_early preload/stacks/stacks.cpp
  "  const bool written = owner ==" "  codes.mark_emitted(id);\n  const bool written = owner ==")
add_stack_mutant(code_emitted_without_room preload/stacks/stacks.cpp
  "if (written) codes.mark_emitted(id);" "codes.mark_emitted(id);")

# --- Contexts.
function(add_context_mutant name file text replacement)
  add_mutant(${name} ${file} "${text}" "${replacement}" context_scenarios)
endfunction()
add_context_mutant(context_claimed_without_exchange preload/driver/tracking.cpp
  "if (entry.claimed.compare_exchange_strong(free, handle)) {"
  "if ((free = entry.claimed.load()) == 0) {\n      entry.claimed.store(handle);")
add_context_mutant(context_of_another_not_seen preload/driver/tracking.cpp
  "    if (is_entry_of(entry, handle)) return {ContextId{index + 1}, false};" "")
add_context_mutant(context_published_early preload/driver/tracking.cpp
  "      entry.device.store(device);" "      entry.handle.store(handle);\n      entry.device.store(device);")
add_context_mutant(context_ended_still_found preload/driver/tracking.cpp
  "entry.claimed.load() == handle && !entry.ended.load()" "entry.claimed.load() == handle")
add_context_mutant(start_not_awaited_by_context preload/session/context_records.cpp
  "if (!recording(false)) return;" "if (!session_exists() || !recording(false)) return;")

# --- CUPTI's buffers.
function(add_cupti_mutant name file text replacement)
  add_mutant(${name} ${file} "${text}" "${replacement}" cupti_scenarios)
endfunction()
add_cupti_mutant(filled_without_release cupti/buffers.cpp
  "fetch_add(1);\n  slot.state.store(is_read ? State::kFilled : State::kFree)"
  "fetch_add(1, std::memory_order_relaxed);\n  slot.state.store(is_read ? State::kFilled : State::kFree, std::memory_order_relaxed)")
add_cupti_mutant(filled_without_acquire cupti/buffers.cpp
  "    if (slots_[i].state.load() != from) continue;\n    if (slots_[i].state.compare_exchange_strong(expected, to))"
  "    if (slots_[i].state.load(std::memory_order_relaxed) != from) continue;\n    if (slots_[i].state.compare_exchange_strong(expected, to, std::memory_order_relaxed))")
add_cupti_mutant(free_without_release cupti/buffers.cpp
  "slots_[index_of(filled.bytes)].state.store(State::kFree)"
  "slots_[index_of(filled.bytes)].state.store(State::kFree, std::memory_order_relaxed)")
add_cupti_mutant(buffer_taken_without_exchange cupti/buffers.cpp
  "if (slots_[i].state.compare_exchange_strong(expected, to))" "if (slots_[i].state.store(to), (expected = to) == to)")
add_cupti_mutant(filled_counted_late cupti/buffers.cpp
  "  if (is_read) filled_count_.fetch_add(1);\n  slot.state.store(is_read ? State::kFilled : State::kFree);"
  "  slot.state.store(is_read ? State::kFilled : State::kFree);\n  if (is_read) filled_count_.fetch_add(1);")
add_cupti_mutant(read_after_release cupti/collection.cpp
  "  if (!buffers_.take_filled(filled)) return false;"
  "  if (!buffers_.take_filled(filled)) return false;\n  buffers_.release(filled);")
add_cupti_mutant(served_after_completed cupti/collection.cpp
  "collection.buffers_.completed(buffer, valid_bytes, library->index(), !keep);"
  "collection.buffers_.completed(buffer, valid_bytes, library->index(), !keep);\n    library->serve_program(buffer, valid_bytes);")
add_cupti_mutant(filled_behind_the_end cupti/collection.cpp
  "if (keep && !collection.reading_.load())" "if (false)")
add_cupti_mutant(call_begins_unseen cupti/collection.cpp
  "  in_call_.store(true);\n  if (state_.load() == State::kCollecting) return true;"
  "  const bool is_there = state_.load() == State::kCollecting;\n  in_call_.store(true);\n  if (is_there) return true;")
add_cupti_mutant(call_not_awaited cupti/collection.cpp
  "in_call_.load() && step" "false && step")
add_cupti_mutant(call_ends_early cupti/collection.cpp
  "  const std::uint64_t round = library.flush_begins();"
  "  end_call();\n  const std::uint64_t round = library.flush_begins();")
add_cupti_mutant(collecting_before_settled cupti/collection.cpp
  "  what_.kinds = own.kinds;" "  state_.store(State::kCollecting);\n  what_.kinds = own.kinds;")
add_cupti_mutant(drops_given_up cupti/collection.cpp
  "  dropped_by_recorder_.fetch_add(record.by_recorder);" "")
add_cupti_mutant(drops_cleared_unread cupti/collection.cpp
  "record.by_recorder = dropped_by_recorder_.exchange(0);"
  "record.by_recorder = dropped_by_recorder_.load();\n  dropped_by_recorder_.store(0);")
add_cupti_mutant(child_has_parents_buffers cupti/collection.cpp "  buffers_.reset();" "")
add_cupti_mutant(child_has_parents_lock cupti/collection.cpp "  notes_lock_.free_in_child();" "")
