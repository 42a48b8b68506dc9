// SPDX-License-Identifier: Apache-2.0
#include "preload/hooks/process_exit.hpp"

#include <errno.h>

#include <atomic>

#include "preload/hooks/dlsym.hpp"
#include "preload/loader/elf_symbols.hpp"
#include "preload/loader/lazy_symbols.hpp"
#include "preload/session/session.hpp"
#include "trace/records.hpp"

namespace gpumemtrace::preload {
namespace {

struct Ending {
  const char* symbol;
  trace::MarkKind mark;
  std::atomic<void*> real = nullptr;
};

// What stands for a function that this libc does not have.
long no_such_function() noexcept {
  errno = ENOSYS;
  return -1;
}

void* find(Ending& ending) noexcept {
  void* real = ending.real.load(std::memory_order_relaxed);  // the pointer is all there is
  if (real != nullptr) return real;
  real = real_dlsym(RTLD_NEXT, ending.symbol);
  if (real == nullptr && libc_dlerror) libc_dlerror();  // the look-up was ours
  // Before glibc 2.34 a program without libdl has no dlsym.
  if (real == nullptr) real = find_symbol_at_start("libc.so.6", ending.symbol);
  if (real == nullptr) real = reinterpret_cast<void*>(no_such_function);
  ending.real.store(real, std::memory_order_relaxed);
  return real;
}

}  // namespace

extern "C" {

#define GPUMEMTRACE_ENDING(symbol, kind)                                   \
  [[gnu::visibility("hidden")]] extern Ending gpumemtrace_ending_##symbol; \
  [[gnu::used]] constinit Ending gpumemtrace_ending_##symbol = {#symbol, trace::MarkKind::kind};
#include "preload/hooks/process_exit.def"
#undef GPUMEMTRACE_ENDING

// Called by the assembly below; the address to jump to.
[[gnu::used, gnu::visibility("hidden")]] void* gpumemtrace_take_ending(Ending* ending) {
  ending_comes(ending->mark);
  return find(*ending);
}
}

void find_endings() noexcept {
#define GPUMEMTRACE_ENDING(symbol, kind) find(gpumemtrace_ending_##symbol);
#include "preload/hooks/process_exit.def"
#undef GPUMEMTRACE_ENDING
}

// Every symbol loads the address of its Ending and goes on at one place, which keeps all registers
// that carry arguments. Vector registers carry none here.
#if defined(__x86_64__)
__asm__(R"(
        .text
        .p2align 4
        .type   gpumemtrace_end, @function
gpumemtrace_end:
        pushq   %rdi
        pushq   %rsi
        pushq   %rdx
        pushq   %rcx
        pushq   %r8
        pushq   %r9
        pushq   %rax
        movq    %r11, %rdi
        call    gpumemtrace_take_ending
        movq    %rax, %r11
        popq    %rax
        popq    %r9
        popq    %r8
        popq    %rcx
        popq    %rdx
        popq    %rsi
        popq    %rdi
        jmp     *%r11
        .size   gpumemtrace_end, .-gpumemtrace_end
)");
#define GPUMEMTRACE_TO_END(symbol) \
  "endbr64\n\tleaq gpumemtrace_ending_" #symbol "(%rip), %r11\n\tjmp gpumemtrace_end\n"
#elif defined(__aarch64__)
__asm__(R"(
        .text
        .p2align 4
        .type   gpumemtrace_end, %function
gpumemtrace_end:
        stp     x29, x30, [sp, #-80]!
        mov     x29, sp
        stp     x0, x1, [sp, #16]
        stp     x2, x3, [sp, #32]
        stp     x4, x5, [sp, #48]
        stp     x6, x7, [sp, #64]
        mov     x0, x16
        bl      gpumemtrace_take_ending
        mov     x16, x0
        ldp     x0, x1, [sp, #16]
        ldp     x2, x3, [sp, #32]
        ldp     x4, x5, [sp, #48]
        ldp     x6, x7, [sp, #64]
        ldp     x29, x30, [sp], #80
        br      x16
        .size   gpumemtrace_end, .-gpumemtrace_end
)");
#define GPUMEMTRACE_TO_END(symbol)                                                               \
  "adrp x16, gpumemtrace_ending_" #symbol "\n\tadd x16, x16, #:lo12:gpumemtrace_ending_" #symbol \
  "\n\tb gpumemtrace_end\n"
#endif

#define GPUMEMTRACE_ENDING(symbol, kind)                                                        \
  __asm__(".text\n\t.globl " #symbol "\n\t.type " #symbol ", %function\n\t.p2align 4\n" #symbol \
          ":\n\t" GPUMEMTRACE_TO_END(symbol) "\t.size " #symbol ", .-" #symbol "\n");
#include "preload/hooks/process_exit.def"
#undef GPUMEMTRACE_ENDING

}  // namespace gpumemtrace::preload
