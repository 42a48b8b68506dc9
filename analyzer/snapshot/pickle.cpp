// SPDX-License-Identifier: Apache-2.0
#include "analyzer/snapshot/pickle.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <string>
#include <vector>

namespace gpumemtrace::analyzer::snapshot {
namespace {

static_assert(std::endian::native == std::endian::little, "pickles are little-endian");

// All opcodes, as https://github.com/python/cpython/blob/main/Lib/pickletools.py has them.
// clang-format off
#define GPUMEMTRACE_PICKLE_OPCODES(X)                                                            \
  X(MARK, '(') X(STOP, '.') X(POP, '0') X(POP_MARK, '1') X(DUP, '2') X(FLOAT, 'F')               \
  X(INT, 'I') X(BININT, 'J') X(BININT1, 'K') X(LONG, 'L') X(BININT2, 'M') X(NONE, 'N')           \
  X(PERSID, 'P') X(BINPERSID, 'Q') X(REDUCE, 'R') X(STRING, 'S') X(BINSTRING, 'T')               \
  X(SHORT_BINSTRING, 'U') X(UNICODE, 'V') X(BINUNICODE, 'X') X(APPEND, 'a') X(BUILD, 'b')        \
  X(GLOBAL, 'c') X(DICT, 'd') X(EMPTY_DICT, '}') X(APPENDS, 'e') X(GET, 'g') X(BINGET, 'h')      \
  X(INST, 'i') X(LONG_BINGET, 'j') X(LIST, 'l') X(EMPTY_LIST, ']') X(OBJ, 'o') X(PUT, 'p')       \
  X(BINPUT, 'q') X(LONG_BINPUT, 'r') X(SETITEM, 's') X(TUPLE, 't') X(EMPTY_TUPLE, ')')           \
  X(SETITEMS, 'u') X(BINFLOAT, 'G') X(PROTO, 0x80) X(NEWOBJ, 0x81) X(EXT1, 0x82)                 \
  X(EXT2, 0x83) X(EXT4, 0x84) X(TUPLE1, 0x85) X(TUPLE2, 0x86) X(TUPLE3, 0x87)                    \
  X(NEWTRUE, 0x88) X(NEWFALSE, 0x89) X(LONG1, 0x8a) X(LONG4, 0x8b) X(BINBYTES, 'B')              \
  X(SHORT_BINBYTES, 'C') X(SHORT_BINUNICODE, 0x8c) X(BINUNICODE8, 0x8d) X(BINBYTES8, 0x8e)       \
  X(EMPTY_SET, 0x8f) X(ADDITEMS, 0x90) X(FROZENSET, 0x91) X(NEWOBJ_EX, 0x92)                     \
  X(STACK_GLOBAL, 0x93) X(MEMOIZE, 0x94) X(FRAME, 0x95) X(BYTEARRAY8, 0x96)                      \
  X(NEXT_BUFFER, 0x97) X(READONLY_BUFFER, 0x98)
// clang-format on

enum Opcode : std::uint8_t {
#define GPUMEMTRACE_OPCODE(name, code) name = code,
  GPUMEMTRACE_PICKLE_OPCODES(GPUMEMTRACE_OPCODE)
#undef GPUMEMTRACE_OPCODE
};

std::string name_of(std::uint8_t opcode) {
#define GPUMEMTRACE_OPCODE(name, code) \
  if (opcode == name) return #name;
  GPUMEMTRACE_PICKLE_OPCODES(GPUMEMTRACE_OPCODE)
#undef GPUMEMTRACE_OPCODE
  return "Unknown opcode " + std::to_string(opcode);
}

// The input of the pickle: a file, read from its beginning in pieces.
class Input {
 public:
  Input(int descriptor, std::uint64_t bytes)
      : descriptor_(descriptor), left_(bytes), buffer_(std::min(bytes, kBufferBytes)) {}

  // Reads the next bytes; the pointer is valid until the next call.
  const std::uint8_t* take(std::uint64_t bytes) {
    if (end_ - begin_ < bytes) refill(bytes);
    const std::uint8_t* taken = buffer_.data() + begin_;
    begin_ += bytes;
    return taken;
  }
  template <class Number>
  Number number() {
    Number value;
    std::memcpy(&value, take(sizeof value), sizeof value);
    return value;
  }
  [[nodiscard]] std::uint64_t offset() const { return read_ - (end_ - begin_); }
  [[nodiscard]] std::uint64_t left() const { return left_ + (end_ - begin_); }

 private:
  void refill(std::uint64_t bytes) {
    if (bytes > left()) throw PickleError("the file ends before that");
    std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
    if (buffer_.size() < bytes) buffer_.resize(bytes);
    while (end_ < bytes) {
      const ssize_t got = pread(descriptor_, buffer_.data() + end_,
                                std::min(left_, buffer_.size() - end_), static_cast<off_t>(read_));
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) throw PickleError("the file cannot be read to its end");
      end_ += static_cast<std::uint64_t>(got);
      read_ += static_cast<std::uint64_t>(got);
      left_ -= static_cast<std::uint64_t>(got);
    }
  }

