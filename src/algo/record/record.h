// The decorator that writes down what passes `submit`.
//
// A table like any backend's, to be put over another one; what lies below that
// one follows it in `inner`, for its own `open`. The hint "trace", the path of
// the file, is this decorator's and not passed on. Lines of JSON:
//
//   {"group": "00c0ffee", "comm": 1, "rank": 0, "size": 2}
//   {"comm": 1, "op": "all_reduce", "seq": 1, "dtype": "f32", "reduce": "sum",
//    "in": 4, "out": 4, "set": 0, "answer": 0}
//
// the first for a communicator that was built, the others for operations, as
// they were handed down and in that order: "root" and "peer" are ranks of the
// group, "in" and "out" elements, "set" counts calls of submit_group, "answer"
// is the code. What was answered with DW_AGAIN is not there: it comes again.
// Windows, registered memory and plans are not handed on.
//
// Threads: as dw_backend_api says; adds no rule of its own.
// Ownership: the inner table outlives the backend, which is closed with it.
#ifndef DISTWRAP_SRC_ALGO_RECORD_RECORD_H_
#define DISTWRAP_SRC_ALGO_RECORD_RECORD_H_

#include "distwrap/abi/plugin.h"

namespace distwrap::algo {

inline constexpr char kTraceHint[] = "trace";

const dw_backend_api& record_api();

}  // namespace distwrap::algo

#endif  // DISTWRAP_SRC_ALGO_RECORD_RECORD_H_
