#include "messages.h"

#include "conformance/linked.h"
#include "fakes/compose_over.h"
#include "host.h"

#include <cstdio>
#include <sched.h>
#include <string>

namespace distwrap::ucx_test {
namespace {

constexpr int64_t kMinute = 60'000'000'000;

dw_op op_of(uint16_t kind, int peer, const Bytes& data) {
  dw_op op = {};
  op.struct_size = sizeof op;
  op.kind = kind;
  op.peer = peer;
  op.tag = 3;
  dw_buf& buf = kind == DW_OP_SEND ? op.in : op.out;
  buf.data = const_cast<unsigned char*>(data.data());
  buf.count = static_cast<int64_t>(data.size());
  buf.dtype = {1, 8, 1};
  op.timeout_ns = kMinute;
  return op;
}

int32_t run(Rank& rank, dw_op op, dw_error* error) {
  op.flags = DW_FLAG_CALLER_WAITS;
  return rank.api.submit(rank.comm, &op, nullptr, error);
}

}  // namespace

const dw_backend_api& ucx() {
  return fakes::table_of<dw_plugin_query_v1_ucx>();
}

std::vector<dw_hint> host_of_its_own(int rank) {
  static const char* const kNames[] = {"a", "b", "c", "d"};
  return {{{"host", 4}, {kNames[rank % 4], 1}}};
}

int32_t send(Rank& rank, int peer, const Bytes& data, dw_error* error) {
  return run(rank, op_of(DW_OP_SEND, peer, data), error);
}

int32_t receive(Rank& rank, int peer, Bytes& data, dw_error* error) {
  return run(rank, op_of(DW_OP_RECV, peer, data), error);
}

Bytes data_of(int rank, size_t bytes, int round) {
  Bytes data(bytes);
  for (size_t i = 0; i < bytes; ++i)
    data[i] = static_cast<unsigned char>(
        i * 7 + i / 251 + static_cast<size_t>(rank * 31 + round));
  return data;
}

// A failed step of an exchange, with its facts.
int failed(int step, size_t bytes, const dw_error& error) {
  std::fprintf(stderr, "step %d of %zu bytes: %d %s\n", step, bytes, error.code,
               error.text);
  return step;
}

int exchange(Rank& rank) {
  const int next = (rank.rank + 1) % rank.size;
  const int previous = (rank.rank + rank.size - 1) % rank.size;
  int round = 0;
  for (const size_t bytes :
       {0u, 1u, 8u, 511u, 512u, 8000u, 9000u, 70'000u, 600'000u, 5'000'000u}) {
    ++round;
    // First with a work, then with waiting callers in turn.
    const Bytes mine = data_of(rank.rank, bytes, round);
    Bytes theirs(bytes, 0xee);
    const Bytes right = data_of(previous, bytes, round);
    const dw_op in = op_of(DW_OP_RECV, previous, theirs);
    const dw_op out = op_of(DW_OP_SEND, next, mine);
    dw_work received, sent;
    dw_error error = {};
    const int32_t began = rank.api.submit(rank.comm, &in, &received, &error);
    if (began > DW_OK) return failed(1, bytes, error);
    const int32_t begun = rank.api.submit(rank.comm, &out, &sent, &error);
    if (begun > DW_OK) return failed(2, bytes, error);
    if (began == DW_OK &&
        (!received.wait(std::chrono::seconds(60)) || received.code() != DW_OK))
      return failed(3, bytes, received.error());
    if (begun == DW_OK &&
        (!sent.wait(std::chrono::seconds(60)) || sent.code() != DW_OK))
      return failed(4, bytes, sent.error());
    if (theirs != right) return 5;
    theirs.assign(bytes, 0xee);
    for (const bool sends : {rank.rank % 2 == 0, rank.rank % 2 != 0})
      if ((sends ? send(rank, next, mine, &error)
                 : receive(rank, previous, theirs, &error)) != DW_DONE)
        return failed(6, bytes, error);
    if (theirs != right) return 7;
  }
  return 0;
}

void meet(Rank& rank, int word) {
  std::atomic<int>& here = rank.words[word];
  ++here;
  while (here.load() < rank.size) sched_yield();
}

}  // namespace distwrap::ucx_test
