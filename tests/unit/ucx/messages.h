// Ranks as processes over ucx, and messages between them.
#ifndef DISTWRAP_TESTS_UNIT_UCX_MESSAGES_H_
#define DISTWRAP_TESTS_UNIT_UCX_MESSAGES_H_

#include "distwrap/abi/plugin.h"
#include "process_ranks.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace distwrap::ucx_test {

using conformance::Rank;

const dw_backend_api& ucx();

// Makes ucx consider each rank as on a host of its own.
std::vector<dw_hint> host_of_its_own(int rank);

using Bytes = std::vector<unsigned char>;

// The caller waits for a minute at most.
int32_t send(Rank& rank, int peer, const Bytes& data, dw_error* error);
int32_t receive(Rank& rank, int peer, Bytes& data, dw_error* error);

// The data that a rank sends in a round.
Bytes data_of(int rank, size_t bytes, int round);

// A ring of messages of all kinds of sizes, with and without a waiting caller;
// 0 when every byte is right.
int exchange(Rank& rank);

// Waits until all ranks have come.
void meet(Rank& rank, int word);

}  // namespace distwrap::ucx_test

#endif  // DISTWRAP_TESTS_UNIT_UCX_MESSAGES_H_
