// Binds the few libc functions whose default version is newer than glibc 2.28 to their oldest
// version, so that one build runs on every glibc from 2.28 on. Include it before use, in every file
// of preload/ that calls one of them. tests/end_to_end/binary_test checks the result.
//
// Before glibc 2.34 most of these functions live in libdl and libpthread. Their references are weak
// and no such library is a dependency: a CUDA program has both loaded, and a program without them
// never gets to the code that calls them.
//
// musl ends a program in which a preloaded library asks for a function that musl does not have.
// fcntl is here because headers of glibc 2.28 and later make fcntl64 of it, which is such a one.
#pragma once

#include <dlfcn.h>
#include <pthread.h>

#include <cstddef>

#if defined(__x86_64__)
#define GPUMEMTRACE_OLDEST_GLIBC "GLIBC_2.2.5"
#elif defined(__aarch64__)
#define GPUMEMTRACE_OLDEST_GLIBC "GLIBC_2.17"
#else
#error "gpumemtrace supports x86-64 and 64-bit Arm"
#endif

#define GPUMEMTRACE_BIND(function) \
  __asm__(".symver gpumemtrace_libc_" #function "," #function "@" GPUMEMTRACE_OLDEST_GLIBC)

extern "C" {
int gpumemtrace_libc_fcntl(int descriptor, int command, ...);
[[gnu::weak]] void* gpumemtrace_libc_dlopen(const char* file, int mode);
[[gnu::weak]] char* gpumemtrace_libc_dlerror();
[[gnu::weak]] int gpumemtrace_libc_pthread_attr_init(pthread_attr_t* attributes);
[[gnu::weak]] int gpumemtrace_libc_pthread_attr_destroy(pthread_attr_t* attributes);
[[gnu::weak]] int gpumemtrace_libc_pthread_attr_getstacksize(const pthread_attr_t* attributes,
                                                             std::size_t* bytes);
[[gnu::weak]] int gpumemtrace_libc_pthread_attr_setstacksize(pthread_attr_t* attributes,
                                                             std::size_t bytes);
[[gnu::weak]] int gpumemtrace_libc_pthread_create(pthread_t* thread,
                                                  const pthread_attr_t* attributes,
                                                  void* (*start)(void*), void* argument);
[[gnu::weak]] int gpumemtrace_libc_pthread_detach(pthread_t thread);
[[gnu::weak]] int gpumemtrace_libc_pthread_key_create(pthread_key_t* key,
                                                      void (*destructor)(void*));
[[gnu::weak]] int gpumemtrace_libc_pthread_setspecific(pthread_key_t key, const void* value);
}
GPUMEMTRACE_BIND(fcntl);
GPUMEMTRACE_BIND(dlopen);
GPUMEMTRACE_BIND(dlerror);
GPUMEMTRACE_BIND(pthread_attr_init);
GPUMEMTRACE_BIND(pthread_attr_destroy);
GPUMEMTRACE_BIND(pthread_attr_getstacksize);
GPUMEMTRACE_BIND(pthread_attr_setstacksize);
GPUMEMTRACE_BIND(pthread_create);
GPUMEMTRACE_BIND(pthread_detach);
GPUMEMTRACE_BIND(pthread_key_create);
GPUMEMTRACE_BIND(pthread_setspecific);
