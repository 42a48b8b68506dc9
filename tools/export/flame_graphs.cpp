// SPDX-License-Identifier: Apache-2.0
#include <functional>

#include "analyzer/base/printable.hpp"
#include "analyzer/base/row_text.hpp"
#include "tools/base/lines.hpp"
#include "tools/base/sizes.hpp"
#include "tools/base/text.hpp"
#include "tools/export/exports.hpp"
#include "tools/report_view/job_text.hpp"
#include "tools/report_view/report_input.hpp"
#include "tools/report_view/report_row.hpp"

namespace gpumemtrace::tools {
namespace {

using analyzer::rows::Report;

// A semicolon separates frames and a line break stacks, so neither may stand in a name.
std::string escaped_frame_name(std::string name) {
  for (char& letter : name) {
    if (letter == ';') letter = ',';
    if (static_cast<unsigned char>(letter) < 0x20) letter = ' ';
  }
  return name;
}

struct SpeedscopeFrame {
  std::string name;
  std::optional<std::string> file;
  std::optional<std::uint64_t> line;

  static void fields(auto& self, auto& v) {
    v("name", self.name);
    GPUMEMTRACE_KEYS(v.only_if_known, file, line);
  }
};

struct SpeedscopeProfile {
  std::string name;
  std::uint64_t bytes = 0;
  std::vector<std::vector<std::uint64_t>> samples;  // indices of frames
  std::vector<std::uint64_t> weights;

  static void fields(auto& self, auto& v) {
    v("type", std::string("sampled"));
    v("name", self.name);
    v("unit", std::string("bytes"));
    v("startValue", std::uint64_t{0});
    v("endValue", self.bytes);
    GPUMEMTRACE_KEYS(v, samples, weights);
  }
};

struct SpeedscopeFrames {
  std::vector<SpeedscopeFrame> frames;

  GPUMEMTRACE_FIELDS(frames)
};

// The root of a speedscope file's JSON.
struct SpeedscopeFile {
  SpeedscopeFrames shared;
  std::vector<SpeedscopeProfile> profiles;
  std::string name;

  static void fields(auto& self, auto& v) {
    v("$schema", std::string("https://www.speedscope.app/file-format-schema.json"));
    GPUMEMTRACE_KEYS(v, shared, profiles, name);
    v("activeProfileIndex", std::uint64_t{0});
    v("exporter", std::string("gpumemtrace " GPUMEMTRACE_VERSION));
  }
};

// `frames` are the frames of the whole file, which the profiles of all processes share, and
// `numbers` their indices.
SpeedscopeProfile profile_of(const BytesByStack& stacks, std::map<NamedFrame, std::size_t>& numbers,
                             std::vector<SpeedscopeFrame>& frames) {
  SpeedscopeProfile profile;
  for (const auto& [stack, bytes] : stacks) {
    std::vector<std::uint64_t>& sample = profile.samples.emplace_back();
    for (const NamedFrame& frame : stack) {
      const auto [number, added] = numbers.try_emplace(frame, numbers.size());
      if (added) {
        frames.push_back({frame.name, analyzer::rows::text_or_none(frame.file),
                          analyzer::rows::number_or_none(frame.line)});
      }
      sample.push_back(number->second);
    }
    profile.weights.push_back(bytes);
    profile.bytes += bytes;
  }
  return profile;
}

std::string svg_text(const std::string& text) {
  return replaced(analyzer::printable(text), {{'<', "&lt;"}, {'>', "&gt;"}, {'&', "&amp;"}});
}

// A box of the flame graph: the frames of all stacks that have the same callers.
struct Box {
  std::uint64_t bytes = 0;
  std::map<NamedFrame, Box> inside;
};

class Picture {
 public:
  Picture(const Box& root, std::string title) : title_(std::move(title)), total_(root.bytes) {
    if (total_ != 0) draw(NamedFrame{"all", {}, 0}, root, 0, 0);
  }

  [[nodiscard]] std::string text() const {
    const std::size_t height = kTop + (rows_ + 1) * kRow;
    return format_text(
               "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{}\" height=\"{}\" "
               "viewBox=\"0 0 {} {}\" font-family=\"sans-serif\" font-size=\"11\">\n"
               "<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n"
               "<text x=\"4\" y=\"16\" font-size=\"14\">{}</text>\n",
               kWidth, height, kWidth, height, svg_text(title_)) +
           boxes_ + "</svg>\n";
  }

