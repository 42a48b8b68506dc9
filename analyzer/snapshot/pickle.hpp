// SPDX-License-Identifier: Apache-2.0
// Reads pickles that consist of dictionaries, lists, tuples, texts and numbers. Runs no code.
#pragma once

#include <cstdint>
#include <span>
#include <stdexcept>
#include <string_view>

namespace gpumemtrace::analyzer::snapshot {

// The error of a pickle that cannot be read. The message begins with the opcode's name and offset.
class PickleError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

enum class Kind : std::uint8_t {
  // The following kinds can be in the pickle's memo.
  unset,
  text,
  pair,        // a tuple of two whole numbers
  empty_list,  // a list to which nothing is appended yet
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
  scalar,  // only in the memo: stands for a value of one of the kinds below
  // The following kinds are on the stack only.
  none,
  boolean,
  whole,     // a whole number that is not negative
  negative,  // a negative whole number: `number` as two's complement
  real,      // a floating-point number: `number` has the bits of a double
};

struct Value {
  std::uint64_t number = 0;  // the value itself, or the number that the builder gave it
  std::uint32_t memo = 0;    // the index in the memo, plus 1; 0: not in the memo
  Kind kind = Kind::unset;
};

// Makes values from a pickle's content. When items are put into a dictionary or list, the result of
// extend_dict() or extend_list() replaces it, so a builder need not keep the items that it has
// understood.
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
//   opcodes that name, call or build objects, and all that these picklers do not write for plain
//   data.
// - Refuses to extend a value that was already used from the memo: in plain data, this happens only
//   to values that contain themselves.
// - Memory: 16 bytes for each value on the pickle's stack, which is bounded, and 4 bytes for each
//   value in its memo.
[[nodiscard]] Value read_pickle(int descriptor, std::uint64_t bytes, PickleBuilder& builder);

}  // namespace gpumemtrace::analyzer::snapshot
