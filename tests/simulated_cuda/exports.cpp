// SPDX-License-Identifier: Apache-2.0
#include <cstring>
#include <string>
#include <tuple>
#include <type_traits>

#include "tests/simulated_cuda/call.hpp"
#include "tests/simulated_cuda/implementations.hpp"
#include "tests/simulated_cuda/symbols.hpp"

// Defines the exported driver functions, one for each row of exports.inc, and the search that
// cuGetProcAddress makes among them.

namespace gpumemtrace::cuda_abi::simulated {
namespace {

constexpr bool ends_with(const char* text, const char* ending) {
  const std::size_t length = std::char_traits<char>::length(text);
  const std::size_t ending_length = std::char_traits<char>::length(ending);
  if (length < ending_length) return false;
  for (std::size_t index = 0; index < ending_length; ++index) {
    if (text[length - ending_length + index] != ending[index]) return false;
  }
  return true;
}

constexpr bool is_per_thread(const char* symbol) {
  return ends_with(symbol, "_ptds") || ends_with(symbol, "_ptsz");
}

template <typename Function>
struct ParametersOf;
template <typename... Parameters>
struct ParametersOf<CUresult(Parameters...)> {
  using Types = std::tuple<Parameters...>;
};
template <typename Function, std::size_t kIndex>
using Parameter = std::tuple_element_t<kIndex, typename ParametersOf<Function>::Types>;

constexpr auto not_supported = [](auto...) { return CUDA_ERROR_NOT_SUPPORTED; };

}  // namespace

#define GPUMEMTRACE_P(symbol, index) Parameter<symbol##_t, index> p##index
#define GPUMEMTRACE_PARAMETERS_0(symbol)
#define GPUMEMTRACE_PARAMETERS_1(symbol) GPUMEMTRACE_P(symbol, 0)
#define GPUMEMTRACE_PARAMETERS_2(symbol) GPUMEMTRACE_PARAMETERS_1(symbol), GPUMEMTRACE_P(symbol, 1)
#define GPUMEMTRACE_PARAMETERS_3(symbol) GPUMEMTRACE_PARAMETERS_2(symbol), GPUMEMTRACE_P(symbol, 2)
#define GPUMEMTRACE_PARAMETERS_4(symbol) GPUMEMTRACE_PARAMETERS_3(symbol), GPUMEMTRACE_P(symbol, 3)
#define GPUMEMTRACE_PARAMETERS_5(symbol) GPUMEMTRACE_PARAMETERS_4(symbol), GPUMEMTRACE_P(symbol, 4)
#define GPUMEMTRACE_PARAMETERS_6(symbol) GPUMEMTRACE_PARAMETERS_5(symbol), GPUMEMTRACE_P(symbol, 5)
#define GPUMEMTRACE_PARAMETERS_7(symbol) GPUMEMTRACE_PARAMETERS_6(symbol), GPUMEMTRACE_P(symbol, 6)
#define GPUMEMTRACE_PARAMETERS_8(symbol) GPUMEMTRACE_PARAMETERS_7(symbol), GPUMEMTRACE_P(symbol, 7)
#define GPUMEMTRACE_PARAMETERS_9(symbol) GPUMEMTRACE_PARAMETERS_8(symbol), GPUMEMTRACE_P(symbol, 8)
#define GPUMEMTRACE_PARAMETERS_10(symbol) GPUMEMTRACE_PARAMETERS_9(symbol), GPUMEMTRACE_P(symbol, 9)
#define GPUMEMTRACE_PARAMETERS_11(symbol) \
  GPUMEMTRACE_PARAMETERS_10(symbol), GPUMEMTRACE_P(symbol, 10)
#define GPUMEMTRACE_ARGUMENTS_0
#define GPUMEMTRACE_ARGUMENTS_1 , p0
#define GPUMEMTRACE_ARGUMENTS_2 GPUMEMTRACE_ARGUMENTS_1, p1
#define GPUMEMTRACE_ARGUMENTS_3 GPUMEMTRACE_ARGUMENTS_2, p2
#define GPUMEMTRACE_ARGUMENTS_4 GPUMEMTRACE_ARGUMENTS_3, p3
#define GPUMEMTRACE_ARGUMENTS_5 GPUMEMTRACE_ARGUMENTS_4, p4
#define GPUMEMTRACE_ARGUMENTS_6 GPUMEMTRACE_ARGUMENTS_5, p5
#define GPUMEMTRACE_ARGUMENTS_7 GPUMEMTRACE_ARGUMENTS_6, p6
#define GPUMEMTRACE_ARGUMENTS_8 GPUMEMTRACE_ARGUMENTS_7, p7
#define GPUMEMTRACE_ARGUMENTS_9 GPUMEMTRACE_ARGUMENTS_8, p8
#define GPUMEMTRACE_ARGUMENTS_10 GPUMEMTRACE_ARGUMENTS_9, p9
#define GPUMEMTRACE_ARGUMENTS_11 GPUMEMTRACE_ARGUMENTS_10, p10

#define GPUMEMTRACE_EXPORT(count, symbol, version, needs, implementation)          \
  static EntryPoint symbol##_entry{#symbol, Needs::needs, is_per_thread(#symbol)}; \
  extern "C" __attribute__((visibility("default"))) CUresult symbol(               \
      GPUMEMTRACE_PARAMETERS_##count(symbol)) {                                    \
    return call(symbol##_entry, implementation GPUMEMTRACE_ARGUMENTS_##count);     \
  }                                                                                \
  static_assert(std::is_same_v<decltype(symbol), symbol##_t>,                      \
                "wrong number of parameters of " #symbol);
#include "tests/simulated_cuda/exports.inc"
#undef GPUMEMTRACE_EXPORT

namespace {

struct Symbol {
  const char* name;
  int version;
  void* function;
};

const Symbol kSymbols[] = {
#define GPUMEMTRACE_EXPORT(count, symbol, version, needs, implementation) \
  {#symbol, version, reinterpret_cast<void*>(&symbol)},
#include "tests/simulated_cuda/exports.inc"
#undef GPUMEMTRACE_EXPORT
};

// True if a symbol is a version of the base name: cuMemAlloc and cuMemAlloc_v2 are versions of
// cuMemAlloc, cuMemAllocAsync is none. Per-thread default stream variants match only with
// `per_thread`.
bool is_version_of(const char* symbol, const char* base_name, bool per_thread) {
  const std::size_t length = std::strlen(base_name);
  if (std::strncmp(symbol, base_name, length) != 0) return false;
  std::string rest = symbol + length;
  if (is_per_thread(symbol) != per_thread) return false;
  if (per_thread) rest.resize(rest.size() - std::strlen("_ptds"));
  return rest.empty() || (rest.size() == 3 && rest[0] == '_' && rest[1] == 'v');
}

SymbolSearch find_newest(const char* base_name, int version, bool per_thread) {
  SymbolSearch search;
  int newest = -1;
  for (const Symbol& symbol : kSymbols) {
    if (!is_version_of(symbol.name, base_name, per_thread)) continue;
    if (symbol.version > version) {
      if (search.function == nullptr) {
        search.status = CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT;
      }
      continue;
    }
    // The rows of one function stand in the order of their versions, and some of them share one
    // CUDA version: the last such row is taken.
    if (symbol.version < newest) continue;
    newest = symbol.version;
    search = {symbol.function, CU_GET_PROC_ADDRESS_SUCCESS};
  }
  return search;
}

}  // namespace

SymbolSearch find_symbol(const char* base_name, int version, bool per_thread_stream) {
  if (per_thread_stream) {
    const SymbolSearch own = find_newest(base_name, version, true);
    if (own.function != nullptr) return own;
  }
  return find_newest(base_name, version, false);
}

}  // namespace gpumemtrace::cuda_abi::simulated
