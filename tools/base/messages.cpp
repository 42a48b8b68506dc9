// SPDX-License-Identifier: Apache-2.0
#include "tools/base/messages.hpp"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <memory>

#include "analyzer/base/printable.hpp"

namespace gpumemtrace::tools {
namespace {

spdlog::logger& logger() {
  static const std::shared_ptr<spdlog::logger> instance = [] {
    auto created = std::make_shared<spdlog::logger>(
        "gpumemtrace", std::make_shared<spdlog::sinks::stderr_sink_st>());
    created->set_pattern("gpumemtrace: %v");
    return created;
  }();
  return *instance;
}

}  // namespace

// The text is an argument, not the format: it may hold braces.
void say(const std::string& message) { logger().info("{}", analyzer::printable(message)); }
void warn(const std::string& message) {
  logger().warn("warning: {}", analyzer::printable(message));
}
void report_failure(const std::string& message) {
  logger().error("error: {}", analyzer::printable(message));
}

}  // namespace gpumemtrace::tools
