// SPDX-License-Identifier: Apache-2.0
// The static zstd library has a multi-threaded mode, which we never use but which asks for thread
// functions whose symbol versions are newer than the oldest glibc that we run on. The functions
// below replace them inside this library only: they fail, so zstd could never start a thread.
#include <pthread.h>

#define HIDDEN __attribute__((visibility("hidden")))

HIDDEN int pthread_create(pthread_t* thread, const pthread_attr_t* attributes,
                          void* (*start)(void*), void* argument) {
  (void)thread;
  (void)attributes;
  (void)start;
  (void)argument;
  return 1;
}

HIDDEN int pthread_join(pthread_t thread, void** result) {
  (void)thread;
  (void)result;
  return 1;
}
