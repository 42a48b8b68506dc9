/* SPDX-License-Identifier: Apache-2.0 */
/* Calls by which a program names its own steps and ranges for gpumemtrace. C and C++, this header
 * alone: nothing to link (before glibc 2.34: -ldl). In a process that does not run under gpumemtrace
 * every call does nothing, so the calls may stay in the program.
 *
 *   for (;;) {
 *     gpumemtrace_step();
 *     gpumemtrace_push("forward");
 *     ...
 *     gpumemtrace_pop();
 *   }
 *
 * All functions may be called from any thread and never fail. Names are UTF-8; they are copied, and
 * cut at 512 bytes. Calls before the first CUDA call are not kept, except for the number of steps,
 * for suppressions, and for the last of start and stop. */
#ifndef GPUMEMTRACE_H
#define GPUMEMTRACE_H

#include <dlfcn.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The function of the preloaded library; NULL if it is not there. Each call site asks once:
 * `known` holds the answer, `gpumemtrace_absent_` stands for NULL. */
static inline void gpumemtrace_absent_(void) {}

typedef void (*gpumemtrace_function_)(void);

static inline gpumemtrace_function_ gpumemtrace_find_(gpumemtrace_function_* known,
                                                      const char* name) {
  gpumemtrace_function_ function = __atomic_load_n(known, __ATOMIC_RELAXED);
  if (function == NULL) {
    void* found = dlsym(NULL, name); /* NULL is RTLD_DEFAULT, which C hides by default */
    __builtin_memcpy(&function, &found, sizeof function);
    if (function == NULL) function = gpumemtrace_absent_;
    __atomic_store_n(known, function, __ATOMIC_RELAXED);
  }
  return function == gpumemtrace_absent_ ? NULL : function;
}

/* A new step begins, for example one iteration of a training loop. */
static inline void gpumemtrace_step(void) {
  static gpumemtrace_function_ known;
  gpumemtrace_function_ function = gpumemtrace_find_(&known, "gpumemtrace_step");
  if (function != NULL) function();
}

/* Gives the present time a name. */
static inline void gpumemtrace_mark(const char* name) {
  static gpumemtrace_function_ known;
  gpumemtrace_function_ function = gpumemtrace_find_(&known, "gpumemtrace_mark");
  if (function != NULL) ((void (*)(const char*))function)(name);
}

/* As the name of a mark: memory allocated before it is no leak, such as memory that the first use of
 * a library keeps. The last of such marks counts. */
#define GPUMEMTRACE_LEAKS_FROM_HERE "gpumemtrace: leaks from here"

/* A range of the calling thread begins; it lasts until the matching gpumemtrace_pop. */
static inline void gpumemtrace_push(const char* name) {
  static gpumemtrace_function_ known;
  gpumemtrace_function_ function = gpumemtrace_find_(&known, "gpumemtrace_push");
  if (function != NULL) ((void (*)(const char*))function)(name);
}

/* The innermost range of the calling thread ends. */
static inline void gpumemtrace_pop(void) {
  static gpumemtrace_function_ known;
  gpumemtrace_function_ function = gpumemtrace_find_(&known, "gpumemtrace_pop");
  if (function != NULL) function();
}

/* The use of a storage of the framework. */
#define GPUMEMTRACE_PARAMETER 1
#define GPUMEMTRACE_GRADIENT 2
#define GPUMEMTRACE_OPTIMIZER_STATE 3
#define GPUMEMTRACE_BUFFER 4

/* The block of the framework's allocator that begins at `storage` and lives now holds a tensor of
 * this role, `bytes` long. `name` is that of the parameter or buffer, also for its gradient and its
 * state ("h.3.mlp.c_fc.weight"), `state` the optimizer's key of it ("exp_avg"), `layer` the classes
 * of its layer, outermost first ("GPT2 > Block > MLP"). Both may be NULL. A block may have several
 * names. Python has this as gpumemtrace.annotate(model, optimizer). */
static inline void gpumemtrace_tensor(const void* storage, size_t bytes, int role,
                                      const char* name, const char* state, const char* layer) {
  static gpumemtrace_function_ known;
  gpumemtrace_function_ function = gpumemtrace_find_(&known, "gpumemtrace_tensor");
  if (function != NULL) {
    ((void (*)(const void*, size_t, int, const char*, const char*, const char*))function)(
        storage, bytes, role, name, state, layer);
  }
}

/* Lets `gpumemtrace check` leave findings out: lines of a suppressions file, such as
 * "leak:^load_plugin$\ntransfer:legacy". The text is copied. */
static inline void gpumemtrace_suppress(const char* lines) {
  static gpumemtrace_function_ known;
  gpumemtrace_function_ function = gpumemtrace_find_(&known, "gpumemtrace_suppress");
  if (function != NULL) ((void (*)(const char*))function)(lines);
}

/* The same for a whole program or library, once in a source file, outside of functions. */
#define GPUMEMTRACE_SUPPRESSIONS(lines)                                             \
  __attribute__((constructor)) static void gpumemtrace_embedded_suppressions_(void) { \
    gpumemtrace_suppress(lines);                                                    \
  }                                                                                 \
  typedef int gpumemtrace_needs_semicolon_

/* Resumes and pauses the recording: as `gpumemtrace ctl PID start` and `stop`. */
static inline void gpumemtrace_start(void) {
  static gpumemtrace_function_ known;
  gpumemtrace_function_ function = gpumemtrace_find_(&known, "gpumemtrace_start");
  if (function != NULL) function();
}

static inline void gpumemtrace_stop(void) {
  static gpumemtrace_function_ known;
  gpumemtrace_function_ function = gpumemtrace_find_(&known, "gpumemtrace_stop");
  if (function != NULL) function();
}

#ifdef __cplusplus
}
#endif

#endif
