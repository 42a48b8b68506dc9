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
  file(READ ${PROJECT_SOURCE_DIR}/${file} source)
  string(FIND "${source}" "${text}" place)
  if(place EQUAL -1)
    message(FATAL_ERROR "tests/exploration/mutants.cmake: ${file} has no text '${text}' for ${name}")
  endif()
  string(REPLACE "${text}" "${replacement}" source "${source}")
  file(CONFIGURE OUTPUT ${folder}/${file} CONTENT "${source}" @ONLY)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${file})
  add_exploration(mutant_${name} ${scenarios} ${folder})
  add_test(NAME exploration.finds.${name} COMMAND mutant_${name} --mutant)
  set_tests_properties(exploration.finds.${name} PROPERTIES LABELS unit TIMEOUT 120)
endfunction()

# --- Weaker memory orders.
add_mutant(commit_without_release preload/recorder.hpp
  "state.cursor - content),\n                               std::memory_order_release"
  "state.cursor - content),\n                               std::memory_order_relaxed")
add_mutant(end_without_release preload/recorder.hpp
  "store(end, std::memory_order_release)" "store(end, std::memory_order_relaxed)")
add_mutant(end_without_acquire preload/packer.hpp
  "(call->end).load(std::memory_order_acquire)" "(call->end).load(std::memory_order_relaxed)")
add_mutant(committed_without_acquire preload/packer.hpp
  "const std::uint32_t committed =\n        chunk.committed.load(std::memory_order_acquire)"
  "const std::uint32_t committed =\n        chunk.committed.load(std::memory_order_relaxed)")
add_mutant(active_without_release preload/writers.cpp
  "ChunkState::kActive, std::memory_order_release" "ChunkState::kActive, std::memory_order_relaxed")
add_mutant(push_without_release preload/lock_free_stack.hpp
  "desired, std::memory_order_release" "desired, std::memory_order_relaxed")
add_mutant(pop_without_acquire preload/lock_free_stack.hpp
  "| next,\n                                      std::memory_order_acquire, std::memory_order_acquire"
  "| next,\n                                      std::memory_order_relaxed, std::memory_order_relaxed")
add_mutant(sealed_without_release preload/lock_free_stack.hpp
  "index + 1, std::memory_order_release" "index + 1, std::memory_order_relaxed")
add_mutant(sealed_without_acquire preload/lock_free_stack.hpp
  "exchange(0, std::memory_order_acquire)" "exchange(0, std::memory_order_relaxed)")

add_mutant(made_without_release preload/ring.cpp
  "(extent % 64), std::memory_order_release" "(extent % 64), std::memory_order_relaxed")
add_mutant(made_without_acquire preload/ring.cpp
  "made_[extent / 64].load(std::memory_order_acquire)"
  "made_[extent / 64].load(std::memory_order_relaxed)")

# --- Steps in another order, or left out.
add_mutant(no_tag preload/lock_free_stack.hpp "((head >> 32) + 1) << 32" "(head >> 32) << 32")
add_mutant(link_after_push preload/lock_free_stack.hpp
  "links[index].store(static_cast<std::uint32_t>(head), std::memory_order_relaxed)" "(void)links")
add_mutant(recycle_before_packed preload/packer.hpp
  "if (pack(chunk, chunk.committed.load(std::memory_order_acquire), append)) ring.recycle(&chunk)"
  "ring.recycle(&chunk), pack(chunk, chunk.committed.load(std::memory_order_acquire), append)")
add_mutant(next_after_recycle preload/packer.hpp
  "    index = next;" "    index = next != kNoIndex ? ring.next_sealed(index) : next;")
add_mutant(commit_before_write preload/writers.cpp
  "  memcpy(out, record, bytes);\n  memset(out + bytes, 0, padded)"
  "  commit(total), state.cursor -= total;\n  memcpy(out, record, bytes);\n  memset(out + bytes, 0, padded)")
add_mutant(active_before_emptied preload/writers.cpp
  "  chunk->committed.store(0, std::memory_order_relaxed)"
  "  chunk->state.store(trace::ChunkState::kActive), chunk->committed.store(0, std::memory_order_relaxed)")
add_mutant(packed_not_remembered preload/packer.hpp "  chunk.packed = end;" "")
add_mutant(open_calls_packed preload/packer.hpp
  "completed_bytes(chunk, chunk.packed, committed)" "committed")
add_mutant(drop_not_counted preload/writers.cpp
  "dropped[index].fetch_add(1, " "dropped[index].fetch_add(0, ")
