// SPDX-License-Identifier: Apache-2.0
// Frames that compilers rarely or never make. All: rdi is a function to call, rsi its argument.
#if defined(__x86_64__)
        .text

// The frame address is rbx + 16, and the function that is called may use rbx for itself.
        .globl  frame_by_rbx
        .type   frame_by_rbx, @function
frame_by_rbx:
        .cfi_startproc
        pushq   %rbx
        .cfi_def_cfa_offset 16
        .cfi_offset %rbx, -16
        movq    %rsp, %rbx
        .cfi_def_cfa_register %rbx
        andq    $-64, %rsp
        subq    $128, %rsp
        movq    %rdi, %rax
        movq    %rsi, %rdi
        call    *%rax
        movq    %rbx, %rsp
        .cfi_def_cfa_register %rsp
        popq    %rbx
        .cfi_def_cfa_offset 8
        ret
        .cfi_endproc
        .size   frame_by_rbx, .-frame_by_rbx

// The frame address stands in memory at rbp - 8: DW_CFA_def_cfa_expression (DW_OP_breg6 -8,
// DW_OP_deref), as compilers describe frames that they realign.
        .globl  frame_by_expression
        .type   frame_by_expression, @function
frame_by_expression:
        .cfi_startproc
        leaq    8(%rsp), %r10
        .cfi_def_cfa %r10, 0
        andq    $-128, %rsp
        pushq   -8(%r10)
        pushq   %rbp
        movq    %rsp, %rbp
        .cfi_escape 0x10,0x6,0x2,0x76,0
        pushq   %r10
        .cfi_escape 0xf,0x3,0x76,0x78,0x6
        subq    $56, %rsp
        movq    %rdi, %rax
        movq    %rsi, %rdi
        call    *%rax
        movq    -8(%rbp), %r10
        .cfi_def_cfa %r10, 0
        leave
        leaq    -8(%r10), %rsp
        .cfi_def_cfa %rsp, 8
        ret
        .cfi_endproc
        .size   frame_by_expression, .-frame_by_expression

// No unwind table; a frame pointer.
        .globl  frame_without_tables
        .type   frame_without_tables, @function
frame_without_tables:
        pushq   %rbp
        movq    %rsp, %rbp
        subq    $64, %rsp
        movq    %rdi, %rax
        movq    %rsi, %rdi
        call    *%rax
        leave
        ret
        .size   frame_without_tables, .-frame_without_tables

// rdx: the top of another stack, which the function runs on. Its walk ends there: the caller of
// what runs on a stack of its own is on no stack.
        .globl  call_on_stack
        .type   call_on_stack, @function
call_on_stack:
        .cfi_startproc
        .cfi_undefined %rip
        pushq   %rbx
        movq    %rsp, %rbx
        movq    %rdx, %rsp
        movq    %rdi, %rax
        movq    %rsi, %rdi
        call    *%rax
        movq    %rbx, %rsp
        popq    %rbx
        ret
        .cfi_endproc
        .size   call_on_stack, .-call_on_stack

        .section .note.GNU-stack, "", @progbits
#endif
