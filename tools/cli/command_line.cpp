// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/command_line.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstddef>
#include <numeric>
#include <sstream>
#include <utility>

#include "tools/base/failure.hpp"
#include "tools/base/sizes.hpp"
#include "tools/base/text.hpp"

namespace gpumemtrace::tools {
namespace {

// The Levenshtein distance: how many letters to add, remove or replace to turn one text into the
// other.
std::size_t distance_of(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i + 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

}  // namespace

std::string nearest_name(std::string_view written, const std::vector<std::string>& known) {
  std::string nearest;
  std::size_t least = std::max<std::size_t>(2, written.size() / 3) + 1;
  for (const std::string& name : known) {
    const std::size_t distance = distance_of(written, name);
    if (distance >= least) continue;
    least = distance;
    nearest = name;
  }
  return nearest;
}

namespace {

constexpr std::size_t kTerminalColumns = 80;
// CLI11 begins descriptions in this column.
constexpr std::size_t kDescriptionBegin = 30;

// Breaks the line between words; a word that is longer than `most_columns` stays whole.
std::string wrap_line(const std::string& line, std::size_t most_columns) {
  std::istringstream words(line);
  std::string wrapped;
  std::size_t columns = 0;
  for (std::string word; words >> word; columns += word.size() + 1) {
    if (wrapped.empty()) {
      columns = 0;
    } else if (columns + word.size() > most_columns) {
      wrapped += '\n';
      columns = 0;
    } else {
      wrapped += ' ';
    }
    wrapped += word;
  }
  return wrapped;
}

// Paragraphs are wrapped; a line that begins with a space stays as it is.
std::string wrap_paragraphs(const std::string& text) {
  std::istringstream lines(text);
  std::string wrapped;
  std::string paragraph;
  const auto add_line = [&](const std::string& line) {
    wrapped += (wrapped.empty() ? "" : "\n") + line;
  };
  const auto end_paragraph = [&] {
    if (!paragraph.empty()) add_line(wrap_line(std::exchange(paragraph, {}), kTerminalColumns));
  };
  for (std::string line; std::getline(lines, line);) {
    if (line.empty() || line.front() == ' ') {
      end_paragraph();
      add_line(line);
    } else {
      paragraph += line + ' ';
    }
  }
  end_paragraph();
  return wrapped;
}

// CLI11's layout with descriptions that are wrapped beside their options.
class HelpFormatter : public CLI::Formatter {
 public:
  // The option's name without "{false}", which CLI11 appends to a flag that means "no".
  std::string make_option_name(const CLI::Option* option, bool is_positional) const override {
    return CLI::detail::find_and_replace(CLI::Formatter::make_option_name(option, is_positional),
                                         "{false}", "");
  }

  // The option's description, wrapped; its own line ends stay.
  std::string make_option_desc(const CLI::Option* option) const override {
    std::istringstream lines(CLI::Formatter::make_option_desc(option));
    std::string wrapped;
    for (std::string line; std::getline(lines, line);) {
      wrapped +=
          (wrapped.empty() ? "" : "\n") + wrap_line(line, kTerminalColumns - kDescriptionBegin);
    }
    return wrapped;
  }
};

// Formats the help of a command that takes another command after its options, which CLI11's usage
// line would not show.
class CommandFormatter : public HelpFormatter {
 public:
  explicit CommandFormatter(std::string usage) : usage_(std::move(usage)) {}
  std::string make_usage(const CLI::App*, std::string) const override { return usage_ + '\n'; }