 private:
  static constexpr std::size_t kWidth = 1200;
  static constexpr std::size_t kRow = 17;
  static constexpr std::size_t kTop = 26;
  static constexpr double kThinnest = 0.1;  // narrowest box drawn, in pixels
  static constexpr double kLetter = 6.5;    // approximate width of a letter, in pixels

  // Draws a box and those inside it. `left_bytes` is the width of the boxes to its left, in bytes.
  void draw(const NamedFrame& frame, const Box& box, std::uint64_t left_bytes, std::size_t depth) {
    const double scale = static_cast<double>(kWidth) / static_cast<double>(total_);
    const double width = static_cast<double>(box.bytes) * scale;
    if (width < kThinnest) return;
    rows_ = std::max(rows_, depth);
    // A colour by the function's name: neighbours mostly differ, and a function has the same colour
    // in every picture.
    const std::size_t hue = std::hash<std::string>()(frame.name) % 50;
    const double x = static_cast<double>(left_bytes) * scale;
    const std::size_t y = kTop + depth * kRow;
    const double percent = 100.0 * static_cast<double>(box.bytes) / static_cast<double>(total_);
    boxes_ += format_text(
        "<g><title>{}: {} bytes ({}, {:.1f} %)</title><rect x=\"{:.1f}\" y=\"{}\" width=\"{:.1f}\" "
        "height=\"{}\" fill=\"hsl({},80%,72%)\" stroke=\"#fff\" stroke-width=\"0.5\"/>",
        svg_text(frame.name), box.bytes, size_text(box.bytes), percent, x, y, width, kRow - 1,
        10 + hue);
    const auto letters = static_cast<std::size_t>(width / kLetter);
    if (letters > 3) {
      boxes_ += format_text("<text x=\"{:.1f}\" y=\"{}\">{}</text>", x + 2, y + 12,
                            svg_text(cut(frame.name, letters, "..")));
    }
    boxes_ += "</g>\n";
    for (const auto& [name, inside] : box.inside) {
      draw(name, inside, left_bytes, depth + 1);
      left_bytes += inside.bytes;
    }
  }

  std::string title_;
  std::uint64_t total_;
  std::size_t rows_ = 0;
  std::string boxes_;
};

// The title of a flame graph: the program, its duration, the measure shown, and missing events.
std::string flame_graph_title(const Report& report, const StackExport& what) {
  const std::string missing = missing_in_short(report);
  return format_text("{}, {}: GPU memory by stack, {} bytes{}", job_command(report),
                     duration_text(job_length_ns(report)), what.measure.name,
                     missing.empty() ? "" : "; incomplete: " + missing);
}

}  // namespace

std::string collapsed_stacks(const Report& report, const StackExport& what) {
  std::map<std::string, std::uint64_t> lines;
  for (const auto& [stack, bytes] : bytes_by_stack(report, what)) {
    std::string line;
    for (const NamedFrame& frame : stack)
      line += (line.empty() ? "" : ";") + escaped_frame_name(frame.name);
    lines[line] += bytes;
  }
  std::string text;
  for (const auto& [line, bytes] : lines) text += format_text("{} {}\n", line, bytes);
  return text;
}

std::string speedscope_profile(const Report& report, const StackExport& what) {
  SpeedscopeFile file;
  std::map<NamedFrame, std::size_t> numbers;
  for (const analyzer::rows::Process& process : report.processes) {
    SpeedscopeProfile profile =
        profile_of(bytes_by_stack(report, what, process.id), numbers, file.shared.frames);
    profile.name = format_text("{} bytes, {}", what.measure.name, process_title(process));
    file.profiles.push_back(std::move(profile));
  }
  file.name = flame_graph_title(report, what);
  return analyzer::json_text(file, analyzer::JsonLayout::kNarrow) + "\n";
}

std::string flame_graph_svg(const Report& report, const StackExport& what) {
  Box root;
  for (const auto& [stack, bytes] : bytes_by_stack(report, what)) {
    Box* box = &root;
    box->bytes += bytes;
    for (const NamedFrame& frame : stack) {
      box = &box->inside[frame];
      box->bytes += bytes;
    }
  }
  const std::string total = size_text(root.bytes);
  return Picture(root, format_text("{} in all; {}", total, flame_graph_title(report, what))).text();
}

}  // namespace gpumemtrace::tools
