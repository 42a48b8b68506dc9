// SPDX-License-Identifier: Apache-2.0
#include "bench/program.hpp"

#include <exception>
#include <stdexcept>

#include "bench/results.hpp"

namespace gpumemtrace::bench {
namespace {

Arguments read_arguments(int count, char** values) {
  Arguments arguments;
  for (int i = 1; i < count; ++i) {
    const std::string value = values[i];
    const auto next = [&]() -> std::string {
      if (++i == count) throw std::runtime_error(value + " needs a value");
      return values[i];
    };
    if (value == "--rounds") {
      arguments.rounds = std::stoul(next());
    } else if (value == "--folder") {
      arguments.folder = next();
    } else if (value == "--output") {
      arguments.output = next();
    } else {
      arguments.others.push_back(value);
    }
  }
  return arguments;
}

}  // namespace

int run_program(int count, char** values, const std::function<void(const Arguments&)>& measure) {
  try {
    measure(read_arguments(count, values));
    return 0;
  } catch (const std::exception& error) {
    say(std::filesystem::path(values[0]).filename().string() + ": " + error.what());
    return 1;
  }
}

}  // namespace gpumemtrace::bench
