// SPDX-License-Identifier: Apache-2.0
// Defines and parses the options of commands with CLI11. Only command_line.cpp includes CLI11,
// whose templates take seconds to compile in every file that does.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gpumemtrace::tools {

// The known name that is nearest to `written`; empty if all names differ by more than two letters,
// or more than a third of `written` if that is larger.
[[nodiscard]] std::string nearest_name(std::string_view written,
                                       const std::vector<std::string>& known);

}  // namespace gpumemtrace::tools

namespace CLI {

class App;
class Option;

}  // namespace CLI

namespace gpumemtrace::tools {

// One option or operand, owned by its CommandLine. Setters return *this.
class Option {
 public:
  Option() = default;
  explicit Option(CLI::Option* option) : option_(option) {}

  Option& required();
  // The name of the value in the help; empty: none.
  Option& value_name(const std::string& name);
  // Makes the option take one value each time it is given, so that an operand may follow.
  Option& one_value_each();
  Option& one_of(const std::vector<std::string>& names);
  Option& whole_number(std::uint64_t least, std::uint64_t most);
  // Sets a check of values: `complaint` returns the error in a value, or an empty text.
  Option& check(const std::function<std::string(const std::string&)>& complaint);

  // The number of times that the option was given; valid after parsing.
  [[nodiscard]] std::size_t count() const;

 private:
  CLI::Option* option_ = nullptr;
};

// The options of one command, owned by its Program. Program::parse() writes into the variables that
// are passed to option() and flag(), so they must not move before it returns.
class CommandLine {
 public:
  explicit CommandLine(CLI::App& app) : app_(app) {}
  CommandLine(const CommandLine&) = delete;
  CommandLine& operator=(const CommandLine&) = delete;

  // Sets the text at the end of the help. Paragraphs are wrapped; lines that begin with a space are
  // not.
  void footer(const std::string& text);
  // Lets words that are no options form a command to run; `usage` is the first line of the help.
  void takes_command(const std::string& usage);
  [[nodiscard]] std::vector<std::string> command() const;

  // Adds an option or operand. `names` is "-o,--output" or the name of an operand. Values are
  // texts, paths, PIDs, and lists of texts and of paths.
  template <class Value>
  Option option(const std::string& names, Value& value, const std::string& help);
  // Adds an option without a value; "--name,!--no-name" also has a form that means no.
  Option flag(const std::string& names, bool& value, const std::string& help);
  Option flag(const std::string& names, const std::function<void()>& when_given,
              const std::string& help);
  Option flag(const std::string& names, const std::string& help);

 private:
  CLI::App& app_;
};

// A program whose first word is a command.
class Program {
 public:
  struct Text {
    std::string name;
    std::string summary;
    std::string version;  // printed by --version
    std::string footer;
  };

  explicit Program(const Text& text);
  ~Program();
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  // Adds a subcommand, which the program owns.
  CommandLine& add_command(const std::string& name, const std::string& summary);

  // The index of the command that was chosen, in the order of add_command(); empty if the words
  // asked for help or the version, which then stands on stdout. Throws Failure for bad usage.
  [[nodiscard]] std::optional<std::size_t> parse(std::vector<std::string> words);

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace gpumemtrace::tools
