// SPDX-License-Identifier: Apache-2.0
// The options of commands. CLI11 parses them behind this: its templates take seconds in every file
// that includes them, so command_line.cpp is the only one.
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

// The known name nearest to `written`; empty if none is within two letters, or a third of it.
[[nodiscard]] std::string nearest_name(std::string_view written,
                                       const std::vector<std::string>& known);

}  // namespace gpumemtrace::tools

namespace CLI {

class App;
class Option;

}  // namespace CLI

namespace gpumemtrace::tools {

// One option or operand, borrowed from its CommandLine. Its setters return it again.
class Option {
 public:
  Option() = default;
  explicit Option(CLI::Option* option) : option_(option) {}

  Option& required();
  // The name of the value in the help; empty: none.
  Option& value_name(const std::string& name);
  // Takes one value each time that the option is given, so that an operand may follow.
  Option& one_value_each();
  Option& one_of(const std::vector<std::string>& names);
  Option& whole_number(std::uint64_t least, std::uint64_t most);
  // `complaint` returns the error in a value, or an empty text.
  Option& check(const std::function<std::string(const std::string&)>& complaint);

  // The number of times that it was given, once the command is parsed.
  [[nodiscard]] std::size_t count() const;

 private:
  CLI::Option* option_ = nullptr;
};

// The options of one command, borrowed from its Program. They write into the values given here,
// which must stay where they are until the command is parsed.
class CommandLine {
 public:
  explicit CommandLine(CLI::App& app) : app_(app) {}
  CommandLine(const CommandLine&) = delete;
  CommandLine& operator=(const CommandLine&) = delete;

  // The end of the help. Its paragraphs are wrapped, lines that begin with a space are not.
  void footer(const std::string& text);
  // Words that are no options of ours belong to a command; `usage` is the help's first line.
  void takes_command(const std::string& usage);
  [[nodiscard]] std::vector<std::string> command() const;

  // `names` are "-o,--output", or the name of an operand. Values are texts, paths, ids of
  // processes, and lists of texts and of paths.
  template <class Value>
  Option option(const std::string& names, Value& value, const std::string& help);
  // Options without a value; "--name,!--no-name" has a form that means no.
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
    std::string version;  // for --version
    std::string footer;
  };

  explicit Program(const Text& text);
  ~Program();
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  // The program owns it.
  CommandLine& add_command(const std::string& name, const std::string& summary);

  // The index of the command that was chosen, in the order of add_command(); empty if the words
  // asked for help or the version, which then stands on stdout. Throws Failure for bad usage.
  [[nodiscard]] std::optional<std::size_t> parse(std::vector<std::string> words);

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace gpumemtrace::tools
