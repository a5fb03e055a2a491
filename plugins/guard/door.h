// The rows of the guarded functions, and the decision for a call.
//
// Threads: any. Ownership: rows are constant in place.
#ifndef DISTWRAP_GUARD_DOOR_H_
#define DISTWRAP_GUARD_DOOR_H_

#include <atomic>
#include <cstdint>

namespace distwrap_guard {

enum class Library : uint8_t { NCCL, MPI, UCX, GLOO };

// The library's function for callers in one module, where it is not visible to
// the whole process.
struct LocalFunction {
  uintptr_t begin, end;  // the caller's module
  uint64_t generation;   // as modules.h counts, when it was found
  void* function;
  LocalFunction* next;
};

// A module for which a line about the function was written.
struct ToldModule {
  uint64_t module;  // a number for its file
  ToldModule* next;
};

struct Row {
  // The thunk reads the first two members. The library's function, once it is
  // known and the same for all callers:
  std::atomic<void*> function{nullptr};
  // The address to which the last exempt call returned.
  std::atomic<uintptr_t> exempt_caller{0};
  const char* name;
  Library library;
  const char* instead;
  std::atomic<uint64_t> refused{0};
  std::atomic<LocalFunction*> locals{nullptr};
  std::atomic<ToldModule*> told{nullptr};
  constexpr Row(const char* n, Library l, const char* i)
      : name(n), library(l), instead(i) {}
};

}  // namespace distwrap_guard

// Names that thunks.cc uses from assembly.
extern "C" {
// DW_DOOR_*.
extern std::atomic<int32_t> distwrap_guard_mode;
// The number of the thread's allow scopes.
extern thread_local int32_t distwrap_guard_scopes
    __attribute__((tls_model("initial-exec")));
#define DW_GUARDED(symbol, library, instead) \
  extern distwrap_guard::Row distwrap_guarded_##symbol;
#include "guard/guarded_calls.def"
// Where a call goes that would return to `caller`.
void* distwrap_guard_target(distwrap_guard::Row* row, const void* caller);
}

#endif  // DISTWRAP_GUARD_DOOR_H_
