// SPDX-License-Identifier: Apache-2.0
// Called by two threads of a Python program: one waits without the GIL until the other, which holds
// the GIL, lets the first one free device memory.
#include <semaphore.h>

namespace {

struct Signal {
  sem_t semaphore;
  Signal() { sem_init(&semaphore, 0, 0); }
  void send() { sem_post(&semaphore); }
  void wait() {
    while (sem_wait(&semaphore) != 0) {
    }
  }
};

Signal ready;
Signal go;
Signal done;

}  // namespace

extern "C" {

[[gnu::visibility("default")]] void free_when_told(int (*free)(unsigned long long),
                                                   unsigned long long address) {
  ready.send();
  go.wait();
  free(address);
  done.send();
}

// Called without the GIL, which the other thread needs to reach free_when_told().
[[gnu::visibility("default")]] void wait_for_the_other() { ready.wait(); }

[[gnu::visibility("default")]] void let_free() {
  go.send();
  done.wait();
}

}  // extern "C"
