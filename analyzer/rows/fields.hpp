// SPDX-License-Identifier: Apache-2.0
// The keys of the report's rows.
//
// Every row is a struct in this folder: plain data, filled by report/, judged by rules/, made into
// JSON and back by json/. Its keys stand once, in the table `fields` at its end, in the order of
// the JSON. docs/report.schema.json and tools/page/src/report.ts are made from these tables
// (tests/schema/report_types.cpp); the comment of a row or a member is its description there. The
// verbs of such a table:
//   v("key", value)          always there; null if an optional has no value or a word is empty
//   v.added("key", value)    the same, but older reports of this version lack the key
//   v.only_if_known(...)     there only if the optional has a value
//   v.or_zero(...)           0 if the optional has no value
//   v.or_null(...)           null if the text is empty
//   v.part("key", optional)  the fields of the optional part, which begin with the key, or nothing
//   v.exact(is_exact)        "exact": false, or nothing
#pragma once

// A table in which every key is a member's name and always there: GPUMEMTRACE_FIELDS(a, b).
#define GPUMEMTRACE_FIELDS(...) \
  static void fields(auto& self, auto& v) { GPUMEMTRACE_KEYS(v, __VA_ARGS__) }

// Adds up to 64 keys that are names of members to a table: GPUMEMTRACE_KEYS(v.added, a, b) is
// v.added("a", self.a); v.added("b", self.b).
#define GPUMEMTRACE_KEYS(verb, ...) GPUMEMTRACE_SCAN(GPUMEMTRACE_NEXT_KEY(verb, __VA_ARGS__))

// The preprocessor does not expand a macro within itself: each further scan makes one more key.
#define GPUMEMTRACE_NEXT_KEY(verb, member, ...) \
  verb(#member, self.member);                   \
  __VA_OPT__(GPUMEMTRACE_MORE_KEYS GPUMEMTRACE_CALL(verb, __VA_ARGS__))
#define GPUMEMTRACE_MORE_KEYS() GPUMEMTRACE_NEXT_KEY
#define GPUMEMTRACE_CALL ()
#define GPUMEMTRACE_SCAN(...) \
  GPUMEMTRACE_SCAN_16(GPUMEMTRACE_SCAN_16(GPUMEMTRACE_SCAN_16(GPUMEMTRACE_SCAN_16(__VA_ARGS__))))
#define GPUMEMTRACE_SCAN_16(...) \
  GPUMEMTRACE_SCAN_4(GPUMEMTRACE_SCAN_4(GPUMEMTRACE_SCAN_4(GPUMEMTRACE_SCAN_4(__VA_ARGS__))))
#define GPUMEMTRACE_SCAN_4(...) \
  GPUMEMTRACE_SCAN_1(GPUMEMTRACE_SCAN_1(GPUMEMTRACE_SCAN_1(GPUMEMTRACE_SCAN_1(__VA_ARGS__))))
#define GPUMEMTRACE_SCAN_1(...) __VA_ARGS__