add_mutant(writer_returned_early preload/writers.cpp
  "  ThreadState& state = thread_state;\n  Writer& writer = *state.writer;\n  writer.chunk = state.chunk"
  "  ThreadState& state = thread_state;\n  Writer& writer = *state.writer;\n  session.idle_writers.push(writer.id, session.writer_links);\n  writer.chunk = state.chunk")
add_mutant(reclaimed_without_exchange preload/writers.cpp
  "if (!writer.thread_id.compare_exchange_strong(thread_id, 0)) continue;"
  "writer.thread_id.store(0);")
add_mutant(abandoned_chunk_kept preload/writers.cpp
  "  writer.chunk = nullptr;\n  writer.cursor = writer.end = nullptr;" "")
add_mutant(extent_claimed_twice preload/ring.cpp
  "while (!header_->used_bytes.compare_exchange_weak(offset, offset + trace::kMaxChunkBytes))"
  "while (header_->used_bytes.store(offset + trace::kMaxChunkBytes), false)")
add_mutant(sequence_taken_early preload/writers.cpp
  "  chunk->sequence = writer.next_sequence;" "  chunk->sequence = writer.next_sequence++;")
add_mutant(passed_before_filled preload/recorder.hpp
  "    fill(*record_);\n    call.record.time = ticks();\n    commit(sizeof(Record));"
  "    commit(sizeof(Record));\n    fill(*record_);\n    call.record.time = ticks();")

# --- A session's life, and names.
function(add_session_mutant name file text replacement)
  add_mutant(${name} ${file} "${text}" "${replacement}" session_scenarios)
endfunction()
add_session_mutant(two_starts preload/session.cpp
  "if (control.session.compare_exchange_strong(session, kStarting)) start();"
  "control.session.store(kStarting), start();")
add_session_mutant(start_not_awaited preload/session.cpp
  "control.session.load() == kStarting && tries < 20'000" "false && tries < 20'000")
add_session_mutant(start_overrules preload/session.cpp
  "control.session.compare_exchange_strong(starting, paused ? kPaused : the_session().id)"
  "(void)starting, control.session.store(paused ? kPaused : the_session().id)")
add_session_mutant(start_without_release preload/session.cpp
  "control.session.compare_exchange_strong(starting, paused ? kPaused : the_session().id)"
  "control.session.compare_exchange_strong(starting, paused ? kPaused : the_session().id, std::memory_order_relaxed)")
add_session_mutant(failure_not_told preload/session.cpp
  "    control.session.store(kOff);\n    return;\n  }\n  // Fails where"
  "    control.session.store(kNotStarted);\n    return;\n  }\n  // Fails where")
add_session_mutant(wish_read_early preload/session.cpp
  "  std::uint32_t session = control.session.load();\n  if (session == kNotStarted) {"
  "  std::uint32_t session = control.session.load(std::memory_order_acquire);\n  if (session == kNotStarted) {")
add_session_mutant(wish_too_early preload/session.cpp
  "  std::uint32_t paused = settled_session();" "  std::uint32_t paused = control.session.load();")
add_session_mutant(answered_before_packed preload/session_state.hpp
  "  pack_all();\n  session.flush_answered.store(requested);"
  "  session.flush_answered.store(requested);\n  pack_all();")
add_session_mutant(answered_later_request preload/session_state.hpp
  "  session.flush_answered.store(requested);"
  "  session.flush_answered.store(session.flush_requested.load());")
add_session_mutant(told_before_written preload/annotations.cpp
  "  if (id != 0 && !told) {" "  if (id != 0 && !told) {\n    names.was_told(id);")
add_session_mutant(told_without_release preload/key_table.hpp
  "fetch_or(kTold, std::memory_order_release)" "fetch_or(kTold, std::memory_order_relaxed)")
add_session_mutant(told_without_acquire preload/key_table.hpp
  "keys_[slot].load(std::memory_order_acquire)" "keys_[slot].load(std::memory_order_relaxed)")
add_session_mutant(claimed_without_exchange preload/key_table.hpp
  "keys_[slot].compare_exchange_strong(present, key & ~kTold, std::memory_order_acquire)"
  "(keys_[slot].store(key & ~kTold), true)")
add_session_mutant(session_of_parent preload/recorder.hpp
  "if (thread_state.session == session) [[likely]]"
  "(void)session;\n  if (thread_state.session != kNoSession) [[likely]]")
