#include "bench/plans/moves.h"

#include "bench/turns.h"
#include "distwrap/distwrap.h"
#include "distwrap/redistribute.h"

#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_split.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <functional>
#include <utility>

namespace distwrap::bench {
namespace {

using Floats = std::vector<float>;

// A square matrix whose side is a multiple of the number of ranks.
struct Matrix {
  int64_t ranks = 1, block = 1;  // rows of a rank
  int64_t side() const { return ranks * block; }
  std::vector<int64_t> shape() const { return {side(), side()}; }
  int64_t part() const { return block * side(); }  // elements of a cut part
  int64_t whole() const { return side() * side(); }
};

size_t at(int64_t i) { return static_cast<size_t>(i); }

// Copies blocks of `block` columns between rows of a whole side and blocks that
// lie one behind the other.
void pack(const Matrix& m, const float* rows, float* blocks) {
  for (int64_t to = 0; to < m.ranks; ++to)
    for (int64_t i = 0; i < m.block; ++i, blocks += m.block)
      memcpy(blocks, rows + i * m.side() + to * m.block,
             at(m.block) * sizeof(float));
}
void unpack(const Matrix& m, const float* blocks, float* rows) {
  for (int64_t from = 0; from < m.ranks; ++from)
    for (int64_t i = 0; i < m.block; ++i, blocks += m.block)
      memcpy(rows + i * m.side() + from * m.block, blocks,
             at(m.block) * sizeof(float));
}

// A move, and what a program writes for it by hand. `spare` is a buffer of the
// program.
struct Move {
  const char *from, *to, *by_hand;
  absl::Status (*hand)(const Matrix&, Floats& in, Floats& spare, Floats& out);
};

constexpr Move kMoves[] = {
    {"S(0)", "S(1)", "pack, all_to_all_single",
     [](const Matrix& m, Floats& in, Floats& spare, Floats& out) {
       pack(m, in.data(), spare.data());
       return all_to_all_single(TensorView(out),
                                TensorView(spare.data(), m.part()))
           .status();
     }},
    {"S(1)", "S(0)", "all_to_all_single, unpack",
     [](const Matrix& m, Floats& in, Floats& spare, Floats& out) {
       absl::Status status =
           all_to_all_single(TensorView(spare.data(), m.part()), TensorView(in))
               .status();
       unpack(m, spare.data(), out.data());
       return status;
     }},
    {"S(0)", "R", "all_gather_into_tensor",
     [](const Matrix&, Floats& in, Floats&, Floats& out) {
       return all_gather_into_tensor(TensorView(out), TensorView(in)).status();
     }},
    {"S(1)", "R", "all_gather_into_tensor, unpack",
     [](const Matrix& m, Floats& in, Floats& spare, Floats& out) {
       absl::Status status =
           all_gather_into_tensor(TensorView(spare.data(), m.whole()),
                                  TensorView(in))
               .status();
       // The columns of one rank after those of another.
       const float* columns = spare.data();
       for (int64_t from = 0; from < m.ranks; ++from)
         for (int64_t i = 0; i < m.side(); ++i, columns += m.block)
           memcpy(out.data() + i * m.side() + from * m.block, columns,
                  at(m.block) * sizeof(float));
       return status;
     }},
    {"P(sum)", "S(0)", "reduce_scatter_tensor",
     [](const Matrix&, Floats& in, Floats&, Floats& out) {
       return reduce_scatter_tensor(TensorView(out), TensorView(in),
                                    ReduceOp::kSum)
           .status();
     }},
    {"P(sum)", "R", "all_reduce",
     [](const Matrix&, Floats& in, Floats&, Floats& out) {
       return all_reduce(TensorView(out), TensorView(in), ReduceOp::kSum)
           .status();
     }},
};

int64_t elements(const Matrix& m, absl::string_view layout) {
  return layout[0] == 'S' ? m.part() : m.whole();
}

// Calls in a block, so that it takes some milliseconds.
int calls_for(int64_t bytes) {
  return static_cast<int>(
      std::clamp(int64_t{8 << 20} / std::max<int64_t>(bytes, 1), int64_t{2},
                 int64_t{200}));
}

// Fills in the times, and whether the elements are equal on all ranks.
absl::Status conclude(const std::vector<std::vector<double>>& times,
                      bool is_equal, MoveCost* cost) {
  cost->plan_us = median(times[0]);
  cost->hand_us = median(times[1]);
  cost->ratio = paired_ratio(times[0], times[1]);
  int32_t wrong = is_equal ? 0 : 1;
  const absl::Status status =
      all_reduce(TensorView(&wrong, 1), ReduceOp::kMax).status();
  cost->equal = wrong == 0;
  return status;
}

absl::StatusOr<MoveCost> measure(const DeviceMesh& mesh, const Move& move,
                                 const Matrix& m, int rounds) {
  const auto from = Layout::parse(mesh.shape(), move.from);
  const auto to = Layout::parse(mesh.shape(), move.to);
  if (!from.ok()) return from.status();
  if (!to.ok()) return to.status();
  Floats in(at(elements(m, move.from))), planned(at(elements(m, move.to))),
      by_hand(planned.size()), spare(std::max(in.size(), planned.size()));
  for (size_t i = 0; i < in.size(); ++i)
    in[i] = static_cast<float>((i + at(mesh.rank()) * 31) % 1009);
  const std::vector<int64_t> shape = m.shape();
  const Timed contestants[] = {
      [&] {
        return redistribute(mesh, TensorView(planned), **to, TensorView(in),
                            **from, shape);
      },
      [&] { return move.hand(m, in, spare, by_hand); }};
  MoveCost cost;
  cost.from = move.from;
  cost.to = move.to;
  cost.by_hand = move.by_hand;
  cost.bytes = static_cast<int64_t>(std::max(in.size(), planned.size())) *
               static_cast<int64_t>(sizeof(float));
  const auto times = take_turns(contestants, rounds, calls_for(cost.bytes));
  if (!times.ok()) return times.status();
  if (absl::Status status = conclude(*times, planned == by_hand, &cost);
      !status.ok())
    return status;
  return cost;
}

// As many tensors as share the bytes of one, in one call or in a call each.
constexpr int kTensors = 64;

absl::StatusOr<MoveCost> measure_many(const DeviceMesh& mesh, Matrix m,
                                      int rounds) {
  const auto from = Layout::parse(mesh.shape(), "S(0)");
  const auto to = Layout::parse(mesh.shape(), "S(1)");
  if (!from.ok()) return from.status();
  if (!to.ok()) return to.status();
  // A tensor's part has an eighth of the rows and of the columns.
  m.block = std::max<int64_t>(1, m.block / 8);
  const std::vector<std::vector<int64_t>> shapes(kTensors, m.shape());
  Floats in(at(kTensors * m.part())), together(in.size()),
      one_by_one(in.size());
  for (size_t i = 0; i < in.size(); ++i)
    in[i] = static_cast<float>((i + at(mesh.rank()) * 31) % 1009);
  const auto parts = [&](Floats& values) {
    std::vector<TensorView> views;
    for (int t = 0; t < kTensors; ++t)
      views.push_back(TensorView(values).flat(t * m.part(), m.part()));
    return views;
  };
  const std::vector<TensorView> ins = parts(in), outs = parts(together),
                                others = parts(one_by_one);
  const Timed contestants[] = {
      [&] { return redistribute_many(mesh, outs, **to, ins, **from, shapes); },
      [&] {
        absl::Status status;
        for (size_t t = 0; status.ok() && t < ins.size(); ++t)
          status =
              redistribute(mesh, others[t], **to, ins[t], **from, shapes[t]);
        return status;
      }};
  MoveCost cost;
  cost.from = absl::StrCat(kTensors, " times S(0)");
  cost.to = "S(1)";
  cost.by_hand = "redistribute for each";
  cost.bytes = static_cast<int64_t>(in.size() * sizeof(float));
  const auto times = take_turns(contestants, rounds, calls_for(cost.bytes));
  if (!times.ok()) return times.status();
  if (absl::Status status = conclude(*times, together == one_by_one, &cost);
      !status.ok())
    return status;
  return cost;
}

}  // namespace

absl::Status measure_moves(const std::string& backend,
                           absl::Span<const int64_t> sizes, int rounds,
                           const std::string& path) {
  const absl::StatusOr<Session> session =
      init_process_group({.backend = backend});
  if (!session.ok()) return session.status();
  const auto mesh = DeviceMesh::create({.sizes = {get_world_size()}});
  if (!mesh.ok()) return mesh.status();
  std::vector<MoveCost> moves;
  for (const int64_t bytes : sizes) {
    Matrix m{.ranks = get_world_size()};
    // A cut part has block * ranks * block elements.
    m.block = std::max<int64_t>(
        1, std::llround(std::sqrt(static_cast<double>(bytes) / sizeof(float) /
                                  static_cast<double>(m.ranks))));
    for (const Move& move : kMoves) {
      absl::StatusOr<MoveCost> cost = measure(*mesh, move, m, rounds);
      if (!cost.ok()) return cost.status();
      moves.push_back(*std::move(cost));
    }
    absl::StatusOr<MoveCost> cost = measure_many(*mesh, m, rounds);
    if (!cost.ok()) return cost.status();
    moves.push_back(*std::move(cost));
  }
  if (get_rank() == 0) std::ofstream(path) << write_moves(moves);
  return destroy_process_group();
}

std::string write_moves(absl::Span<const MoveCost> moves) {
  std::string text;
  for (const MoveCost& one : moves)
    absl::StrAppend(&text, one.from, "\t", one.to, "\t", one.by_hand, "\t",
                    one.bytes, "\t", one.plan_us, "\t", one.hand_us, "\t",
                    one.ratio.median, "\t", one.ratio.low, "\t", one.ratio.high,
                    "\t", one.equal ? 1 : 0, "\n");
  return text;
}

absl::StatusOr<std::vector<MoveCost>> read_moves(absl::string_view text) {
  std::vector<MoveCost> moves;
  for (const absl::string_view line :
       absl::StrSplit(text, '\n', absl::SkipEmpty())) {
    const std::vector<std::string> words = absl::StrSplit(line, '\t');
    MoveCost one;
    int equal = 0;
    if (words.size() != 10 || !absl::SimpleAtoi(words[3], &one.bytes) ||
        !absl::SimpleAtod(words[4], &one.plan_us) ||
        !absl::SimpleAtod(words[5], &one.hand_us) ||
        !absl::SimpleAtod(words[6], &one.ratio.median) ||
        !absl::SimpleAtod(words[7], &one.ratio.low) ||
        !absl::SimpleAtod(words[8], &one.ratio.high) ||
        !absl::SimpleAtoi(words[9], &equal))
      return absl::DataLossError("the ranks reported no times");
    one.from = words[0];
    one.to = words[1];
    one.by_hand = words[2];
    one.equal = equal != 0;
    moves.push_back(std::move(one));
  }
  if (!moves.empty()) return moves;
  return absl::DataLossError("the ranks reported no times");
}

}  // namespace distwrap::bench
