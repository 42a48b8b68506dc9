// SPDX-License-Identifier: Apache-2.0
#include "trace/unpack.hpp"

#include <cstring>
#include <optional>
#include <string_view>
#include <vector>

#include "tests/catch.hpp"
#include "tests/support/raw_trace.hpp"
#include "trace/order.hpp"
#include "trace/pack.hpp"
#include "trace/reader.hpp"
#include "trace/varint.hpp"

namespace gpumemtrace::unpack_test {

using namespace gpumemtrace::trace;
using gpumemtrace::tests::append_object;
using gpumemtrace::tests::own_schema_bytes;
using gpumemtrace::tests::pack_image;
using gpumemtrace::tests::RecordImage;

namespace {

constexpr std::uint8_t kUnknownKind = 200;
constexpr auto kThreadKind = static_cast<std::uint8_t>(RecordKind::kThread);
constexpr auto kContextKind = static_cast<std::uint8_t>(RecordKind::kContext);

// Builds a schema payload field by field.
class SchemaBytes {
 public:
  SchemaBytes& kind(std::uint8_t number, std::uint8_t struct_bytes, bool has_tail = false) {
    ++bytes_[0];
    append({number, has_tail ? std::uint8_t{1} : std::uint8_t{0}, struct_bytes, 0});
    text("kind");
    fields_at_ = bytes_.size();
    append({0});
    return *this;
  }
  SchemaBytes& field(std::string_view name, std::uint8_t offset, std::uint8_t width,
                     Encoding encoding) {
    ++bytes_[fields_at_];
    append({offset, 0, width, static_cast<std::uint8_t>(encoding)});
    text(name);
    return *this;
  }
  std::optional<FileSchema> parse() const { return FileSchema::parse(std::as_bytes(span())); }
  std::vector<std::byte> payload() const {
    const auto bytes = std::as_bytes(span());
    return {bytes.begin(), bytes.end()};
  }

 private:
  std::span<const std::uint8_t> span() const { return bytes_; }
  void append(std::initializer_list<std::uint8_t> more) {
    bytes_.insert(bytes_.end(), more.begin(), more.end());
  }
  void text(std::string_view value) {
    append({static_cast<std::uint8_t>(value.size())});
    bytes_.insert(bytes_.end(), value.begin(), value.end());
  }

  std::vector<std::uint8_t> bytes_ = {0};
  std::size_t fields_at_ = 0;
};

// Builds a payload column by column.
class Columns {
 public:
  explicit Columns(std::initializer_list<std::uint8_t> kinds) {
    std::vector<std::byte> column;
    for (const std::uint8_t kind : kinds) column.push_back(static_cast<std::byte>(kind));
    add(0, kKindsColumn, column);
  }
  Columns& values(std::uint8_t kind, std::uint8_t field,
                  std::initializer_list<std::uint64_t> values) {
    std::vector<std::byte> column;
    for (const std::uint64_t value : values) {
      std::byte room[kMaxVarintBytes];
      column.insert(column.end(), room, put_varint(room, value));
    }
    return add(kind, field, column);
  }
  Columns& add(std::uint8_t kind, std::uint8_t field, std::span<const std::byte> column,
               ColumnForm form = ColumnForm::kEach) {
    append_object(bytes_,
                  ColumnHeader{kind, field, form, 0, static_cast<std::uint32_t>(column.size())});
    bytes_.insert(bytes_.end(), column.begin(), column.end());
    return *this;
  }
  const std::vector<std::byte>& bytes() const { return bytes_; }

 private:
  std::vector<std::byte> bytes_;
};

struct Unpacked {
  bool whole = false;
  Image image;
  std::uint64_t unknown_records = 0;

