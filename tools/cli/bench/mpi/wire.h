// The messages between a rank of the benchmark and its MPI process, over a
// local socket: a request, then its reply, one at a time.
//
// The MPI process knows nothing about distwrap: it includes this file and
// mpi.h.
#ifndef DISTWRAP_TOOLS_CLI_BENCH_MPI_WIRE_H_
#define DISTWRAP_TOOLS_CLI_BENCH_MPI_WIRE_H_

#include <cstdint>

namespace distwrap::bench::mpi {

enum class Ask : int32_t {
  kPin,      // a cpu_set_t follows
  kPrepare,  // counts, input and an unwritten output follow; the reply is kNone
             // when there is no such call
  kRepeat,   // `times` calls
  kTimed,    // `times` batches; the reply has the time of each, int64_t ns
  kSpoil,    // makes the output look unwritten again
  kFetch,    // the reply has the output
  kDrop,
};

struct Request {
  Ask ask = Ask::kDrop;
  int32_t id = 0;  // number of a prepared call
  // kPrepare
  char op[24] = {};
  char dtype[8] = {};
  char reduce[16] = {};
  int32_t root = 0;
  int32_t depth = 1;   // puts before a flush
  int32_t counts = 0;  // 0, or the number of ranks whose counts follow
  int64_t in_count = 0;
  int64_t out_count = 0;
  int64_t block = 0;
  int64_t width = 0;  // bytes of an element
  // kRepeat, kTimed
  int64_t times = 0;
  int64_t batch = 1;
  int64_t start_at = 0;  // CLOCK_MONOTONIC, ns
  int64_t payload = 0;   // bytes that follow
};

enum class Answer : int32_t { kDone, kNone, kFailed };

struct Reply {
  Answer answer = Answer::kDone;
  int32_t unused = 0;
  int64_t payload = 0;  // bytes that follow; for kFailed, the text
};

// The first message of an MPI process.
struct Hello {
  int32_t rank = -1;
  int32_t ranks = 0;
  char library[256] = {};
};

}  // namespace distwrap::bench::mpi

#endif  // DISTWRAP_TOOLS_CLI_BENCH_MPI_WIRE_H_
