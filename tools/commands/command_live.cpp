// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "analyzer/follow.hpp"
#include "tools/base/failure.hpp"
#include "tools/base/output_file.hpp"
#include "tools/base/sizes.hpp"
#include "tools/base/terminal.hpp"
#include "tools/base/text.hpp"
#include "tools/commands/command.hpp"
#include "tools/commands/input_options.hpp"
#include "tools/live/live_screen.hpp"
#include "tools/live/live_state.hpp"
#include "tools/live/live_text.hpp"
#include "tools/live/openmetrics_text.hpp"
#include "tools/report_view/output_rules.hpp"
#include "tools/report_view/printable_report.hpp"
#include "tools/traces/ring_control.hpp"
#include "tools/traces/trace_files.hpp"
#include "trace/reader.hpp"
#include "trace/source_files.hpp"

namespace gpumemtrace::tools {
namespace {

using std::chrono::milliseconds;

constexpr const char* kLiveFooter =
    R"TEXT(WHAT is the id of a recorded process, a trace, or a folder of traces.

It only reads: the recorded process does not wait and does not notice. The first look
reads what was recorded so far, each further one what has come since then. Between two
looks lie fifty times the processor time of the former, at most ten seconds and at least
the interval: looks take some 2 % of a processor, more of a job that allocates hundreds of
thousands of times a second. It ends when the recording ends; q ends it before, space
pauses it, and the arrow keys choose the row whose holders and history are shown.

--openmetrics prints nothing. It replaces the file after each look and removes it at the
end. A process that has ended is left out. With --once all are in it, and it stays.

Examples:
  gpumemtrace live 4711
  gpumemtrace live traces/
  gpumemtrace live 4711 --once
  gpumemtrace live traces/ --json | tee live.jsonl
  gpumemtrace live traces/ --openmetrics textfile/job.prom

Exit codes: 0 the recording ended or the user left, 1 nothing is recorded there
or it cannot be read, 2 usage.)TEXT";

// In the pause between two reads of the state, the end of the recording is checked for this often.
constexpr milliseconds kEndCheckInterval{200};

// The first bytes of files that --openmetrics wrote: a file with them is replaced without --force.
constexpr std::string_view kMetricsMark = "# HELP gpumemtrace_";

struct LiveOptions {
  std::string what;
  NamingOptions naming;
  std::string interval = "1s";
  bool once = false;
  bool json = false;
  std::filesystem::path openmetrics;
  bool force = false;
  std::string rank;
  std::string device;
  std::string color = "auto";
};

std::vector<std::filesystem::path> traces_named_by(const std::string& what) {
  const std::optional<std::uint64_t> pid = parse_number(what);
  if (!pid || std::filesystem::exists(what)) return {what};
  if (*pid == 0 || *pid > static_cast<std::uint64_t>(std::numeric_limits<pid_t>::max())) {
    throw Failure(format_text("{} is no id of a process", what), ExitCode::kUsage);
  }
  return {trace_recorded_by(static_cast<pid_t>(*pid))};
}

std::chrono::microseconds processor_time() {
  struct rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  return std::chrono::seconds(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
         std::chrono::microseconds(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

bool is_recorded(const std::filesystem::path& trace) {
  const trace::OwnDescriptor ring(open(ring_of(trace).c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  return ring.is_open() && trace::has_recorder(ring);
}

// Reads the state of a recording again and again, with pauses that depend on the time of a read.
class RecordingReader {
 public:
  explicit RecordingReader(const LiveOptions& options)
      : options_(options),
        traces_(traces_named_by(options.what)),
        follower_(traces_,
                  {symbol_options(options.naming), options.naming.owners, options.naming.redact}) {}

  // Reads the job's present state. Throws InputError if there is no recording to look at.
  [[nodiscard]] LiveState read_state() {
    const auto before = processor_time();
    LiveState state = live_state_of(read_report(), {parse_number(options_.rank), options_.device});
    // The first call reads all earlier records, so only later calls tell how long the next one
    // will take.
    took_ = is_first_ ? std::chrono::microseconds(0) : processor_time() - before;
    is_first_ = false;
    return state;
  }
  [[nodiscard]] analyzer::JobNow read_report() {
    analyzer::JobNow now = follower_.look();
    now.report = printable(std::move(now.report));
    return now;
  }
  [[nodiscard]] milliseconds pause() const {
    const std::chrono::nanoseconds interval(parse_time(options_.interval).value_or(0));
    return std::chrono::duration_cast<milliseconds>(pause_after_look(took_, interval));
  }
  // Waits until the next read_state() is due or the recording has ended. wait(time) waits for at
  // most `time` and returns true if the user wants to leave; then this function returns true, too.
  template <class Wait>
  [[nodiscard]] bool wait_for_next(const Wait& wait) const {
    const auto due = std::chrono::steady_clock::now() + pause();
    while (true) {
      const auto left = std::chrono::ceil<milliseconds>(due - std::chrono::steady_clock::now());
      if (left <= milliseconds(0)) return false;
      if (wait(std::min(left, kEndCheckInterval))) return true;
      if (!is_recording()) return false;
    }
  }

 private:
  [[nodiscard]] bool is_recording() const {
    try {
      const std::vector<std::filesystem::path> traces = trace::find_traces(traces_);
      return std::ranges::any_of(traces, is_recorded);
    } catch (const trace::TraceError&) {
      return false;  // the next read_state() reports the error
    }
  }

  const LiveOptions& options_;
  std::vector<std::filesystem::path> traces_;
  analyzer::Follower follower_;
  bool is_first_ = true;
  std::chrono::microseconds took_{0};
};

void print(const LiveState& state, const LiveOptions& options) {
  if (options.json) {
    write_text(stdout, live_json(state));
  } else {
    StyledText text;
    for (const StyledText& line :
         live_lines(state, output_width(stdout), std::numeric_limits<std::size_t>::max())) {
      text += line + "\n";
    }
    TextStyle style = style_of(stdout, options.color);
    style.columns = 0;  // 0: the lines are already cut to width
    write_text(stdout, styled(text, style));
  }
  std::fflush(stdout);
}

bool can_draw() {
  const char* const terminal = std::getenv("TERM");
  return isatty(STDOUT_FILENO) != 0 && isatty(STDIN_FILENO) != 0 && terminal != nullptr &&
         std::string_view(terminal) != "dumb";
}

// Shows the job on the terminal until the user leaves or it ends; returns the last state.
LiveState show_on_screen(RecordingReader& reader) {
  LiveView view;
  // The first state is read before LiveScreen takes over the terminal, so that an error message
  // stays readable.
  view.show(reader.read_state());
  LiveScreen screen;
  const auto draw = [&] {
    screen.draw(view.lines(screen.width(), screen.height(), reader.pause()));
  };
  const auto wait = [&](milliseconds time) {
    do {
      const std::pair size(screen.width(), screen.height());
      const LiveKey key = screen.wait_for_key(time);
      if (key == LiveKey::kEnd) return true;
      const bool is_changed = view.press(key);
      if (is_changed || size != std::pair(screen.width(), screen.height())) draw();
    } while (view.is_paused());
    return false;
  };
  while (true) {
    draw();
    if (!view.state().is_running || reader.wait_for_next(wait)) return view.state();
    view.show(reader.read_state());
  }
}

// Blocks SIGTERM, SIGINT and SIGHUP, so that wait() can receive them.
class HeldSignals {
 public:
  HeldSignals() {
    sigemptyset(&signals_);
    for (const int signal : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&signals_, signal);
    pthread_sigmask(SIG_BLOCK, &signals_, nullptr);
  }
  // Waits at most `time`; true if one of the signals came.
  [[nodiscard]] bool wait(milliseconds time) const {
    constexpr milliseconds::rep kSecond = 1000;
    constexpr long kNsPerMs = 1'000'000;
    const timespec limit = {time.count() / kSecond, time.count() % kSecond * kNsPerMs};
    return sigtimedwait(&signals_, nullptr, &limit) > 0;
  }

 private:
  sigset_t signals_ = {};
};

// The file of --openmetrics. The destructor removes it, because a collector would read the old
// numbers for ever, and also removes a file that an earlier, killed `live` left.
class MetricsFile {
 public:
  explicit MetricsFile(std::filesystem::path path) : path_(std::move(path)) {}
  ~MetricsFile() {
    std::error_code ignored;
    if (is_stdout(path_) || !std::filesystem::is_regular_file(path_, ignored)) return;
    std::filesystem::remove(path_, ignored);
  }
  MetricsFile(const MetricsFile&) = delete;
  MetricsFile& operator=(const MetricsFile&) = delete;

  void write(LiveState state) const {
    std::erase_if(state.rows, [](const LiveRow& row) { return !row.is_running; });
    write_output(path_, openmetrics_text(state));
  }

 private:
  std::filesystem::path path_;
};

// Carries out --openmetrics: writes the file after each read of the state, until the recording ends
// or a signal comes.
int keep_metrics(const LiveOptions& options) {
  if (options.json) {
    throw Failure("--json and --openmetrics exclude each other", ExitCode::kUsage);
  }
  OutputRules rules(options.force);
  rules.reads(traces_named_by(options.what));
  rules.require_writable(options.openmetrics, kMetricsMark);
  const HeldSignals signals;
  RecordingReader reader(options);
  if (options.once) {
    write_output(options.openmetrics, openmetrics_text(reader.read_state()));
    return to_int(ExitCode::kSuccess);
  }
  const MetricsFile file(options.openmetrics);
  const auto wait = [&](milliseconds time) { return signals.wait(time); };
  while (true) {
    const LiveState state = reader.read_state();
    if (!state.is_running) break;
    file.write(state);
    if (reader.wait_for_next(wait) || signals.wait(milliseconds(0))) break;
  }
  return to_int(ExitCode::kSuccess);
}

int show(const LiveOptions& options) {
  RecordingReader reader(options);
  if (!options.once && !options.json && can_draw()) {
    print(show_on_screen(reader), options);  // the final state remains on the terminal
    return to_int(ExitCode::kSuccess);
  }
  while (true) {
    const LiveState state = reader.read_state();
    print(state, options);
    if (options.once || !state.is_running) return to_int(ExitCode::kSuccess);
    const auto wait = [](milliseconds time) {
      std::this_thread::sleep_for(time);
      return false;
    };
    if (reader.wait_for_next(wait)) return to_int(ExitCode::kSuccess);
  }
}

}  // namespace

Action define_live(CommandLine& line, const std::vector<std::string>&) {
  line.footer(kLiveFooter);
  auto options = std::make_shared<LiveOptions>();
  line.option("WHAT", options->what, "A recorded process, a trace, or a folder of traces.")
      .required()
      .value_name("");
  line.flag("--once", options->once, "Show the present state as text and end.");
  line.flag("--json", options->json,
            "One JSON object a line: the state of each process on each device.");
  line.option("--openmetrics", options->openmetrics,
              "Write gauges for Prometheus to FILE, whose name ends in .prom for node_exporter.")
      .value_name("FILE");
  add_force_option(line, options->force);
  line.option("--interval", options->interval, "From one look to the next, at least (default 1s).")
      .value_name("TIME")
      .check(time_error);
  add_scope_options(line, options->rank, options->device);
  add_color_option(line, options->color);
  line.flag("--redact", options->naming.redact,
            "Replace private names (paths, commands, hosts, functions of the program) by "
            "names without meaning (docs/security.md).");
  add_naming_options(line, options->naming);
  return
      [options] { return options->openmetrics.empty() ? show(*options) : keep_metrics(*options); };
}

}  // namespace gpumemtrace::tools
