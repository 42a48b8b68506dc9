// SPDX-License-Identifier: Apache-2.0
// Reads and writes as JSON those parts of the report's rows that have no table of fields.
#pragma once

#include <concepts>
#include <string>
#include <utility>
#include <variant>

#include "analyzer/base/row_reader.hpp"
#include "analyzer/base/row_text.hpp"
#include "analyzer/rows/finding.hpp"
#include "analyzer/rows/job_rows.hpp"

namespace gpumemtrace::analyzer {

inline void write_value(RowWriter& out, const rows::Thread& thread) {
  if (thread.name.empty()) return out.write(rows::number_or_none(thread.id));
  out.write(thread.name);
}

inline void write_value(RowWriter& out, const rows::Evidence& evidence) {
  out.write(evidence.values());
}

inline void write_value(RowWriter& out, const rows::FrameList& frames) {
  frames.own.empty() ? out.write(frames.indexes) : out.write(frames.own);
}

template <>
struct Filler<rows::FrameList> {
  static void set(rows::FrameList&, const std::string& key, JsonScalar&&) {
    refuse_value(key, "is no list");
  }
  static OpenValue open(rows::FrameList& frames, const std::string& key, bool is_list) {
    if (!is_list) refuse_value(key, "is no list");
    frames = {};
    const auto next = [](OpenValue& open, const std::string&) {
      return ValueSlot{open.place, &set_index, &open_frame};
    };
    return {&frames, key, next, [](OpenValue&) {}};
  }

 private:
  static void set_index(void* place, const std::string& key, JsonScalar&& read) {
    auto& frames = *static_cast<rows::FrameList*>(place);
    Filler<std::uint64_t>::set(frames.indexes.emplace_back(), key, std::move(read));
  }
  static OpenValue open_frame(void* place, const std::string& key, bool is_list) {
    auto& frames = *static_cast<rows::FrameList*>(place);
    return Filler<rows::Frame>::open(frames.own.emplace_back(), key, is_list);
  }
};

template <>
struct Filler<rows::Thread> : ScalarFiller<rows::Thread> {
  static constexpr const char* kRefusal = "is no number of that size";
  static void set(rows::Thread& thread, const std::string& key, JsonScalar&& read) {
    thread = {};
    if (std::holds_alternative<std::string>(read)) {
      thread.name = std::move(std::get<std::string>(read));
    } else if (!std::holds_alternative<std::monostate>(read)) {
      Filler<std::uint64_t>::set(thread.id, key, std::move(read));
    }
  }
};

template <>
struct Filler<rows::Evidence::Value> {
  using Value = rows::Evidence::Value;

  static void set(Value& value, const std::string&, JsonScalar&& read) {
    std::visit(
        [&value]<class T>(T& scalar) {
          if constexpr (std::same_as<T, std::int64_t>) {
            value = static_cast<double>(scalar);
          } else {
            value = std::move(scalar);
          }
        },
        read);
  }
  // The first key tells the type of the object: a code location, or the breakdown of an
  // out-of-memory.
  static OpenValue open(Value& value, const std::string& key, bool is_list) {
    if (is_list) refuse_value(key, "is no object");
    const auto next = [](OpenValue& open, const std::string& name) {
      auto& row = *static_cast<Value*>(open.place);
      open =
          name == "site" || name == "stack"
              ? Filler<rows::CodeLocation>::open(row.emplace<rows::CodeLocation>(), open.key, false)
              : Filler<rows::OomBreakdown>::open(row.emplace<rows::OomBreakdown>(), open.key,
                                                 false);
      return open.next(open, name);
    };
    return {&value, key, next, [](OpenValue& open) { refuse_value(open.key, "is empty"); }};
  }
};

template <>
struct Filler<rows::Evidence> {
  using Values = std::vector<std::pair<std::string, rows::Evidence::Value>>;
  struct Content {
    rows::Evidence* evidence = nullptr;
    Values values;
  };

  static void set(rows::Evidence&, const std::string& key, JsonScalar&&) {
    refuse_value(key, "is no object");
  }
  static OpenValue open(rows::Evidence& evidence, const std::string& key, bool is_list) {
    auto content = std::make_shared<Content>();
    content->evidence = &evidence;
    OpenValue open = Filler<Values>::open(content->values, key, is_list);
    open.close = [](OpenValue& closed) {
      auto& read = *static_cast<Content*>(closed.content.get());
      Filler<Values>::keep_last(read.values);
      *read.evidence = {};
      for (auto& [name, value] : read.values) read.evidence->add(name, std::move(value));
    };
    open.content = std::move(content);
    return open;
  }
};

}  // namespace gpumemtrace::analyzer
