// Ranks over the Gloo backend's table, and collectives of i32 with pieces of
// any size and place, checked element by element.
#ifndef DISTWRAP_TESTS_UNIT_GLOO_EXERCISE_H_
#define DISTWRAP_TESTS_UNIT_GLOO_EXERCISE_H_

#include "distwrap/abi/plugin.h"
#include "team.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace distwrap::gloo_test {

using conformance::Member;

const dw_backend_api& gloo();

// Runs `body` on every rank; findings fail the test.
void on_ranks(int size, const std::function<void(Member&)>& body);

dw_op op_of(uint16_t kind, uint64_t seq);
// A whole buffer of i32 or f32.
dw_buf buffer_of(std::vector<int32_t>& elements);
dw_buf buffer_of(std::vector<float>& elements);

// "" or the reason of a failure; with the caller waiting or not.
std::string run(Member& member, dw_op op, bool caller_waits);

// The layout of the ranks' pieces in a buffer.
enum class Lists {
  kEqual,   // equal sizes, without counts
  kPacked,  // different sizes, some of them 0
  kGaps,    // different sizes, in reverse order and with gaps
  kParts,   // different sizes, each in memory of its own
};

// A buffer with one piece for each rank.
class Pieces {
 public:
  Pieces() = default;
  Pieces(Lists lists, std::vector<int64_t> counts);

  dw_buf buffer();
  uint32_t flags() const;
  size_t count(int rank) const {
    return static_cast<size_t>(counts_[static_cast<size_t>(rank)]);
  }
  int32_t* at(int rank) { return pieces_[static_cast<size_t>(rank)]; }
  // Whether nothing beside the pieces was written.
  bool gaps_intact() const;

 private:
  Lists lists_ = Lists::kEqual;
  std::vector<int64_t> counts_, places_;
  std::vector<int32_t> memory_;
  std::vector<int32_t*> pieces_;
  std::vector<void*> parts_;
};

// One rank's part of one collective. Must not move, because ops point into it.
class Exercise {
 public:
  struct Plan {
    uint16_t kind = DW_OP_BARRIER;
    Lists lists = Lists::kEqual;
    int root = 0;
    int32_t salt = 0;  // makes the data of calls in flight together differ
    bool in_place = false;
    int64_t scale = 1;  // factor of all counts
  };

  Exercise(const Member& member, const Plan& plan);
  Exercise(const Exercise&) = delete;
  Exercise& operator=(const Exercise&) = delete;

  dw_op op(uint64_t seq);
  // "" or what is wrong with the output or the input.
  std::string wrong();

 private:
  bool brings_pieces() const;
  bool takes_pieces() const;
  bool takes() const;
  bool brings() const;
  int64_t count(int from, int to) const;
  int32_t value(int from, int to, size_t i) const;
  int32_t result(int from, size_t i) const;
  void fill_in();

  const Plan plan_;
  const int rank_, size_;
  Pieces in_pieces_, out_pieces_;
  std::vector<int32_t> in_, out_;
};

std::string name_of(const Exercise::Plan& plan);

// The collectives.
const std::vector<uint16_t>& collectives();
bool has_lists(uint16_t kind);
bool has_root(uint16_t kind);

}  // namespace distwrap::gloo_test

#endif  // DISTWRAP_TESTS_UNIT_GLOO_EXERCISE_H_
