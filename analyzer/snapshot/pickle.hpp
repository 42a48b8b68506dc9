// SPDX-License-Identifier: Apache-2.0
// Reads pickles that consist of dictionaries, lists, tuples, texts and numbers. Runs no code.
#pragma once

#include <cstdint>
#include <span>
#include <stdexcept>
#include <string_view>

namespace gpumemtrace::analyzer::snapshot {

// The pickle cannot be read. The message begins with the opcode's name and its offset.
class PickleError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

enum class Kind : std::uint8_t {
  // These can be in the pickle's memo.
  unset,
  text,
  pair,        // a tuple of two whole numbers
  empty_list,  // nothing is appended to it yet
  stack,       // a list of frames
  list,        // a list of rows or of lists
  empty_dict,
  dict,
  event,
  block,
  segment,
  frame,
  annotation,
  other,   // a value that nobody asks for; its content is dropped
  scalar,  // in the memo only: one of the following
  // These are on the stack only.
  none,
  boolean,
  whole,     // not negative
  negative,  // `number` as two's complement
  real,      // the bits of a double
};

struct Value {
  std::uint64_t number = 0;  // the value itself, or its number at the builder
  std::uint32_t memo = 0;    // where the memo holds it, plus 1; 0: nowhere
  Kind kind = Kind::unset;
};

// Makes values of what the pickle holds. A dictionary or list is built when items are put into it;
// the result stands for it from then on, so a builder need not keep what it has understood.
class PickleBuilder {
 public:
  virtual ~PickleBuilder() = default;
  virtual Value text(std::string_view text) = 0;
  virtual Value tuple(std::span<const Value> items) = 0;
  virtual Value extend_dict(Value dict, std::span<const Value> keys_and_values) = 0;
  virtual Value extend_list(Value list, std::span<const Value> items) = 0;
};

// Reads `bytes` bytes from the beginning of the file, and returns the pickle's value.
// - Takes protocols 2 to 5 as Python's pickler and PyTorch's C++ pickler write them; refuses
// opcodes
//   that name, call or build objects, and all that these two do not write for plain data.
// - Refuses a value that changes after it was used elsewhere: only a value that contains itself
// does.
// - Memory: 16 bytes a value on the pickle's stack, which is bounded, 4 bytes a value in its memo.
[[nodiscard]] Value read_pickle(int descriptor, std::uint64_t bytes, PickleBuilder& builder);

}  // namespace gpumemtrace::analyzer::snapshot
