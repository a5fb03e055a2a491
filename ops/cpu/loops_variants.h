// Headers that all variants of the loops share. Each variant is compiled in a
// namespace of its own, under a pragma that allows more instructions for the
// code behind it. Everything that is shared with other files, above all the
// standard library, is included here, before the pragma: a linker keeps one
// copy of an inline function, and that copy has to run everywhere.
#ifndef DISTWRAP_OPS_CPU_LOOPS_VARIANTS_H_
#define DISTWRAP_OPS_CPU_LOOPS_VARIANTS_H_

#include "cpu/loops.h"
#include "cpu/vector_math.h"
#include "sdk/half.h"

#include <cmath>
#include <concepts>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace distwrap::cpu {

extern const Loops kLoopsPortable, kLoopsAvx2, kLoopsAvx512;

}  // namespace distwrap::cpu

#if defined(__clang__)
#define DW_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define DW_INDEPENDENT _Pragma("GCC ivdep")
#endif

#endif  // DISTWRAP_OPS_CPU_LOOPS_VARIANTS_H_
