# Mistakes that the exploration must find. Each is one text of the recorder's source replaced; a
# text that is not there any more stops the configuration.
#
# add_mutant(NAME FILE TEXT REPLACEMENT)
function(add_mutant name file text replacement)
  set(folder ${CMAKE_CURRENT_BINARY_DIR}/mutants/${name})
  file(READ ${PROJECT_SOURCE_DIR}/${file} source)
  string(FIND "${source}" "${text}" place)
  if(place EQUAL -1)
    message(FATAL_ERROR "tests/exploration/mutants.cmake: ${file} has no text '${text}' for ${name}")
  endif()
  string(REPLACE "${text}" "${replacement}" source "${source}")
  file(CONFIGURE OUTPUT ${folder}/${file} CONTENT "${source}" @ONLY)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${file})
  add_exploration(mutant_${name} ${folder})
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
