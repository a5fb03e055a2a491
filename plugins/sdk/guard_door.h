/* The door that a session closes against direct calls of other communication
 * libraries (docs/guard.md). libdistwrap_guard.so, which is preloaded, has the
 * door; libdistwrap.so finds it by the name of its only exported function.
 *
 * Threads: any. Ownership: the door is constant and never unloaded. */
#ifndef DISTWRAP_SDK_GUARD_DOOR_H_
#define DISTWRAP_SDK_GUARD_DOOR_H_

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Raised by every change of the struct. */
#define DW_GUARD_DOOR_VERSION 2

#define DW_DOOR_OPEN 0
#define DW_DOOR_WARN 1  /* calls pass; each name and module is told once */
#define DW_DOOR_BLOCK 2 /* calls are refused */

/* A guarded function. */
typedef struct dw_guarded_call {
  const char* name;
  const char* library; /* "NCCL" */
  const char* instead; /* "distwrap_all_reduce" */
  uint64_t refused;    /* calls refused, or told of, so far */
} dw_guarded_call;

typedef struct dw_guard_door {
  uint32_t version;    /* DW_GUARD_DOOR_VERSION */
  uint32_t calls;      /* number of guarded functions */
  const char* release; /* the version of distwrap, such as "0.1.0" */
  /* Closes or opens the door for the process. */
  void (*set)(int32_t mode);
  /* Adds to the number of allow scopes of the calling thread: 1 or -1. */
  void (*scope)(int32_t change);
  /* Lets the module that contains an address make calls. */
  void (*exempt_module_of)(const void* address);
  /* Lets the modules make calls whose file names begin so. */
  void (*exempt_name)(const char* prefix);
  /* Calls pass of threads for which the function answers 1: those that are
   * inside distwrap, whose engine calls below it. NULL: none. */
  void (*set_inside)(int32_t (*is_inside)(void));
  /* The number of calls refused, or told of, so far. */
  uint64_t (*refusals)(void);
  /* Reads one of the guarded functions. */
  void (*read)(uint32_t index, dw_guarded_call* call);
} dw_guard_door;

/* The function's name carries no version: a door of another one is found and
 * named. */
#define DW_GUARD_DOOR_NAME "distwrap_guard_door"
typedef const dw_guard_door* (*dw_guard_door_fn)(void);

#ifdef __cplusplus
}
#endif

#endif /* DISTWRAP_SDK_GUARD_DOOR_H_ */
