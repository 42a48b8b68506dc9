// SPDX-License-Identifier: Apache-2.0
/* For musl: threads, look-ups, children and replacement of the program, with what each answers.
   Called with a number, it only exits with that. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

extern char** environ;

static void* same(void* argument) { return argument; }

static void show_threads(void) {
  pthread_t thread;
  void* result = NULL;
  pthread_create(&thread, NULL, same, &thread);
  pthread_join(thread, &result);
  printf("thread %d\n", result == &thread);
}

static void show_look_ups(void) {
  void* program = dlopen(NULL, RTLD_NOW);
  printf("found %d %d\n", dlsym(program, "puts") != NULL, dlsym(RTLD_NEXT, "puts") != NULL);
  printf("missing %d\n", dlsym(program, "of_nobody") == NULL);
  printf("%s\n", dlerror());
  printf("close %d\n", dlclose(program));
}

static void show_end_of(const char* how, pid_t child) {
  int status = 0;
  waitpid(child, &status, 0);
  printf("%s %d\n", how, WEXITSTATUS(status));
  fflush(stdout);
}

static void show_children(char** words) {
  pid_t child = fork();
  if (child == 0) _exit(3);
  show_end_of("fork", child);
  child = fork();
  if (child == 0) exit(4);
  show_end_of("fork", child);
  words[1] = "5";
  child = vfork();
  if (child == 0) {
    execv(words[0], words);
    _exit(127);
  }
  show_end_of("vfork", child);
  words[1] = "6";
  posix_spawn(&child, words[0], NULL, NULL, words, environ);
  show_end_of("spawn", child);
  printf("system %d\n", WEXITSTATUS(system("exit 7")));
}

int main(int count, char** arguments) {
  char* words[] = {arguments[0], NULL, NULL};
  if (count > 1) return atoi(arguments[1]);
  show_threads();
  show_look_ups();
  fflush(stdout);
  show_children(words);
  fflush(stdout);
  words[1] = "8";
  execvp(words[0], words);
  return 1;
}
