// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "tests/catch.hpp"
#include "tools/live/live_screen.hpp"
#include "tools/live/live_text.hpp"
#include "tools/live/openmetrics_text.hpp"

namespace gpumemtrace::tools::live_view_test {
namespace {

constexpr std::uint64_t kMebibyte = 1 << 20;
constexpr std::uint64_t kSecond = 1'000'000'000;

LiveRow row_of(std::uint64_t pid, std::uint64_t mebibytes) {
  LiveRow row;
  row.process = "p" + std::to_string(pid);
  row.pid = pid;
  row.device = "d0";
  row.has_framework = true;
  row.live_bytes = mebibytes * kMebibyte;
  row.categories = {{"parameter", row.live_bytes}};
  row.lines = {{"model_" + std::to_string(pid) + ".py:7", row.live_bytes / 4}};
  return row;
}

LiveState two_rows() {
  LiveState state;
  state.is_running = true;
  state.rows = {row_of(11, 8), row_of(22, 4)};
  return state;
}

std::string text_of(const Lines& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + '\n';
  return text;
}

std::string text_of(const LiveView& view) {
  return text_of(view.lines(80, 24, std::chrono::seconds(1)));
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("arrow keys choose the row whose holders are shown", "[unit]") {
  LiveView view;
  view.show(two_rows());
  CHECK(has(text_of(view), "Lines (process 11, d0)"));
  CHECK_FALSE(view.press(LiveKey::kUp));
  CHECK(view.press(LiveKey::kDown));
  CHECK_FALSE(view.press(LiveKey::kDown));
  CHECK(has(text_of(view), "Lines (process 22, d0)"));
  CHECK(has(text_of(view), "model_22.py:7"));
  CHECK_FALSE(has(text_of(view), "model_11.py:7"));

  // The chosen row stays chosen if it becomes the fullest; once it is gone, the first row is shown.
  LiveState later = two_rows();
  std::ranges::reverse(later.rows);
  view.show(later);
  CHECK(has(text_of(view), "Lines (process 22, d0)"));
  later.rows.erase(later.rows.begin());
  view.show(later);
  CHECK(has(text_of(view), "Lines (process 11, d0)"));
}

TEST_CASE("a process without a number is named by its id", "[unit]") {
  LiveState state = two_rows();
  state.rows.front().pid.reset();
  LiveView view;
  view.show(state);
  CHECK(has(text_of(view), "(process p11, d0)"));
}

TEST_CASE("space pauses the view and says so", "[unit]") {
  LiveView view;
  view.show(two_rows());
  CHECK(
      has(text_of(view), "q ends this view, arrows choose a row, space pauses; next look in 1.0"));
  CHECK(view.press(LiveKey::kPause));
  CHECK(view.is_paused());
  CHECK(has(text_of(view), "Paused: space goes on"));
  CHECK(view.press(LiveKey::kPause));
  CHECK_FALSE(view.is_paused());
  CHECK_FALSE(view.press(LiveKey::kNone));
}

TEST_CASE("a bar is as long as the share of what is in use", "[unit]") {
  const std::string text = text_of(live_lines(two_rows(), 80, 100));
  CHECK(has(text, "    8.0 MiB 100 %  ############  parameter\n"));
  CHECK(has(text, "    2.0 MiB  25 %  ###           model_11.py:7\n"));
  CHECK(has(text, "    6.0 MiB  75 %  #########     all others\n"));
  CHECK(has(text_of(live_lines(two_rows(), 50, 100)), "    2.0 MiB  25 %  model_11.py:7\n"));
}

TEST_CASE("the history is drawn in what the other lines leave free", "[unit]") {
  LiveState state = two_rows();
  state.rows.pop_back();
  state.rows[0].history = {{0, kSecond, 0},
                           {kSecond, 2 * kSecond, kMebibyte},
                           {2 * kSecond, 4 * kSecond, 8 * kMebibyte}};
  // The chart has 32 columns of an eighth of a second.
  const std::string text = text_of(live_lines(state, 45, 100));
  const std::string quarter(8, '#');
  const std::string none(8, ' ');
  const std::string high = "|" + none + none + quarter + quarter + "\n";
  CHECK(has(text, "In use from 0 ns to 4.00 s (process 11, d0)\n    8.0 MiB " + high));
  CHECK(has(text, "            |" + none + quarter + quarter + quarter + "\nCategories"));
  CHECK(std::ranges::count(text, '|') == 6);

  const std::size_t others = live_lines(two_rows(), 45, 100).size() - 1;
  CHECK(live_lines(state, 45, others + 4).size() == others + 4);
  CHECK_FALSE(has(text_of(live_lines(state, 45, others + 3)), "In use from"));
  state.rows[0].history.clear();
  CHECK_FALSE(has(text_of(live_lines(state, 45, 100)), "In use from"));
}

TEST_CASE("of many rows those around the chosen one are shown", "[unit]") {
  LiveState state;
  for (std::uint64_t pid = 1; pid <= 12; ++pid) state.rows.push_back(row_of(100 + pid, 24 - pid));
  CHECK(has(text_of(live_lines(state, 80, 100)), "rows 1 to 8 of 12"));
  const std::string text = text_of(live_lines(state, 80, 100, 9));
  CHECK(has(text, "rows 3 to 10 of 12, the fullest first"));
  CHECK(has(text, ">    -      110     d0"));
}

TEST_CASE("gauges have a series for what is known, with escaped labels", "[unit]") {
  LiveState state = two_rows();
  state.rows.pop_back();
  LiveRow& row = state.rows.front();
  row.trace = "t.gmt";
  row.host = "a\"b\\c";
  row.capacity_bytes = 24 * kMebibyte;
  const std::string labels = R"({trace="t.gmt",host="a\"b\\c",pid="11"})";
  const std::string text = openmetrics_text(state);
  CHECK(has(text, "\ngpumemtrace_in_use_bytes" + labels + " 8388608\n"));
  CHECK_FALSE(has(text, "\ngpumemtrace_headroom_bytes{"));
  CHECK_FALSE(has(text, "\ngpumemtrace_full_in_seconds{"));

  row.card_peak_bytes = 10 * kMebibyte;
  row.full_in_ns = 90 * kSecond;
  row.losses = {{"dropped_blocks", 12}};
  CHECK(has(openmetrics_text(state), "\ngpumemtrace_headroom_bytes" + labels + " 14680064\n"));
  CHECK(has(openmetrics_text(state), "\ngpumemtrace_full_in_seconds" + labels + " 90\n"));
  CHECK(has(openmetrics_text(state), R"(pid="11",loss="dropped_blocks"} 12)"));
}

}  // namespace gpumemtrace::tools::live_view_test
