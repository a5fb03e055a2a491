// Every guarded function of MPI by its name, as the program links it.
#include "mpi_functions.h"

#include <dlfcn.h>

#define NCCL(symbol)
#define UCX(symbol)
#define GLOO(symbol)

extern "C" {
#define MPI(symbol)                                                        \
  [[gnu::weak]] int symbol(Word, Word, Word, Word, Word, Word, Word, Word, \
                           Word, Word);
#define DW_GUARDED(symbol, library, instead) library(symbol)
#include "guard/guarded_calls.def"
#undef MPI
}

std::vector<MpiFunction> mpi_functions() {
  std::vector<MpiFunction> all = {
#define MPI(symbol) {#symbol, &symbol},
#define DW_GUARDED(symbol, library, instead) library(symbol)
#include "guard/guarded_calls.def"
  };
  // The door alone has those that this MPI lacks: a program cannot be linked
  // with them.
  for (MpiFunction& one : all)
    if (one.function == nullptr)
      one.function = reinterpret_cast<decltype(one.function)>(
          dlsym(RTLD_DEFAULT, one.name));
  return all;
}
