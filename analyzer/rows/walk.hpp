// SPDX-License-Identifier: Apache-2.0
// Visits the fields of a row, alone or with those of the rows in it, in the order of the report.
#pragma once

#include <concepts>
#include <cstddef>

#include "analyzer/rows/finding.hpp"
#include "analyzer/rows/job_rows.hpp"

namespace gpumemtrace::analyzer::rows {

// Calls see(key, value) for every field, every value of an optional and every element of a list,
// before their content.
template <class See>
class Walker {
 public:
  explicit Walker(See& see) : see_(see) {}

  template <class T>
  void operator()(const char* key, T& value) {
    see_(key, value);
    if constexpr (requires { T::fields(value, *this); }) T::fields(value, *this);
    if constexpr (requires { value.has_value(); }) {
      if (value) (*this)(key, *value);
    }
  }
  template <class T>
  void operator()(const char* key, std::vector<T>& list) {
    see_(key, list);
    for (T& element : list) (*this)(key, element);
  }
  template <class T>
  void operator()(const char* key, const std::vector<T>& list) {
    see_(key, list);
    for (const T& element : list) (*this)(key, element);
  }
  void operator()(const char* key, FrameList& frames) { (*this)(key, frames.own); }
  void operator()(const char* key, const FrameList& frames) { (*this)(key, frames.own); }
  void operator()(const char* key, Thread& thread) { (*this)(key, thread.name); }
  void operator()(const char* key, const Thread& thread) { (*this)(key, thread.name); }
  void operator()(const char* key, const Evidence& evidence) {
    see_(key, evidence);
    for (const auto& [name, value] : evidence.values()) {
      if (const auto* location = std::get_if<CodeLocation>(&value))
        (*this)(name.c_str(), *location);
    }
  }
  void added(const char* key, auto& value) { (*this)(key, value); }
  void only_if_known(const char* key, auto& value) { (*this)(key, value); }
  void or_zero(const char* key, auto& value) { (*this)(key, value); }
  void or_null(const char* key, auto& value) { (*this)(key, value); }
  void part(const char* key, auto& value) { (*this)(key, value); }
  void exact(const bool&) {}

 private:
  See& see_;
};

// The process or the device that a row of a list is about; nullptr if it names none.
template <class Id>
[[nodiscard]] const Id* pointer_to(const Id& id) {
  return &id;
}
template <class Id>
[[nodiscard]] const Id* pointer_to(const std::optional<Id>& id) {
  return id ? &*id : nullptr;
}
template <class Row>
[[nodiscard]] const ProcessId* process_of(const Row& row) {
  if constexpr (requires { row.process; }) return pointer_to(row.process);
  return nullptr;
}
[[nodiscard]] inline const ProcessId* process_of(const Process& row) { return &row.id; }
template <class Row>
[[nodiscard]] const DeviceId* device_of(const Row& row) {
  if constexpr (requires { row.device; }) return pointer_to(row.device);
  return nullptr;
}
[[nodiscard]] inline const DeviceId* device_of(const Device& row) { return &row.id; }

// Calls see(key, value) for each entry of a table of fields, but not for the fields within it.
template <class See>
class SectionVisitor {
 public:
  explicit SectionVisitor(See& see) : see_(see) {}

  void operator()(const char* key, auto& value) { see_(key, value); }
  void added(const char* key, auto& value) { see_(key, value); }
  void only_if_known(const char* key, auto& optional) {
    if (optional) see_(key, *optional);
  }
  void exact(const bool&) {}

 private:
  See& see_;
};

// Calls see(key, value) for every section of the report, or every field of such a section. Sections
// that were not asked for are left out.
template <class Row, class See>
void for_each_section(Row& row, See&& see) {
  SectionVisitor<std::remove_reference_t<See>> visitor(see);
  std::remove_const_t<Row>::fields(row, visitor);
}

template <class Row, class See>
void walk(Row& row, See&& see) {
  Walker<std::remove_reference_t<See>> walker(see);
  Row::fields(row, walker);
}

}  // namespace gpumemtrace::analyzer::rows
