// Exchanges of rows (abi/moe.h) in checks.
#ifndef DISTWRAP_TESTS_CONFORMANCE_RUN_ROWS_H_
#define DISTWRAP_TESTS_CONFORMANCE_RUN_ROWS_H_

#include "team.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace distwrap::conformance {

// The operation whose rows `rows` lists, with counts in bytes by rank.
dw_op rows_op(const dw_ext* rows, const std::vector<int64_t>& in_counts,
              const std::vector<int64_t>& out_counts, uint64_t seq);

// Runs an operation to its end, in the call where `work` is null. DW_DONE, or
// the error.
int32_t run_rows(Member& member, dw_op op, dw_work* work, dw_error* error);

// Bytes in memory of the backend, or of the process.
class RowMemory {
 public:
  RowMemory(const Member& member, bool allocated, size_t bytes,
            unsigned char fill);
  ~RowMemory();
  RowMemory(const RowMemory&) = delete;
  RowMemory& operator=(const RowMemory&) = delete;
  unsigned char* data() { return data_; }
  const unsigned char* data() const { return data_; }
  size_t size() const { return bytes_; }
  unsigned char operator[](size_t i) const { return data_[i]; }

 private:
  const Member& member_;
  const size_t bytes_;
  dw_mem* memory_ = nullptr;
  std::unique_ptr<unsigned char[]> own_;
  unsigned char* data_ = nullptr;
};

// Whether a rank's inputs, and its outputs, are memory of the backend in the
// exchange with a seed: those of all ranks, of some, or of none.
inline bool allocates_inputs(uint64_t seed, int rank) {
  return seed % 4 == 1 || seed % 4 == 2 + static_cast<uint64_t>(rank) % 2;
}
inline bool allocates_outputs(uint64_t seed, int rank) {
  return seed % 4 == 1 || seed % 4 == 3 - static_cast<uint64_t>(rank) % 2;
}

// Runs an exchange of a shape, in the call and without waiting, and compares
// what came. `what` names it.
template <class Exchange, class Shape>
void run_exchange(Member& member, const Shape& shape, uint64_t seed,
                  const std::string& what) {
  for (const bool waits : {true, false}) {
    Exchange exchange(shape, member, seed);
    const dw_op op = exchange.op(member.next_seq++);
    dw_work work;
    dw_error error = {};
    const int32_t code = run_rows(member, op, waits ? nullptr : &work, &error);
    const std::string wrong = code == DW_DONE
                                  ? exchange.wrong(true)
                                  : "rows: " + error_text(code, error);
    if (!wrong.empty())
      member.find(what + (waits ? ": " : ", asynchronous: ") + wrong);
  }
}

// An exchange with one mistake is refused, and nothing is touched.
template <class Exchange, class Shape>
void refuse_exchange(Member& member, const Shape& shape, int32_t want,
                     const std::string& what,
                     void (*spoil)(Exchange&, dw_op&)) {
  Exchange exchange(shape, member, 0);
  dw_op op = exchange.op(member.next_seq);
  spoil(exchange, op);
  dw_work work;
  for (dw_work* const cell : {static_cast<dw_work*>(nullptr), &work}) {
    dw_error error = {};
    const int32_t code = run_rows(member, op, cell, &error);
    if (code != want)
      member.find(what + ": want code " + std::to_string(want) + ", got " +
                  error_text(code, error));
  }
  if (const std::string wrong = exchange.wrong(false); !wrong.empty())
    member.find(what + ": " + wrong);
}

}  // namespace distwrap::conformance

#endif  // DISTWRAP_TESTS_CONFORMANCE_RUN_ROWS_H_
