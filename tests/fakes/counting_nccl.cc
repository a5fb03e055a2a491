// A libnccl.so.2 that counts the calls of each function that communicates, for
// tests of who may call them.
#include <cstring>

extern "C" {
#define EXPORT __attribute__((visibility("default")))
#define MPI(symbol)
#define UCX(symbol)
#define GLOO(symbol)

#define NCCL(symbol) int calls_of_##symbol = 0;
#define DW_GUARDED(symbol, library, instead) library(symbol)
#include "guard/guarded_calls.def"
#undef NCCL

#define NCCL(symbol)                                              \
  EXPORT int symbol(void*, void*, long, int, int, void*, void*) { \
    ++calls_of_##symbol;                                          \
    return 0;                                                     \
  }
#define DW_GUARDED(symbol, library, instead) library(symbol)
#include "guard/guarded_calls.def"
#undef NCCL

// Teardown and queries are no communication.
EXPORT int ncclCommDestroy(void*) { return 0; }
EXPORT int ncclCommCount(void*, int* count) {
  *count = 1;
  return 0;
}

// The calls of a function so far.
EXPORT int counted_calls(const char* name) {
#define NCCL(symbol) \
  if (std::strcmp(name, #symbol) == 0) return calls_of_##symbol;
#define DW_GUARDED(symbol, library, instead) library(symbol)
#include "guard/guarded_calls.def"
#undef NCCL
  return -1;
}
}
