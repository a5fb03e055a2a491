// The guarded functions of MPI, to be called with one word as every argument.
#ifndef DISTWRAP_TESTS_GUARD_MPI_FUNCTIONS_H_
#define DISTWRAP_TESTS_GUARD_MPI_FUNCTIONS_H_

#include <cstdint>
#include <vector>

using Word = intptr_t;

struct MpiFunction {
  const char* name;
  int (*function)(Word, Word, Word, Word, Word, Word, Word, Word, Word, Word);

  int operator()(Word word) const {
    return function(word, word, word, word, word, word, word, word, word, word);
  }
};

std::vector<MpiFunction> mpi_functions();

#endif  // DISTWRAP_TESTS_GUARD_MPI_FUNCTIONS_H_