  static constexpr std::uint64_t kBufferBytes = std::uint64_t{1} << 18;

  int descriptor_;
  std::uint64_t left_;      // bytes of the file that are not read yet
  std::uint64_t read_ = 0;  // bytes of the file that were read into the buffer
  std::vector<std::uint8_t> buffer_;
  std::uint64_t begin_ = 0;  // the bytes from begin_ to end_ are not taken yet
  std::uint64_t end_ = 0;
};

// The values that a pickle refers to by number. An entry has 4 bits of kind, one bit for "was
// used", and 27 bits of number.
class Memo {
 public:
  void add(const Value& value) { entries_.push_back(pack(value)); }
  void replace(std::uint32_t number, const Value& value) { entries_[number] = pack(value); }
  Value use(std::uint32_t number) {
    if (number >= entries_.size()) throw PickleError("nothing was stored under this number");
    entries_[number] |= kUsed;
    const std::uint32_t entry = entries_[number];
    Value value{entry & kNumber, 0, static_cast<Kind>(entry >> 28)};
    if (value.kind == Kind::scalar) value = scalars_[value.number];
    value.memo = number + 1;
    return value;
  }
  [[nodiscard]] bool is_used(std::uint32_t number) const { return (entries_[number] & kUsed) != 0; }
  [[nodiscard]] std::size_t size() const { return entries_.size(); }

 private:
  static constexpr std::uint32_t kUsed = 1U << 27;
  static constexpr std::uint32_t kNumber = kUsed - 1;

  std::uint32_t pack(Value value) {
    if (value.kind > Kind::scalar) {
      scalars_.push_back(value);
      value = {scalars_.size() - 1, 0, Kind::scalar};
    }
    if (value.number > kNumber) throw PickleError("the file has more values than can be read");
    return static_cast<std::uint32_t>(value.kind) << 28 | static_cast<std::uint32_t>(value.number);
  }

  std::vector<std::uint32_t> entries_;
  std::vector<Value> scalars_;
};

// The stack machine whose program a pickle is.
class Machine {
 public:
  Machine(int descriptor, std::uint64_t bytes, PickleBuilder& builder)
      : input_(descriptor, bytes), builder_(builder) {}

  Value run() {
    try {
      begin();
      do {
        offset_ = input_.offset();
        opcode_ = *input_.take(1);
        step();
      } while (opcode_ != STOP);
    } catch (const PickleError& error) {
      throw PickleError(place() + error.what());
    } catch (const std::length_error& error) {
      throw PickleError(place() + "the file has " + error.what());
    }
    return stack_.front();
  }

 private:
  // The most values on the machine's stack, which take 256 MiB.
  static constexpr std::size_t kMaxValues = std::size_t{1} << 24;
  static constexpr std::size_t kMaxMarks = 1000;

  [[nodiscard]] std::string place() const {
    return name_of(opcode_) + " at offset " + std::to_string(offset_) + ": ";
  }
  void begin();
  void step();
  void stop() const;

  void push(Value value) {
    if (stack_.size() >= kMaxValues) throw PickleError("too many values stand side by side");
    stack_.push_back(value);
  }
  void push(Kind kind, std::uint64_t number = 0) { push(Value{number, 0, kind}); }
  void push_signed(std::int64_t number) {
    push(number < 0 ? Kind::negative : Kind::whole, static_cast<std::uint64_t>(number));
  }
  void push_long(std::size_t bytes);
  void push_text(std::uint64_t bytes) {
    push(builder_.text({reinterpret_cast<const char*>(input_.take(bytes)), bytes}));
  }
  void push_mark() {
    if (marks_.size() >= kMaxMarks) throw PickleError("values are nested too deep");
    marks_.push_back(stack_.size());
  }
  // pop_mark() and last() return the stack index of the first item.
  std::size_t pop_mark() {
    if (marks_.empty()) throw PickleError("there is no MARK before it");
    const std::size_t first = marks_.back();
    marks_.pop_back();
    return first;
  }
  [[nodiscard]] std::size_t last(std::size_t items) const {
    if (stack_.size() < bottom() + items) throw PickleError("values are missing before it");
    return stack_.size() - items;
  }
  // The stack index of the first value that belongs to the innermost open MARK.
  [[nodiscard]] std::size_t bottom() const { return marks_.empty() ? 0 : marks_.back(); }

  [[nodiscard]] std::span<const Value> items_from(std::size_t first) const {
    return std::span(stack_).subspan(first);
  }
  void memoize(std::uint64_t number);
  void extend(std::size_t first, Value (PickleBuilder::*add)(Value, std::span<const Value>));
  void make_tuple(std::size_t first) {
    const Value tuple = builder_.tuple(items_from(first));
    stack_.resize(first);
    push(tuple);
  }

