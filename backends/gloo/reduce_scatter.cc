// Every rank sends each other rank the block that is that rank's, and reduces
// what arrives in the order of the ranks: one step, (n-1)/n of the input on the
// wire, and the same bits whichever rank and time.
//
// Blocks travel in segments, so that one segment is reduced while the next
// arrives, and the scratch memory stays small.
#include "backend.h"
#include "run.h"
#include "sdk/fail.h"

#include <algorithm>
#include <memory>
#include <vector>

namespace gloo_backend {
namespace {

constexpr size_t kSegmentBytes = size_t{256} * 1024;

class Scratch {
 public:
  Scratch(const dw_host_api* host, size_t bytes)
      : host_(host),
        memory_(static_cast<char*>(host->scratch_alloc(host->self, bytes))) {}
  ~Scratch() {
    if (memory_ != nullptr) host_->scratch_free(host_->self, memory_);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  char* memory() const { return memory_; }

 private:
  const dw_host_api* const host_;
  char* const memory_;
};

using Buffer = std::unique_ptr<gloo::transport::UnboundBuffer>;

class Exchange {
 public:
  Exchange(dw_comm* comm, const Call& call, char* scratch, size_t segment)
      : comm_(comm),
        call_(call),
        others_(static_cast<size_t>(comm->size - 1)),
        block_(call.out_bytes),
        segment_(segment),
        reduce_(comm->host->reduce_kernel(comm->host->self, call.dtype,
                                          call.reduce)),
        sent_(comm->mesh->createUnboundBuffer(const_cast<char*>(call.in),
                                              call.in_bytes)) {
    for (size_t half = 0; half < 2; ++half)
      halves_[half] = comm->mesh->createUnboundBuffer(
          scratch + half * others_ * segment, others_ * segment);
  }

  void run() {
    const size_t segments = (block_ + segment_ - 1) / segment_;
    receive(0);
    for (size_t s = 0; s < segments; ++s) send(s);
    for (size_t s = 0; s < segments; ++s) {
      if (s + 1 < segments) receive(s + 1);
      for (size_t i = 0; i < others_; ++i) halves_[s % 2]->waitRecv();
      reduce(s);
    }
    for (size_t i = 0; i < others_ * segments; ++i) sent_->waitSend();
  }

 private:
  size_t length(size_t s) const {
    return std::min(segment_, block_ - s * segment_);
  }

  // Peers in the order in which they are next to this rank, so that not
  // everybody begins with the same one.
  int other(size_t i) const {
    return (comm_->rank + 1 + static_cast<int>(i)) % comm_->size;
  }

  size_t place(int peer) const {
    return static_cast<size_t>(peer < comm_->rank ? peer : peer - 1) * segment_;
  }

  void send(size_t s) {
    for (size_t i = 0; i < others_; ++i)
      sent_->send(other(i), exchange_slot(call_),
                  static_cast<size_t>(other(i)) * block_ + s * segment_,
                  length(s));
  }

  void receive(size_t s) {
    for (size_t i = 0; i < others_; ++i)
      halves_[s % 2]->recv(other(i), exchange_slot(call_), place(other(i)),
                           length(s));
  }

  // The part of rank r: the own one lies in the input, which stays as it is,
  // the others in scratch, where the sum grows until it goes to the output.
  const char* part(int r, size_t s) const {
    return r == comm_->rank
               ? call_.in + static_cast<size_t>(r) * block_ + s * segment_
               : scratch(r, s);
  }
  char* scratch(int r, size_t s) const {
    return static_cast<char*>(halves_[s % 2]->ptr) + place(r);
  }

  void reduce(size_t s) {
    const uint64_t count = length(s) / call_.element;
    const int last = comm_->size - 1;
    const char* sum = part(0, s);
    for (int r = 1; r <= last; ++r) {
      // In place the output is the own part: nobody may write it before it was
      // read, and that is so when it comes last.
      char* const to = r == last          ? call_.out + s * segment_
                       : r == comm_->rank ? scratch(r - 1, s)
                                          : scratch(r, s);
      reduce_(to, sum, part(r, s), count);
      sum = to;
    }
  }

  dw_comm* const comm_;
  const Call& call_;
  const size_t others_;
  const size_t block_;
  const size_t segment_;
  const dw_reduce_fn reduce_;
  const Buffer sent_;
  Buffer halves_[2];
};

}  // namespace

int32_t reduce_scatter(dw_comm* comm, const Call& call, dw_error* error) {
  const size_t segment = std::min(kSegmentBytes, call.out_bytes);
  const Scratch scratch(comm->host,
                        2 * static_cast<size_t>(comm->size - 1) * segment);
  if (scratch.memory() == nullptr)
    return dw_fail(error, DW_RESOURCE_EXHAUSTED, DW_REASON_OUT_OF_MEMORY, -1, 0,
                   "gloo: no scratch memory for reduce_scatter");
  Exchange(comm, call, scratch.memory(), segment).run();
  return DW_OK;
}

}  // namespace gloo_backend