 private:
  std::string usage_;
};

// A suggestion if the message ends with an option that the command nearly has: "; did you mean
// --max-leak?"
std::string spelling_hint(const CLI::App* command, const std::string& message) {
  const std::size_t dashes = message.rfind(" --");
  if (command == nullptr || dashes == std::string::npos) return {};
  std::vector<std::string> names;
  for (const CLI::Option* option : command->get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  std::string written = message.substr(dashes + 1);
  written.resize(std::min(written.find_first_of(" =,"), written.size()));
  if (std::ranges::find(names, written) != names.end()) return {};
  const std::string nearest = nearest_name(written, names);
  return nearest.empty() ? nearest : "; did you mean " + nearest + "?";
}

}  // namespace

Option& Option::required() {
  option_->required();
  return *this;
}

Option& Option::value_name(const std::string& name) {
  option_->type_name(name);
  return *this;
}

Option& Option::one_value_each() {
  option_->allow_extra_args(false);
  return *this;
}

Option& Option::one_of(const std::vector<std::string>& names) {
  return check([names](const std::string& text) -> std::string {
    if (std::ranges::find(names, text) != names.end()) return {};
    return format_text("there is no '{}'; there are {}", text, joined(names));
  });
}

Option& Option::whole_number(std::uint64_t least, std::uint64_t most) {
  return check([least, most](const std::string& text) -> std::string {
    const std::optional<std::uint64_t> number = parse_number(text);
    if (number && *number >= least && *number <= most) return {};
    return format_text("'{}' is no whole number from {} to {}", text, least, most);
  });
}

Option& Option::check(const std::function<std::string(const std::string&)>& complaint) {
  option_->check(CLI::Validator([complaint](std::string& value) { return complaint(value); }, ""));
  return *this;
}

std::size_t Option::count() const { return option_->count(); }

void CommandLine::footer(const std::string& text) { app_.footer(wrap_paragraphs(text)); }

void CommandLine::takes_command(const std::string& usage) {
  app_.prefix_command();
  app_.formatter(std::make_shared<CommandFormatter>(usage));
}

std::vector<std::string> CommandLine::command() const { return app_.remaining(); }

template <class Value>
Option CommandLine::option(const std::string& names, Value& value, const std::string& help) {
  return Option(app_.add_option(names, value, help));
}
template Option CommandLine::option(const std::string&, std::string&, const std::string&);
template Option CommandLine::option(const std::string&, std::filesystem::path&, const std::string&);
template Option CommandLine::option(const std::string&, pid_t&, const std::string&);
template Option CommandLine::option(const std::string&, std::vector<std::string>&,
                                    const std::string&);
template Option CommandLine::option(const std::string&, std::vector<std::filesystem::path>&,
                                    const std::string&);

Option CommandLine::flag(const std::string& names, bool& value, const std::string& help) {
  return Option(app_.add_flag(names, value, help));
}

Option CommandLine::flag(const std::string& names, const std::function<void()>& when_given,
                         const std::string& help) {
  return Option(app_.add_flag_callback(names, when_given, help));
}

Option CommandLine::flag(const std::string& names, const std::string& help) {
  return Option(app_.add_flag(names, help));
}

struct Program::Parts {
  explicit Parts(const Text& text) : app(text.summary, text.name) {}

  CLI::App app;
  std::vector<CLI::App*> commands;
  std::vector<std::unique_ptr<CommandLine>> lines;
};

Program::Program(const Text& text) : parts_(std::make_unique<Parts>(text)) {
  CLI::App& app = parts_->app;
  app.set_version_flag("--version", text.version);
  app.require_subcommand(1);
  app.formatter(std::make_shared<HelpFormatter>());  // subcommands inherit the formatter
  app.footer(wrap_paragraphs(text.footer));
}

Program::~Program() = default;

CommandLine& Program::add_command(const std::string& name, const std::string& summary) {
  parts_->commands.push_back(parts_->app.add_subcommand(name, summary));
  parts_->lines.push_back(std::make_unique<CommandLine>(*parts_->commands.back()));
  return *parts_->lines.back();
}

std::optional<std::size_t> Program::parse(std::vector<std::string> words) {
  const std::string first = words.empty() ? std::string() : words.front();
  try {
    std::reverse(words.begin(), words.end());  // CLI11 takes words from the end of the list
    parts_->app.parse(std::move(words));
  } catch (const CLI::Success& help_or_version) {
    parts_->app.exit(help_or_version);
    return std::nullopt;
  } catch (const CLI::ParseError& error) {
    const auto named = std::ranges::find_if(
        parts_->commands, [&](const CLI::App* row) { return row->get_name() == first; });
    const CLI::App* const command = named == parts_->commands.end() ? nullptr : *named;
    throw Failure(
        format_text("{}{}; see `gpumemtrace {}--help`", error.what(),
                    spelling_hint(command, error.what()), command == nullptr ? "" : first + " "),
        ExitCode::kUsage);
  }
  const auto chosen = std::ranges::find_if(
      parts_->commands, [](const CLI::App* command) { return command->parsed(); });
  return static_cast<std::size_t>(chosen - parts_->commands.begin());
}

}  // namespace gpumemtrace::tools