  Input input_;
  PickleBuilder& builder_;
  std::vector<Value> stack_;
  std::vector<std::size_t> marks_;  // stack indexes of the open MARKs
  Memo memo_;
  std::uint64_t offset_ = 0;  // the offset of the opcode in the pickle
  std::uint8_t opcode_ = PROTO;
};

void Machine::begin() {
  constexpr std::uint8_t kOldest = 2;
  constexpr std::uint8_t kNewest = 5;
  const std::uint8_t* start = input_.take(2);
  if (start[0] != PROTO) throw PickleError("the file does not begin with it, so it is no pickle");
  if (start[1] < kOldest || start[1] > kNewest) {
    throw PickleError("protocol " + std::to_string(start[1]) + " is not read, only 2 to 5");
  }
}

// clang-format off
void Machine::step() {
  switch (opcode_) {
    case STOP:             return stop();
    case MARK:             return push_mark();
    case NONE:             return push(Kind::none);
    case NEWTRUE:          return push(Kind::boolean, 1);
    case NEWFALSE:         return push(Kind::boolean, 0);
    case BININT:           return push_signed(input_.number<std::int32_t>());
    case BININT1:          return push(Kind::whole, input_.number<std::uint8_t>());
    case BININT2:          return push(Kind::whole, input_.number<std::uint16_t>());
    case LONG1:            return push_long(input_.number<std::uint8_t>());
    case BINFLOAT:         return push(Kind::real, __builtin_bswap64(input_.number<std::uint64_t>()));
    case SHORT_BINUNICODE: return push_text(input_.number<std::uint8_t>());
    case BINUNICODE:       return push_text(input_.number<std::uint32_t>());
    case BINUNICODE8:      return push_text(input_.number<std::uint64_t>());
    case EMPTY_DICT:       return push(Kind::empty_dict);
    case EMPTY_LIST:       return push(Kind::empty_list);
    case EMPTY_TUPLE:      return push(builder_.tuple({}));
    case TUPLE:            return make_tuple(pop_mark());
    case TUPLE1:           return make_tuple(last(1));
    case TUPLE2:           return make_tuple(last(2));
    case TUPLE3:           return make_tuple(last(3));
    case APPEND:           return extend(last(1), &PickleBuilder::extend_list);
    case APPENDS:          return extend(pop_mark(), &PickleBuilder::extend_list);
    case SETITEM:          return extend(last(2), &PickleBuilder::extend_dict);
    case SETITEMS:         return extend(pop_mark(), &PickleBuilder::extend_dict);
    case MEMOIZE:          return memoize(memo_.size());
    case BINPUT:           return memoize(input_.number<std::uint8_t>());
    case LONG_BINPUT:      return memoize(input_.number<std::uint32_t>());
    case BINGET:           return push(memo_.use(input_.number<std::uint8_t>()));
    case LONG_BINGET:      return push(memo_.use(input_.number<std::uint32_t>()));
    case FRAME:
      if (input_.number<std::uint64_t>() > input_.left()) {
        throw PickleError("the file ends before that");
      }
      return;
    default:
      throw PickleError("this opcode is refused, because plain data has none");
  }
}
// clang-format on

void Machine::stop() const {
  if (!marks_.empty() || stack_.size() != 1) throw PickleError("values before it are left over");
  if (input_.left() != 0) throw PickleError("there is more after it");
}

void Machine::push_long(std::size_t bytes) {
  std::array<std::uint8_t, 9> digits{};
  const std::uint8_t* taken = input_.take(bytes);
  const bool is_negative = bytes != 0 && taken[bytes - 1] >= 0x80;
  if (bytes > digits.size() || (bytes == digits.size() && taken[bytes - 1] != 0)) {
    throw PickleError("a number above 64 bits is refused");
  }
  if (is_negative) digits.fill(0xff);
  std::copy_n(taken, bytes, digits.begin());
  std::uint64_t number = 0;
  std::memcpy(&number, digits.data(), sizeof number);
  push(is_negative ? Kind::negative : Kind::whole, number);
}

// Stores the topmost value of the stack in the memo under `number`, which must be the next one.
void Machine::memoize(std::uint64_t number) {
  Value& value = stack_[last(1)];
  if (number != memo_.size()) throw PickleError("its number is not the next one");
  if (value.memo != 0) throw PickleError("the value is stored already");
  memo_.add(value);
  value.memo = static_cast<std::uint32_t>(memo_.size());
}

// Adds the items from index `first` on to the list or dictionary before them on the stack.
void Machine::extend(std::size_t first,
                     Value (PickleBuilder::*add)(Value, std::span<const Value>)) {
  if (first <= bottom()) throw PickleError("values are missing before it");
  Value& container = stack_[first - 1];
  if (container.memo != 0 && memo_.is_used(container.memo - 1)) {
    throw PickleError("it changes a value that is in use, as one that contains itself");
  }
  const std::uint32_t memo = container.memo;
  container = (builder_.*add)(container, items_from(first));
  container.memo = memo;
  if (memo != 0) memo_.replace(memo - 1, container);
  stack_.resize(first);
}

}  // namespace

Value read_pickle(int descriptor, std::uint64_t bytes, PickleBuilder& builder) {
  return Machine(descriptor, bytes, builder).run();
}

}  // namespace gpumemtrace::analyzer::snapshot
