// SPDX-License-Identifier: Apache-2.0
#include "analyzer/symbols/readable_name.hpp"

#include <cxxabi.h>

#include <csetjmp>
#include <cstdlib>
#include <cstring>
#include <memory>

// The demangler behind abi::__cxa_demangle, which passes the text on in pieces instead of growing a
// buffer. It is in the static libstdc++, with which the command line is linked; the shared one does
// not export it.
extern "C" [[gnu::weak]] int __gcclibcxx_demangle_callback(
    const char* symbol, void (*take)(const char* text, std::size_t bytes, void* target),
    void* target);

namespace gpumemtrace::analyzer {
namespace {

constexpr std::size_t kMostLetters = 4096;

struct Demangled {
  std::string text;
  std::jmp_buf full;
};

void take_piece(const char* text, std::size_t bytes, void* target) {
  auto* demangled = static_cast<Demangled*>(target);
  demangled->text.append(text, bytes);
  if (demangled->text.size() > kMostLetters) std::longjmp(demangled->full, 1);
}

// A mangled name of a hundred letters can stand for gigabytes of text, so the demangler is left
// with longjmp() when there is enough text. The demangler keeps everything on its stack, so nothing
// leaks.
std::string demangle(const char* symbol) {
  const auto demangled = std::make_unique<Demangled>();
  if (setjmp(demangled->full) != 0) {
    demangled->text.resize(kMostLetters);
    return std::move(demangled->text);
  }
  if (__gcclibcxx_demangle_callback(symbol, take_piece, demangled.get()) != 0) return {};
  return std::move(demangled->text);
}

std::string demangle_unbounded(const char* symbol) {
  int status = 0;
  char* text = abi::__cxa_demangle(symbol, nullptr, nullptr, &status);
  if (text == nullptr) return {};
  std::string readable(text, strnlen(text, kMostLetters));
  std::free(text);
  return readable;
}

}  // namespace

bool can_demangle_bounded() { return &__gcclibcxx_demangle_callback != nullptr; }

std::string readable_name(const char* symbol) {
  std::string name(symbol, strnlen(symbol, kMostLetters));
  if (name.compare(0, 2, "_Z") == 0) {
    std::string readable =
        can_demangle_bounded() ? demangle(name.c_str()) : demangle_unbounded(name.c_str());
    if (readable.empty()) return name;
    const std::size_t copy = readable.find(" [clone ");
    if (copy != std::string::npos) readable.resize(copy);
    return readable;
  }
  // Compilers also make copies of C functions: `step.part.0`, `step.cold`.
  const std::size_t dot = name.find('.', 1);
  if (dot != std::string::npos) name.resize(dot);
  return name;
}

}  // namespace gpumemtrace::analyzer
