#include "bench/moe/fabric.h"

#include <algorithm>
#include <queue>
#include <utility>

namespace distwrap::bench {
namespace {

size_t at(int64_t i) { return static_cast<size_t>(i); }

// Pieces of a pair of ranks where there are few, and one where there are many:
// the time of a run grows with their number.
int pieces_of(int ranks) { return ranks <= 64 ? 4 : ranks <= 128 ? 2 : 1; }

}  // namespace

Fabric::Fabric(const MoeGrid& grid, const MoeLinks& links, int64_t row_bytes)
    : grid_(grid),
      links_(links),
      row_bytes_(static_cast<double>(row_bytes)),
      pieces_(pieces_of(grid.ranks())) {}

int Fabric::put(int from, int to, double rows, bool first) {
  if (from == to || rows <= 0) return -1;
  const double speed = between_nodes(from, to) ? links_.net : links_.local;
  all_.push_back({.from = from,
                  .to = to,
                  .us = rows * row_bytes_ / speed / 1e3,
                  .first = first});
  return static_cast<int>(all_.size()) - 1;
}

void Fabric::add(int from, int to, int64_t rows) {
  for (int p = 0; p < pieces_; ++p)
    put(from, to, static_cast<double>(rows) / pieces_, true);
}

void Fabric::add_forwarded(int from, int forwarder, int64_t rows,
                           absl::Span<const int32_t> members,
                           absl::Span<const int64_t> onward) {
  for (int p = 0; p < pieces_; ++p) {
    const int came =
        put(from, forwarder, static_cast<double>(rows) / pieces_, true);
    for (size_t i = 0; i < members.size(); ++i) {
      const int next = put(forwarder, members[i],
                           static_cast<double>(onward[i]) / pieces_, came < 0);
      if (came >= 0 && next >= 0) all_[at(came)].hands_on.push_back(next);
    }
  }
}

double Fabric::limit_us() const {
  std::vector<double> busy(at(4 * grid_.ranks()), 0);
  for (const Piece& piece : all_) {
    const int kind = between_nodes(piece.from, piece.to) ? 0 : 2;
    busy[at(4 * piece.from + kind)] += piece.us;
    busy[at(4 * piece.to + kind + 1)] += piece.us;
  }
  return busy.empty() ? 0 : *std::max_element(busy.begin(), busy.end());
}

double Fabric::run_us() {
  const int ranks = grid_.ranks();
  // By kind of link and sender: the pieces that are ready, by receiver, of
  // which the one behind the sender is the first.
  std::vector<std::vector<std::vector<int>>> ready[2];
  for (auto& of_kind : ready) of_kind.resize(at(ranks));
  std::vector<double> out_free[2], in_free[2];
  std::vector<int> waiting[2], next[2];
  for (int kind : {0, 1}) {
    for (auto& of_sender : ready[kind]) of_sender.resize(at(ranks));
    out_free[kind].assign(at(ranks), 0);
    in_free[kind].assign(at(ranks), 0);
    waiting[kind].assign(at(ranks), 0);
    for (int r = 0; r < ranks; ++r) next[kind].push_back((r + 1) % ranks);
  }
  const auto kind_of = [&](const Piece& piece) {
    return between_nodes(piece.from, piece.to) ? 0 : 1;
  };
  const auto offer = [&](int number) {
    const Piece& piece = all_[at(number)];
    const int kind = kind_of(piece);
    ready[kind][at(piece.from)][at(piece.to)].push_back(number);
    ++waiting[kind][at(piece.from)];
  };
  for (size_t i = all_.size(); i-- > 0;)
    if (all_[i].first) offer(static_cast<int>(i));

  struct Event {
    double us;
    int piece;
    // The piece is at its receiver, a hop after its end; else links are free.
    bool lands;
    bool operator<(const Event& other) const { return us > other.us; }
  };
  std::priority_queue<Event> events;
  events.push({0, -1, false});
  double last = 0;
  while (!events.empty()) {
    const double now = events.top().us;
    while (!events.empty() && events.top().us <= now) {
      const Event event = events.top();
      events.pop();
      if (!event.lands) continue;
      last = std::max(last, now);
      for (const int number : all_[at(event.piece)].hands_on) offer(number);
    }
    for (const int kind : {0, 1})
      for (int s = 0; s < ranks; ++s) {
        if (waiting[kind][at(s)] == 0 || out_free[kind][at(s)] > now) continue;
        for (int i = 0; i < ranks; ++i) {
          const int r = (next[kind][at(s)] + i) % ranks;
          std::vector<int>& pieces = ready[kind][at(s)][at(r)];
          if (pieces.empty() || in_free[kind][at(r)] > now) continue;
          const int number = pieces.back();
          pieces.pop_back();
          --waiting[kind][at(s)];
          const double end = now + all_[at(number)].us;
          out_free[kind][at(s)] = in_free[kind][at(r)] = end;
          next[kind][at(s)] = (r + 1) % ranks;
          events.push({end, number, false});
          events.push({end + links_.hop_us, number, true});
          break;
        }
      }
  }
  return last;
}

}  // namespace distwrap::bench
