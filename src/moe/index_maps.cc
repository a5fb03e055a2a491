#include "moe/index_maps.h"

#include <absl/strings/str_cat.h>

namespace distwrap::moe {
namespace {

// Appends a row of positions: one for each token that `wants`, in order.
template <class Wants>
void append_row(int64_t tokens, std::vector<int32_t>* out, const Wants& wants) {
  int32_t next = 0;
  for (int64_t t = 0; t < tokens; ++t) out->push_back(wants(t) ? next++ : -1);
}

std::string check_rows(const char* name, const int32_t* map, int64_t rows,
                       int64_t tokens) {
  for (int64_t row = 0; row < rows; ++row) {
    int32_t next = 0;
    for (int64_t t = 0; t < tokens; ++t) {
      const int32_t position = map[row * tokens + t];
      if (position == -1) continue;
      if (position != next)
        return absl::StrCat(name, " has ", position, " at row ", row,
                            ", position ", t, " in place of ", next);
      ++next;
    }
  }
  return {};
}

void clear(Lists* lists) {
  lists->row_first.assign(1, 0);
  lists->pair_first.assign(1, 0);
  lists->row_token.clear();
  lists->row_pairs.clear();
  lists->pair_bucket.clear();
  lists->pair_slot.clear();
}

void close_rank(Lists* lists) {
  lists->row_first.push_back(static_cast<int64_t>(lists->row_token.size()));
  lists->pair_first.push_back(static_cast<int64_t>(lists->pair_bucket.size()));
}

// Adds the tokens with a position in one of `count` rows, `step` apart; the
// rows are their "buckets".
void add_tokens(const int32_t* map, int64_t count, int64_t step, int64_t tokens,
                Lists* lists) {
  for (int64_t t = 0; t < tokens; ++t) {
    int32_t pairs = 0;
    for (int64_t row = 0; row < count; ++row) {
      if (map[row * step + t] < 0) continue;
      lists->pair_bucket.push_back(static_cast<int32_t>(row));
      lists->pair_slot.push_back(0);
      ++pairs;
    }
    if (pairs == 0) continue;
    lists->row_token.push_back(static_cast<int32_t>(t));
    lists->row_pairs.push_back(pairs);
  }
}

}  // namespace

template <class Id>
void make_maps(const Id* ids, int64_t slots, const MapShape& shape, int rank,
               std::vector<int32_t>* send, std::vector<int32_t>* forward,
               std::vector<int32_t>* recv) {
  const int64_t tokens = shape.tokens;
  const int node = rank / shape.lanes, lane = rank % shape.lanes;
  const int64_t experts = int64_t{shape.ranks()} * shape.experts;
  // Whether a token of a rank wants an expert among `first` to `last` - 1.
  const auto wants = [&](int source, int64_t t, int64_t first, int64_t last) {
    const Id* const id = ids + (source * tokens + t) * slots;
    for (int64_t k = 0; k < slots; ++k)
      if (id[k] >= 0 && id[k] < experts && id[k] >= first && id[k] < last)
        return true;
    return false;
  };
  const int64_t of_node = int64_t{shape.lanes} * shape.experts;
  send->clear();
  forward->clear();
  recv->clear();
  for (int n = 0; n < shape.nodes; ++n)
    append_row(tokens, send, [&](int64_t t) {
      return wants(rank, t, n * of_node, (n + 1) * of_node);
    });
  for (int d = 0; d < shape.lanes; ++d)
    for (int n = 0; n < shape.nodes; ++n) {
      const int64_t to = int64_t{node} * shape.lanes + d;
      append_row(tokens, forward, [&](int64_t t) {
        return wants(n * shape.lanes + lane, t, to * shape.experts,
                     (to + 1) * shape.experts);
      });
    }
  for (int b = 0; b < shape.experts; ++b)
    for (int s = 0; s < shape.ranks(); ++s) {
      const int64_t expert = int64_t{rank} * shape.experts + b;
      append_row(tokens, recv,
                 [&](int64_t t) { return wants(s, t, expert, expert + 1); });
    }
}

template void make_maps(const int32_t*, int64_t, const MapShape&, int,
                        std::vector<int32_t>*, std::vector<int32_t>*,
                        std::vector<int32_t>*);
template void make_maps(const int64_t*, int64_t, const MapShape&, int,
                        std::vector<int32_t>*, std::vector<int32_t>*,
                        std::vector<int32_t>*);

std::string check_maps(const MapViews& maps, const MapShape& shape) {
  std::string wrong =
      check_rows("send_indices", maps.send, shape.nodes, shape.tokens);
  if (wrong.empty())
    wrong = check_rows("forward_indices", maps.forward,
                       int64_t{shape.lanes} * shape.nodes, shape.tokens);
  if (wrong.empty())
    wrong = check_rows("recv_indices", maps.recv,
                       int64_t{shape.experts} * shape.ranks(), shape.tokens);
  return wrong;
}

void write_maps(const PlanParts& parts, const MapShape& shape,
                std::vector<int32_t>* send, std::vector<int32_t>* forward,
                std::vector<int32_t>* recv) {
  const auto tokens = static_cast<size_t>(shape.tokens);
  const auto ranks = static_cast<size_t>(shape.ranks());
  const auto nodes = static_cast<size_t>(shape.nodes);
  const auto lanes = static_cast<size_t>(shape.lanes);
  send->assign(nodes * tokens, -1);
  forward->assign(lanes * nodes * tokens, -1);
  recv->assign(static_cast<size_t>(shape.experts) * ranks * tokens, -1);
  // The next position in each row of a map.
  std::vector<int32_t> next;
  const auto put = [&](std::vector<int32_t>* map, size_t row, int32_t token) {
    (*map)[row * tokens + static_cast<size_t>(token)] = next[row]++;
  };
  const Lists& out = parts.forward;
  next.assign(nodes, 0);
  for (size_t p = 0; p < ranks; ++p)
    for (int64_t i = out.row_first[p]; i < out.row_first[p + 1]; ++i)
      put(send, p / lanes, out.row_token[static_cast<size_t>(i)]);
  const Lists& in = parts.forwarded.lists();
  next.assign(lanes * nodes, 0);
  size_t pair = 0;
  for (size_t s = 0; s < ranks; ++s)
    for (int64_t i = in.row_first[s]; i < in.row_first[s + 1]; ++i)
      for (int32_t j = in.row_pairs[static_cast<size_t>(i)]; j > 0; --j)
        put(forward,
            static_cast<size_t>(in.pair_bucket[pair++]) * nodes + s / lanes,
            in.row_token[static_cast<size_t>(i)]);
  const Layout& layout = parts.layout;
  next.assign(static_cast<size_t>(shape.experts) * ranks, 0);
  for (size_t s = 0; s < ranks; ++s)
    for (int64_t i = layout.row_first[s]; i < layout.row_first[s + 1]; ++i)
      for (int64_t j = layout.pair_row_first[static_cast<size_t>(i)];
           j < layout.pair_row_first[static_cast<size_t>(i) + 1]; ++j)
        put(recv,
            static_cast<size_t>(layout.pair_bucket[static_cast<size_t>(j)]) *
                    ranks +
                s,
            layout.row_token[static_cast<size_t>(i)]);
}

void read_maps(const MapViews& maps, const MapShape& shape, int rank,
               PlanParts* parts) {
  const int64_t tokens = shape.tokens;
  const int node = rank / shape.lanes, lane = rank % shape.lanes;
  const int64_t of_lane =
      shape.nodes * tokens;  // positions of a lane in forward_indices
  const int32_t* const of_node = maps.forward + node * tokens;
  clear(&parts->own);
  clear(&parts->forward);
  Lists& forwarded = parts->forwarded.lists();
  Lists& inbound = parts->inbound.lists();
  clear(&forwarded);
  clear(&inbound);
  for (int r = 0; r < shape.ranks(); ++r) {
    const int n = r / shape.lanes;
    if (n == node)  // tokens that this rank hands to a rank of its node
      add_tokens(of_node + (r % shape.lanes) * of_lane, 1, 0, tokens,
                 &parts->own);
    if (r == rank)
      add_tokens(of_node, shape.lanes, of_lane, tokens, &parts->forward);
    else if (r % shape.lanes == lane)
      add_tokens(maps.send + n * tokens, 1, 0, tokens, &parts->forward);
    if (r % shape.lanes == lane)
      add_tokens(maps.forward + n * tokens, shape.lanes, of_lane, tokens,
                 &forwarded);
    add_tokens(maps.recv + r * tokens, shape.experts, shape.ranks() * tokens,
               tokens, &inbound);
    for (Lists* lists : {&parts->own, &parts->forward, &forwarded, &inbound})
      close_rank(lists);
  }
  parts->inbound.keep_everything();
  parts->lay_out();
}

}  // namespace distwrap::moe
