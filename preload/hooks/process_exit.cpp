// SPDX-License-Identifier: Apache-2.0
// The exported functions of preload/loader/exit_functions.def (_exit, execve, ...): each tells the
// trace that the process is about to end, then jumps to the next definition of the function, with
// all arguments where they were. So variadic functions (execl) work, and a function that fails
// returns to its caller.
//
// exit() needs no such hook: it runs our exit handler (preload/effects/other_calls.hpp).

#include "preload/loader/exit_functions.hpp"
#include "preload/session/session.hpp"

namespace gpumemtrace::preload {

// Called by the assembly below, which then jumps to the returned address of the real function.
extern "C" [[gnu::used, gnu::visibility("hidden")]] void* gpumemtrace_before_exit(
    ExitFunction* function) {
  process_ends(function->mark);
  return real_exit_function(*function);
}

// Each exported symbol loads the address of its ExitFunction and jumps to one common hook, which
// saves all registers that carry arguments. Vector registers carry no arguments of these functions.
#if defined(__x86_64__)
__asm__(R"(
        .text
        .p2align 4
        .type   gpumemtrace_exit_hook, @function
gpumemtrace_exit_hook:
        pushq   %rdi
        pushq   %rsi
        pushq   %rdx
        pushq   %rcx
        pushq   %r8
        pushq   %r9
        pushq   %rax
        movq    %r11, %rdi
        call    gpumemtrace_before_exit
        movq    %rax, %r11
        popq    %rax
        popq    %r9
        popq    %r8
        popq    %rcx
        popq    %rdx
        popq    %rsi
        popq    %rdi
        jmp     *%r11
        .size   gpumemtrace_exit_hook, .-gpumemtrace_exit_hook
)");
#define GPUMEMTRACE_TO_EXIT_HOOK(symbol)               \
  "endbr64\n\tleaq gpumemtrace_exit_function_" #symbol \
  "(%rip), %r11\n\tjmp "                               \
  "gpumemtrace_exit_hook\n"
#elif defined(__aarch64__)
__asm__(R"(
        .text
        .p2align 4
        .type   gpumemtrace_exit_hook, %function
gpumemtrace_exit_hook:
        stp     x29, x30, [sp, #-80]!
        mov     x29, sp
        stp     x0, x1, [sp, #16]
        stp     x2, x3, [sp, #32]
        stp     x4, x5, [sp, #48]
        stp     x6, x7, [sp, #64]
        mov     x0, x16
        bl      gpumemtrace_before_exit
        mov     x16, x0
        ldp     x0, x1, [sp, #16]
        ldp     x2, x3, [sp, #32]
        ldp     x4, x5, [sp, #48]
        ldp     x6, x7, [sp, #64]
        ldp     x29, x30, [sp], #80
        br      x16
        .size   gpumemtrace_exit_hook, .-gpumemtrace_exit_hook
)");
#define GPUMEMTRACE_TO_EXIT_HOOK(symbol)         \
  "adrp x16, gpumemtrace_exit_function_" #symbol \
  "\n\tadd x16, x16, #:lo12:gpumemtrace_exit_function_" #symbol "\n\tb gpumemtrace_exit_hook\n"
#endif

#define GPUMEMTRACE_EXIT_FUNCTION(symbol, kind)                                                 \
  __asm__(".text\n\t.globl " #symbol "\n\t.type " #symbol ", %function\n\t.p2align 4\n" #symbol \
          ":\n\t" GPUMEMTRACE_TO_EXIT_HOOK(symbol) "\t.size " #symbol ", .-" #symbol "\n");
#include "preload/loader/exit_functions.def"

}  // namespace gpumemtrace::preload
