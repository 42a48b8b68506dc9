// SPDX-License-Identifier: Apache-2.0
// dlsym and dlvsym on x86-64 (see preload/hooks/dlsym.cpp). A first look at the name decides without a
// call: nearly every look-up of a process is not for us. An answer comes back as address in rax and
// "final" in rdx.
#if defined(__x86_64__)
        .text

        .globl  dlsym
        .type   dlsym, @function
        .p2align 4
dlsym:
        endbr64
        testq   %rsi, %rsi
        je      1f
        cmpb    $'c', (%rsi)
        jne     1f
        pushq   %rdi
        pushq   %rsi
        subq    $8, %rsp
        call    gpumemtrace_answer_dlsym
        addq    $8, %rsp
        popq    %rsi
        popq    %rdi
        testq   %rdx, %rdx
        je      1f
        ret
1:      movq    gpumemtrace_real_dlsym(%rip), %rax
        testq   %rax, %rax
        je      2f
        jmp     *%rax
2:      pushq   %rdi
        pushq   %rsi
        subq    $8, %rsp
        call    gpumemtrace_find_real_dlsym
        addq    $8, %rsp
        popq    %rsi
        popq    %rdi
        movq    gpumemtrace_real_dlsym(%rip), %rax
        testq   %rax, %rax
        je      3f
        jmp     *%rax
3:      ret     // nullptr: the process has no dlsym
        .size   dlsym, .-dlsym

        .globl  dlvsym
        .type   dlvsym, @function
        .p2align 4
dlvsym:
        endbr64
        pushq   %rdi
        pushq   %rsi
        pushq   %rdx
        cmpq    $0, gpumemtrace_real_dlvsym(%rip)
        jne     1f
        call    gpumemtrace_find_real_dlsym
        movq    (%rsp), %rdx
        movq    8(%rsp), %rsi
        movq    16(%rsp), %rdi
1:      call    gpumemtrace_answer_dlvsym
        testq   %rdx, %rdx
        popq    %rdx
        popq    %rsi
        popq    %rdi
        je      2f
        ret
2:      movq    gpumemtrace_real_dlvsym(%rip), %rax
        jmp     *%rax
        .size   dlvsym, .-dlvsym

#endif
        .section .note.GNU-stack, "", %progbits
