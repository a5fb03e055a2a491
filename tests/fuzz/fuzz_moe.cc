// The maps of one rank's alltoallv_dedup call, and the lists of rows that ranks
// send each other for a plan. A map or list is refused, or every index that is
// derived of it lies in the buffers of its size.
//
// The input: what it is (odd: lists), the nodes, lanes, tokens and experts, the
// rank, then positions of one byte each.
#include "moe/index_maps.h"

#include <absl/strings/string_view.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace {

using namespace distwrap::moe;

void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "broken: %s\n", what);
  std::abort();
}

class Input {
 public:
  Input(const uint8_t* data, size_t size) : data_(data), size_(size) {}
  int below(int most) {
    if (size_ == 0) return 0;
    --size_;
    return *data_++ % most;
  }
  // Mostly small positions; -1, below it and far away, too.
  int32_t position() {
    const int byte = below(256);
    return byte == 255 ? INT32_MAX : byte == 254 ? INT32_MIN : byte % 32 - 2;
  }

 private:
  const uint8_t* data_;
  size_t size_;
};

// Terms of a program lie in the own input, or among rows that were kept.
void judge(const Program& program, int64_t kept, int64_t own) {
  require(program.slots.size() == program.terms.size(),
          "each term has a slot, or none");
  for (const dw_moe_term& term : program.terms)
    require(term.row >= 0 && term.from != DW_MOE_FROM_RANKS &&
                term.row < (term.from == DW_MOE_FROM_IN ? own : kept),
            "a term lies in its buffer");
}

void judge(const PlanParts& parts, const Moves& moves) {
  const Moves::Delivery& delivery = moves.delivery;
  for (const int32_t row : delivery.give)
    require(
        row < 0 ? ~row < moves.first.received() : row < parts.routing.tokens,
        "a row that is given is a token, or came by the first hop");
  require(delivery.place_first.size() == parts.layout.row_token.size() + 1,
          "each row of the layout has places");
  for (const int32_t place : delivery.place)
    require(place >= 0 && place < parts.layout.rows, "a place is a row");
  SumScratch scratch;
  Program program;
  const SumInput input = parts.sum_input();
  sum_buckets(input, moves, &scratch, &program);
  judge(program, 0, parts.layout.rows);
  sum_lanes(input, moves, &scratch, &program);
  judge(program, moves.second.sent(), parts.layout.rows);
}

void read_as_maps(Input& input, const MapShape& shape, int rank,
                  PlanParts* parts) {
  const auto positions = [&](int64_t count) {
    std::vector<int32_t> map;
    for (int64_t i = 0; i < count; ++i) map.push_back(input.position());
    return map;
  };
  const int64_t tokens = shape.tokens;
  const std::vector<int32_t> send = positions(shape.nodes * tokens),
                             forward = positions(int64_t{shape.lanes} *
                                                 shape.nodes * tokens),
                             recv = positions(int64_t{shape.experts} *
                                              shape.ranks() * tokens);
  const MapViews maps{send.data(), forward.data(), recv.data()};
  if (!check_maps(maps, shape).empty()) return;
  read_maps(maps, shape, rank, parts);
  const auto rows = std::count_if(recv.begin(), recv.end(),
                                  [](int32_t one) { return one >= 0; });
  require(parts->layout.rows == rows, "one output row for each position");
  Moves moves;
  if (move_by_node(parts->forward, parts->forwarded.lists(), parts->layout,
                   parts->topology, rank, &parts->scratch, &moves))
    judge(*parts, moves);
}

void read_as_lists(Input& input, int sources, PlanParts* parts) {
  std::vector<int64_t> rows, pairs;
  for (int s = 0; s < sources; ++s) {
    rows.push_back(input.below(4));
    pairs.push_back(rows.back() + input.below(4));
  }
  parts->inbound.resize(rows, pairs);
  Lists& lists = parts->inbound.lists();
  for (std::vector<int32_t>* one : {&lists.row_token, &lists.row_pairs,
                                    &lists.pair_bucket, &lists.pair_slot})
    for (int32_t& number : *one) number = input.position();
  for (int s = 0; s < sources; ++s)
    if (!parts->inbound.check(s, parts->routing.tokens, 4, parts->buckets())
             .empty())
      return;
  parts->form.alignment = 1 + input.below(3);
  parts->form.expert_capacity = input.below(3);
  std::vector<int64_t> dropped;
  parts->judge(&dropped);
  parts->lay_out();
  const Layout& layout = parts->layout;
  for (const int32_t place : layout.place)
    require(place >= 0 && place < layout.rows, "a row has a place");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Input input(data, size);
  const bool lists = input.below(2) == 1;
  const MapShape shape{1 + input.below(3), 1 + input.below(3),
                       1 + input.below(5), 1 + input.below(3)};
  const int ranks = shape.ranks(), rank = input.below(ranks);
  PlanParts parts;
  std::vector<int32_t> node_of;
  for (int r = 0; r < ranks; ++r) node_of.push_back(r / shape.lanes);
  parts.rank = rank;
  parts.topology = Topology(node_of);
  parts.experts = Experts(int64_t{ranks} * shape.experts, ranks, {});
  parts.form.expert_major = true;
  parts.routing.tokens = shape.tokens;
  parts.routing.slots = 1;
  if (lists)
    read_as_lists(input, ranks, &parts);
  else
    read_as_maps(input, shape, rank, &parts);
  return 0;
}