  template <class Record>
  const Record& at(std::size_t offset = 0) const {
    REQUIRE(offset + sizeof(Record) <= image.bytes);
    return as<Record>(*reinterpret_cast<const RecordHeader*>(image.data() + offset));
  }
};

Unpacked unpack_columns(const std::optional<FileSchema>& schema, const Columns& columns) {
  REQUIRE(schema.has_value());
  Unpacked result;
  UnpackScratch scratch;
  result.whole = unpack(*schema, columns.bytes(), result.image, scratch, result.unknown_records);
  return result;
}

Unpacked convert_records(const std::optional<FileSchema>& schema,
                         std::span<const std::byte> records) {
  REQUIRE(schema.has_value());
  Unpacked result;
  result.whole = convert(*schema, records, result.image, result.unknown_records);
  return result;
}

// The schema of another version: its Thread records have no flags and a narrower id, and it has a
// kind that this version does not know.
SchemaBytes other_version() {
  return SchemaBytes()
      .kind(kThreadKind, 32)
      .field("time", 8, 8, Encoding::kTime)
      .field("thread_id", 16, 4, Encoding::kPlain)
      .field("priority", 20, 4, Encoding::kPlain)
      .kind(kUnknownKind, 24)
      .field("time", 8, 8, Encoding::kTime)
      .field("weight", 16, 8, Encoding::kPlain)
      .kind(kContextKind, 24)
      .field("time", 8, 8, Encoding::kTime)
      .field("device", 16, 2, Encoding::kSigned);
}

std::optional<FileSchema> own_schema() { return FileSchema::parse(own_schema_bytes()); }

}  // namespace

TEST_CASE("blocks of another version are read by the names of their fields", "[unit]") {
  const Columns columns = Columns({kThreadKind, kUnknownKind, kThreadKind, kContextKind})
                              .values(kThreadKind, 0, {zigzag(100), zigzag(20)})
                              .values(kThreadKind, 1, {77, 78})
                              .values(kThreadKind, 2, {5, 6})
                              .values(kUnknownKind, 0, {zigzag(50)})
                              .values(kUnknownKind, 1, {1})
                              .values(kContextKind, 0, {zigzag(-10)})
                              .values(kContextKind, 1, {zigzag(-1)});
  const Unpacked unpacked = unpack_columns(other_version().parse(), columns);
  REQUIRE(unpacked.whole);
  CHECK(unpacked.unknown_records == 1);
  CHECK(unpacked.at<Thread>().record.time == 100);
  CHECK(unpacked.at<Thread>().thread_id == 77);
  CHECK(unpacked.at<Thread>().record.flags == 0);
  CHECK(unpacked.at<Thread>(sizeof(Thread)).record.time == 170);
  CHECK(unpacked.at<Thread>(sizeof(Thread)).thread_id == 78);
  const auto& context = unpacked.at<Context>(2 * sizeof(Thread));
  CHECK(context.record.time == 160);
  CHECK(context.device == -1);
  CHECK(context.handle == 0);
  // The image has the records' offsets and their sort keys. A key is made of the latest time so
  // far, so the third record, which is earlier than the second, has the second's key.
  CHECK(unpacked.image.offsets ==
        std::vector<std::uint32_t>{0, sizeof(Thread), 2 * sizeof(Thread)});
  const std::uint64_t last = last_key_of_ticks(170);
  CHECK(unpacked.image.keys == std::vector<std::uint64_t>{last_key_of_ticks(100), last, last});
}

TEST_CASE("ring chunks of another version are read by the names of their fields", "[unit]") {
  const auto word = [](std::uint8_t kind, std::uint8_t words) {
    return kind | static_cast<std::uint64_t>(words) << 8;
  };
  const std::vector<std::uint64_t> records = {word(kThreadKind, 4),
                                              100,
                                              77 | std::uint64_t{5} << 32,
                                              0,
                                              word(kUnknownKind, 3),
                                              150,
                                              1,
                                              word(kContextKind, 3),
                                              160,
                                              0xffff};
  const Unpacked converted =
      convert_records(other_version().parse(), std::as_bytes(std::span(records)));
  REQUIRE(converted.whole);
  CHECK(converted.unknown_records == 1);
  CHECK(converted.at<Thread>().record.words == sizeof(Thread) / kWordBytes);
  CHECK(converted.at<Thread>().thread_id == 77);
  CHECK(converted.at<Context>(sizeof(Thread)).record.time == 160);
  CHECK(converted.at<Context>(sizeof(Thread)).device == -1);
  CHECK(converted.image.offsets == std::vector<std::uint32_t>{0, sizeof(Thread)});
  CHECK(converted.image.keys ==
        std::vector<std::uint64_t>{last_key_of_ticks(100), last_key_of_ticks(160)});
}

TEST_CASE("tails survive a struct of another size", "[unit]") {
  const auto schema = SchemaBytes()
                          .kind(kThreadKind, 32, true)
                          .field("time", 8, 8, Encoding::kTime)
                          .field("thread_id", 16, 8, Encoding::kPlain)
                          .parse();
  std::vector<std::uint64_t> record = {kThreadKind | 5u << 8, 100, 77, 0, 0};
  std::memcpy(&record[4], "worker", 6);
  const Unpacked converted = convert_records(schema, std::as_bytes(std::span(record)));
  REQUIRE(converted.whole);
  CHECK(tail_of(converted.at<Thread>().record) == "worker");

  const Unpacked unpacked = unpack_columns(
      schema, Columns({kThreadKind})
                  .values(kThreadKind, 0, {zigzag(100)})
                  .values(kThreadKind, 1, {77})
                  .values(kThreadKind, kTailWordsColumn, {1})
                  .add(kThreadKind, kTailBytesColumn, std::as_bytes(std::span(record)).last(8)));
  REQUIRE(unpacked.whole);
  CHECK(tail_of(unpacked.at<Thread>().record) == "worker");
}

TEST_CASE("both contexts of a context call are kept", "[unit]") {
  RecordImage image;
  ContextCall call;
  call.call.context = ContextId{3};
  call.handle_context = ContextId{5};
  image.add(call);
  const Unpacked converted = convert_records(own_schema(), image.bytes());
  CHECK(converted.at<ContextCall>().call.context == ContextId{3});
  CHECK(converted.at<ContextCall>().handle_context == ContextId{5});
  Image back;
  UnpackScratch scratch;
  std::uint64_t unknown = 0;
  REQUIRE(unpack(*own_schema(), pack_image(image.bytes()), back, scratch, unknown));
  REQUIRE(back.bytes == sizeof call);
  CHECK(std::memcmp(back.data(), image.bytes().data(), sizeof call) == 0);

  SchemaBytes version_1;
  version_1.kind(static_cast<std::uint8_t>(RecordKind::kContextCall), sizeof call);
  for (const Field& field : find_kind(RecordKind::kContextCall)->fields) {
    const std::string_view name = field.name == "handle_context" ? "context" : field.name;
    version_1.field(name, static_cast<std::uint8_t>(field.offset), field.bytes, field.encoding);
  }
  const Unpacked old = convert_records(version_1.parse(), image.bytes());
  CHECK(old.at<ContextCall>().call.context == ContextId{3});
  CHECK(old.at<ContextCall>().handle_context == ContextId{5});
}

TEST_CASE("a schema that cannot be true is refused", "[unit]") {
  CHECK(other_version().parse());
  CHECK_FALSE(FileSchema::parse({}));
  CHECK_FALSE(SchemaBytes().kind(kThreadKind, 24).kind(kThreadKind, 24).parse());
  CHECK_FALSE(SchemaBytes().kind(kThreadKind, 8).parse());
  CHECK_FALSE(SchemaBytes().kind(kThreadKind, 25).parse());
  const auto with_field = [](std::string_view name, std::uint8_t offset, std::uint8_t width,
                             Encoding encoding) {
    return SchemaBytes().kind(kThreadKind, 24).field(name, offset, width, encoding).parse();
  };
  CHECK(with_field("thread_id", 16, 8, Encoding::kPlain));
  CHECK_FALSE(with_field("thread_id", 20, 8, Encoding::kPlain));
  CHECK_FALSE(with_field("thread_id", 16, 3, Encoding::kPlain));
  CHECK_FALSE(with_field("thread_id", 16, 8, static_cast<Encoding>(5)));
  CHECK_FALSE(with_field("thread_id", 16, 8, Encoding::kTime));
  CHECK_FALSE(with_field("thread_id", 16, 8, Encoding::kAfterStart));
  CHECK_FALSE(with_field("time", 8, 8, Encoding::kPlain));
  const std::vector<std::byte> whole = other_version().payload();
  for (std::size_t length = 0; length < whole.size(); ++length) {
    CHECK_FALSE(FileSchema::parse(std::span(whole).first(length)));
  }
}

TEST_CASE("columns that would make more than a block holds are refused", "[unit]") {
  const auto thread_with_tail_words = [](std::uint64_t words) {
    Columns columns({kThreadKind});
    const std::size_t fields = find_kind(RecordKind::kThread)->fields.size();
    for (std::uint8_t field = 0; field < fields; ++field) columns.values(kThreadKind, field, {0});
    return columns.values(kThreadKind, kTailWordsColumn, {words});
  };
  CHECK(unpack_columns(own_schema(), thread_with_tail_words(0)).whole);
  CHECK_FALSE(unpack_columns(own_schema(), thread_with_tail_words(1)).whole);
  CHECK_FALSE(unpack_columns(own_schema(), thread_with_tail_words(253)).whole);
  // A length that wraps around to a small one once the struct's own length is added to it.
  CHECK_FALSE(unpack_columns(own_schema(), thread_with_tail_words(~std::uint64_t{0})).whole);
  CHECK_FALSE(unpack_columns(own_schema(), thread_with_tail_words(~std::uint64_t{0} - 2)).whole);
  CHECK_FALSE(
      unpack_columns(own_schema(), thread_with_tail_words(0).values(kThreadKind, 0, {0})).whole);
  CHECK_FALSE(unpack_columns(own_schema(), Columns({})).whole);
  CHECK_FALSE(unpack_columns(own_schema(), Columns({kUnknownKind})).whole);
}

TEST_CASE("one varint stands for a field that is the same in all records", "[unit]") {
  constexpr std::uint8_t kMarkKind = static_cast<std::uint8_t>(RecordKind::kMark);
  const std::optional<FileSchema> schema = SchemaBytes()
                                               .kind(kMarkKind, 24)
                                               .field("time", 8, 8, Encoding::kTime)
                                               .field("mark", 16, 4, Encoding::kPlain)
                                               .field("reserved", 20, 4, Encoding::kDelta)
                                               .parse();
  const auto same = [](std::uint64_t value) {
    std::vector<std::byte> column(kMaxVarintBytes);
    column.resize(static_cast<std::size_t>(put_varint(column.data(), value) - column.data()));
    return column;
  };
  const Columns columns = Columns({kMarkKind, kMarkKind, kMarkKind})
                              .add(kMarkKind, 0, same(zigzag(10)), ColumnForm::kSame)
                              .add(kMarkKind, 1, same(300), ColumnForm::kSame)
                              .add(kMarkKind, 2, same(zigzag(7)), ColumnForm::kSame);
  const Unpacked unpacked = unpack_columns(schema, columns);
  REQUIRE(unpacked.whole);
  REQUIRE(unpacked.image.bytes == 3 * sizeof(Mark));
  for (std::size_t i = 0; i < 3; ++i) {
    const Mark& mark = unpacked.at<Mark>(i * sizeof(Mark));
    CHECK(mark.record.words == sizeof(Mark) / kWordBytes);
    CHECK(mark.record.time == 10 * (i + 1));
    CHECK(static_cast<std::uint32_t>(mark.mark) == 300);
    CHECK(mark.reserved == 7);
  }
}

TEST_CASE("columns of a form that nobody knows, or that cannot have it, are refused", "[unit]") {
  constexpr std::uint8_t kMarkKind = static_cast<std::uint8_t>(RecordKind::kMark);
  const std::vector<std::byte> one = {std::byte{1}};
  const auto marks = [&](ColumnForm form) {
    Columns columns({kMarkKind, kMarkKind});
    const std::size_t fields = find_kind(RecordKind::kMark)->fields.size();
    for (std::uint8_t field = 0; field < fields; ++field) {
      columns.add(kMarkKind, field, one, form);
    }
    columns.values(kMarkKind, kTailWordsColumn, {0, 0});
    return columns;
  };
  CHECK(unpack_columns(own_schema(), marks(ColumnForm::kSame)).whole);
  CHECK_FALSE(unpack_columns(own_schema(), marks(ColumnForm::kEach)).whole);
  CHECK_FALSE(unpack_columns(own_schema(), marks(static_cast<ColumnForm>(2))).whole);
  CHECK_FALSE(
      unpack_columns(own_schema(),
                     Columns({kMarkKind}).add(kMarkKind, kTailWordsColumn, one, ColumnForm::kSame))
          .whole);
}

TEST_CASE("the image of a block is bounded before it is made", "[unit]") {
  const std::size_t count = kMaxChunkBytes / sizeof(RecordHeader);
  const std::vector<std::byte> kinds(count, static_cast<std::byte>(kThreadKind));
  std::vector<std::byte> payload;
  const auto add = [&](std::uint8_t kind, std::uint8_t field, std::span<const std::byte> column) {
    append_object(payload, ColumnHeader{kind, field, ColumnForm::kEach, 0,
                                        static_cast<std::uint32_t>(column.size())});
    payload.insert(payload.end(), column.begin(), column.end());
  };
  add(0, kKindsColumn, kinds);
  add(kThreadKind, kTailWordsColumn, std::vector<std::byte>(count, std::byte{100}));
  Image image;
  UnpackScratch scratch;
  std::uint64_t unknown = 0;
  CHECK_FALSE(unpack(*own_schema(), payload, image, scratch, unknown));
  CHECK(image.words.capacity() * kWordBytes <= kMaxImageBytes);
}

}  // namespace gpumemtrace::unpack_test
