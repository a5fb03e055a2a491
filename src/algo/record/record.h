// The decorator that records all operations that pass through `submit`.
//
// It is a table like any backend's, over another one; the further tables in
// `inner` are for the `open` of that one. The hint "trace", the path of the
// file, belongs to this decorator and is not passed on. The file has lines of
// JSON:
//
//   {"group": "00c0ffee", "comm": 1, "rank": 0, "size": 2}
//   {"comm": 1, "op": "all_reduce", "seq": 1, "dtype": "f32", "reduce": "sum",
//    "in": 4, "out": 4, "set": 0, "answer": 0}
//
// The first line is for a new communicator; the others are for operations, in
// the order in which they were passed down: "root" and "peer" are ranks of the
// group, "in" and "out" count elements, "set" counts calls of submit_group, and
// "answer" is the result code. An operation that was answered with DW_AGAIN is
// left out, because it comes again. A start of a prepared operation is written
// as that operation. Windows and registered memory are not passed down.
//
// Threads: as dw_backend_api says; the decorator adds no rule.
// Ownership: the inner table outlives the backend, which is closed with it.
#ifndef DISTWRAP_SRC_ALGO_RECORD_RECORD_H_
#define DISTWRAP_SRC_ALGO_RECORD_RECORD_H_

#include "distwrap/abi/plugin.h"

namespace distwrap::algo {

inline constexpr char kTraceHint[] = "trace";

const dw_backend_api& record_api();

}  // namespace distwrap::algo

#endif  // DISTWRAP_SRC_ALGO_RECORD_RECORD_H_
