// SPDX-License-Identifier: Apache-2.0
// Binds the libc functions whose default version is newer than glibc 2.28 to their oldest version,
// so that one build runs on every glibc from 2.28 on. Include it before use, in every file of
// preload/ that calls one of them. tests/end_to_end/binary_test.py checks the result. Functions
// that glibc 2.28 has in another file than libc.so.6 are in preload/loader/lazy_symbols.hpp.
//
// musl ends a program in which a preloaded library asks for a function that musl does not have.
// fcntl is here because headers of glibc 2.28 and later turn fcntl into fcntl64, which musl lacks.
#pragma once

#if defined(__x86_64__)
#define GPUMEMTRACE_OLDEST_GLIBC "GLIBC_2.2.5"
#elif defined(__aarch64__)
#define GPUMEMTRACE_OLDEST_GLIBC "GLIBC_2.17"
#else
#error "gpumemtrace supports x86-64 and 64-bit Arm"
#endif

extern "C" int gpumemtrace_libc_fcntl(int descriptor, int command, ...);
__asm__(".symver gpumemtrace_libc_fcntl,fcntl@" GPUMEMTRACE_OLDEST_GLIBC);
