// The report of a backend on a receive whose message has another element type
// or count, as the error of both ranks shows it.
#ifndef DISTWRAP_SRC_COMM_MESSAGE_MISMATCH_H_
#define DISTWRAP_SRC_COMM_MESSAGE_MISMATCH_H_

#include "distwrap/abi/types.h"
#include "distwrap/status.h"

namespace distwrap::comm {

// Fills in both calls and both ranks, where `error` is of a message that
// differs from its receive (abi/types.h says how its text is made). `rank` is
// the rank that the backend told.
void name_both_calls(const dw_error& error, int rank, ErrorInfo* info);

}  // namespace distwrap::comm

#endif  // DISTWRAP_SRC_COMM_MESSAGE_MISMATCH_H_
