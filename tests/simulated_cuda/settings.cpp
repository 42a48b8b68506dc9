// SPDX-License-Identifier: Apache-2.0
#include "tests/simulated_cuda/settings.hpp"

#include <cstdio>
#include <cstdlib>
#include <sstream>

namespace gpumemtrace::cuda_abi::simulated {
namespace {

void complain(const char* name, const std::string& value, const char* expected) {
  std::fprintf(stderr, "simulated CUDA driver: %s=%s is not %s; it is ignored\n", name,
               value.c_str(), expected);
}

bool parse_number(const std::string& text, std::uint64_t* value) {
  char* end = nullptr;
  *value = std::strtoull(text.c_str(), &end, 0);
  return !text.empty() && *end == '\0';
}

std::uint64_t read_number(const char* name, std::uint64_t fallback) {
  const char* text = std::getenv(name);
  if (text == nullptr || *text == '\0') return fallback;
  std::uint64_t value = 0;
  if (parse_number(text, &value)) return value;
  complain(name, text, "a number");
  return fallback;
}

// Reads injected failures from a variable: SYMBOL:CALL:RESULT, separated by commas.
void read_failures(const char* name, bool sticky, std::vector<InjectedFailure>* failures) {
  const char* text = std::getenv(name);
  if (text == nullptr) return;
  std::stringstream list(text);
  std::string item;
  while (std::getline(list, item, ',')) {
    std::stringstream fields(item);
    std::string symbol;
    std::string call;
    std::string result;
    std::getline(fields, symbol, ':');
    std::getline(fields, call, ':');
    std::getline(fields, result, ':');
    std::uint64_t call_number = 0;
    std::uint64_t result_number = 0;
    if (!parse_number(call, &call_number) || !parse_number(result, &result_number)) {
      complain(name, item, "SYMBOL:CALL:RESULT");
      continue;
    }
    failures->push_back({symbol, call_number, static_cast<CUresult>(result_number), sticky});
  }
}

NvmlMode read_nvml_mode() {
  constexpr struct {
    const char* name;
    NvmlMode mode;
  } kModes[] = {{"absent", NvmlMode::kAbsent},
                {"full", NvmlMode::kFull},
                {"no_process_bytes", NvmlMode::kNoProcessBytes},
                {"other_namespace", NvmlMode::kOtherNamespace},
                {"no_memory", NvmlMode::kNoMemory},
                {"slow", NvmlMode::kSlow}};
  constexpr const char* kName = "GPUMEMTRACE_SIM_NVML";
  const char* text = std::getenv(kName);
  if (text == nullptr || *text == '\0') return NvmlMode::kAbsent;
  for (const auto& known : kModes) {
    if (known.name == std::string(text)) return known.mode;
  }
  complain(kName, text, "a mode of NVML");
  return NvmlMode::kAbsent;
}

}  // namespace

Settings read_settings() {
  Settings settings;
  settings.device_count = static_cast<int>(
      read_number("GPUMEMTRACE_SIM_DEVICES", static_cast<std::uint64_t>(settings.device_count)));
  settings.device_bytes = read_number("GPUMEMTRACE_SIM_MEMORY", settings.device_bytes);
  settings.context_bytes = read_number("GPUMEMTRACE_SIM_CONTEXT_BYTES", settings.context_bytes);
  settings.driver_version = static_cast<int>(read_number(
      "GPUMEMTRACE_SIM_DRIVER_VERSION", static_cast<std::uint64_t>(settings.driver_version)));
  if (const char* path = std::getenv("GPUMEMTRACE_SIM_CARD")) settings.card_path = path;
  settings.other_bytes = read_number("GPUMEMTRACE_SIM_OTHER_BYTES", settings.other_bytes);
  settings.reserved_bytes = read_number("GPUMEMTRACE_SIM_RESERVED_BYTES", settings.reserved_bytes);
  settings.nvml = read_nvml_mode();
  settings.graph_bytes = read_number("GPUMEMTRACE_SIM_GRAPH_BYTES", settings.graph_bytes);
  settings.limits_take_memory = read_number("GPUMEMTRACE_SIM_LIMIT_MEMORY", 0) != 0;
  if (const char* path = std::getenv("GPUMEMTRACE_SIM_CALL_LOG")) settings.call_log_path = path;
  read_failures("GPUMEMTRACE_SIM_FAIL", false, &settings.failures);
  read_failures("GPUMEMTRACE_SIM_STICKY", true, &settings.failures);
  return settings;
}

}  // namespace gpumemtrace::cuda_abi::simulated
