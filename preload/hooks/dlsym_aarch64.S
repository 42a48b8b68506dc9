// SPDX-License-Identifier: Apache-2.0
// dlsym and dlvsym on 64-bit Arm (see preload/hooks/dlsym.cpp). The return address is in x30, which a
// branch without link leaves as the caller set it. An answer comes back as address in x0 and "final"
// in x1.
#if defined(__aarch64__)
        .text

        .globl  dlsym
        .type   dlsym, %function
        .p2align 4
dlsym:
        stp     x29, x30, [sp, #-32]!
        mov     x29, sp
        stp     x0, x1, [sp, #16]
        adrp    x9, gpumemtrace_real_dlsym
        ldr     x9, [x9, #:lo12:gpumemtrace_real_dlsym]
        cbnz    x9, 1f
        bl      gpumemtrace_find_real_dlsym
        ldp     x0, x1, [sp, #16]
1:      bl      gpumemtrace_answer_dlsym
        cbz     x1, 2f
        ldp     x29, x30, [sp], #32
        ret
2:      ldp     x0, x1, [sp, #16]
        ldp     x29, x30, [sp], #32
        adrp    x9, gpumemtrace_real_dlsym
        ldr     x9, [x9, #:lo12:gpumemtrace_real_dlsym]
        cbz     x9, 3f
        br      x9
3:      mov     x0, xzr // the process has no dlsym
        ret
        .size   dlsym, .-dlsym

        .globl  dlvsym
        .type   dlvsym, %function
        .p2align 4
dlvsym:
        stp     x29, x30, [sp, #-48]!
        mov     x29, sp
        stp     x0, x1, [sp, #16]
        str     x2, [sp, #32]
        adrp    x9, gpumemtrace_real_dlvsym
        ldr     x9, [x9, #:lo12:gpumemtrace_real_dlvsym]
        cbnz    x9, 1f
        bl      gpumemtrace_find_real_dlsym
        ldp     x0, x1, [sp, #16]
1:      bl      gpumemtrace_answer_dlvsym
        cbz     x1, 2f
        ldp     x29, x30, [sp], #48
        ret
2:      ldr     x2, [sp, #32]
        ldp     x0, x1, [sp, #16]
        ldp     x29, x30, [sp], #48
        adrp    x9, gpumemtrace_real_dlvsym
        ldr     x9, [x9, #:lo12:gpumemtrace_real_dlvsym]
        br      x9
        .size   dlvsym, .-dlvsym

#endif
        .section .note.GNU-stack, "", %progbits
