#include "moe/inbound.h"

#include <absl/strings/str_cat.h>

#include <algorithm>

namespace distwrap::moe {
namespace {

size_t at(int64_t i) { return static_cast<size_t>(i); }

void add_up(absl::Span<const int64_t> counts, std::vector<int64_t>* first) {
  first->resize(counts.size() + 1);
  (*first)[0] = 0;
  for (size_t i = 0; i < counts.size(); ++i)
    (*first)[i + 1] = (*first)[i] + counts[i];
}

}  // namespace

void Inbound::resize(absl::Span<const int64_t> rows,
                     absl::Span<const int64_t> pairs) {
  add_up(rows, &lists_.row_first);
  add_up(pairs, &lists_.pair_first);
  lists_.row_token.resize(at(lists_.rows()));
  lists_.row_pairs.resize(at(lists_.rows()));
  lists_.pair_bucket.resize(at(lists_.pairs()));
  lists_.pair_slot.resize(at(lists_.pairs()));
}

std::string Inbound::check(int source, int64_t tokens, int64_t slots,
                           int64_t buckets) const {
  const auto s = at(source);
  int64_t pair = lists_.pair_first[s];
  const int64_t end = lists_.pair_first[s + 1];
  int32_t token = -1;
  for (int64_t i = lists_.row_first[s]; i < lists_.row_first[s + 1]; ++i) {
    if (lists_.row_token[at(i)] <= token || lists_.row_token[at(i)] >= tokens)
      return absl::StrCat("row ", i - lists_.row_first[s], " names token ",
                          lists_.row_token[at(i)]);
    token = lists_.row_token[at(i)];
    const int64_t pairs = lists_.row_pairs[at(i)];
    if (pairs < 1 || pairs > end - pair)
      return absl::StrCat("row ", i - lists_.row_first[s], " has ", pairs,
                          " pairs");
    int32_t bucket = -1;
    for (const int64_t last = pair + pairs; pair < last; ++pair) {
      if (lists_.pair_bucket[at(pair)] <= bucket ||
          lists_.pair_bucket[at(pair)] >= buckets ||
          lists_.pair_slot[at(pair)] < 0 || lists_.pair_slot[at(pair)] >= slots)
        return absl::StrCat("pair ", pair - lists_.pair_first[s],
                            " has bucket ", lists_.pair_bucket[at(pair)],
                            " and slot ", lists_.pair_slot[at(pair)]);
      bucket = lists_.pair_bucket[at(pair)];
    }
  }
  if (pair != end) return absl::StrCat(end - pair, " pairs belong to no row");
  return {};
}

Needed Inbound::keep(const Form& form, int64_t buckets,
                     std::vector<int64_t>* dropped) {
  kept_.assign(at(lists_.pairs()), 1);
  counts_.assign(at(buckets), 0);
  Needed needed;
  // First what everything would need.
  for (const int32_t bucket : lists_.pair_bucket) ++counts_[at(bucket)];
  for (const int64_t count : counts_) {
    needed.expert = std::max(needed.expert, count);
    if (form.expert_major) needed.rows += form.aligned(count);
  }
  if (!form.expert_major) needed.rows = lists_.rows();
  if (form.expert_major && form.fixed_bases)
    needed.rows = buckets * form.aligned(needed.expert);
  if (!form.has_capacity()) return needed;

  counts_.assign(at(buckets), 0);
  const int64_t by_expert =
      form.expert_capacity > 0 ? form.expert_capacity : INT64_MAX;
  const int64_t by_rows = form.row_capacity > 0 ? form.row_capacity : INT64_MAX;
  const auto drop = [&](int64_t pair) {
    kept_[at(pair)] = 0;
    ++(*dropped)[at(lists_.pair_bucket[at(pair)])];
  };
  int64_t rows = 0;
  bool full = false;  // the budget of padded rows of expert-major order
  int64_t pair = 0;
  for (int64_t i = 0; i < lists_.rows(); ++i) {
    const int64_t first = pair, last = pair + lists_.row_pairs[at(i)];
    int64_t stay = 0;
    for (; pair < last; ++pair) {
      int64_t& count = counts_[at(lists_.pair_bucket[at(pair)])];
      const bool opens = form.expert_major && count % form.alignment == 0;
      if (count >= by_expert) {
        drop(pair);
        continue;
      }
      if (form.expert_major && opens && !form.fixed_bases &&
          rows + form.alignment > by_rows)
        full = true;
      if (full) {
        drop(pair);
        continue;
      }
      if (opens) rows += form.alignment;
      ++count;
      ++stay;
    }
    if (form.expert_major || stay == 0) continue;
    if (rows < by_rows) {
      ++rows;
      continue;
    }
    for (int64_t j = first; j < last; ++j)
      if (kept_[at(j)] != 0) drop(j);
  }
  return needed;
}

void Inbound::lay_out(const Form& form, int64_t buckets, Layout* out) {
  const auto sources = lists_.row_first.size() - 1;
  const auto is_kept = [&](int64_t pair) {
    return kept_.empty() || kept_[at(pair)] != 0;
  };
  out->counts.assign(at(buckets), 0);
  out->row_first.assign(1, 0);
  out->pair_first.assign(1, 0);
  out->row_token.clear();
  out->pair_row_first.assign(1, 0);
  out->pair_bucket.clear();
  out->pair_slot.clear();
  int64_t pair = 0;
  for (size_t s = 0; s < sources; ++s) {
    for (int64_t i = lists_.row_first[s]; i < lists_.row_first[s + 1]; ++i) {
      for (const int64_t last = pair + lists_.row_pairs[at(i)]; pair < last;
           ++pair) {
        if (!is_kept(pair)) continue;
        ++out->counts[at(lists_.pair_bucket[at(pair)])];
        out->pair_bucket.push_back(lists_.pair_bucket[at(pair)]);
        out->pair_slot.push_back(lists_.pair_slot[at(pair)]);
      }
      const auto pairs = static_cast<int64_t>(out->pair_bucket.size());
      if (pairs == out->pair_row_first.back()) continue;
      out->pair_row_first.push_back(pairs);
      out->row_token.push_back(lists_.row_token[at(i)]);
    }
    out->row_first.push_back(static_cast<int64_t>(out->row_token.size()));
    out->pair_first.push_back(static_cast<int64_t>(out->pair_bucket.size()));
  }

  // The first output row of each bucket.
  out->offsets.assign(1, 0);
  for (const int64_t count : out->counts)
    out->offsets.push_back(
        out->offsets.back() +
        form.aligned(form.fixed_bases ? form.expert_capacity : count));
  const auto rows = static_cast<int64_t>(out->row_token.size());
  out->rows = form.expert_major ? out->offsets.back() : rows;
  out->capacity_rows = form.row_capacity > 0 ? form.row_capacity
                       : form.expert_major && form.expert_capacity > 0
                           ? buckets * form.aligned(form.expert_capacity)
                           : out->rows;
  out->src_rank.assign(at(std::max(out->rows, out->capacity_rows)), -1);
  out->src_token.assign(out->src_rank.size(), -1);

  out->place.clear();
  out->place_first.assign(1, 0);
  next_ = out->offsets;
  for (size_t s = 0; s < sources; ++s)
    for (int64_t i = out->row_first[s]; i < out->row_first[s + 1]; ++i) {
      const auto put = [&](int64_t row) {
        out->place.push_back(static_cast<int32_t>(row));
        out->src_rank[at(row)] = static_cast<int32_t>(s);
        out->src_token[at(row)] = out->row_token[at(i)];
      };
      if (!form.expert_major) {
        put(i);
      } else {
        for (int64_t j = out->pair_row_first[at(i)];
             j < out->pair_row_first[at(i) + 1]; ++j)
          put(next_[at(out->pair_bucket[at(j)])]++);
      }
      out->place_first.push_back(static_cast<int64_t>(out->place.size()));
    }
}

void drop_pairs(const Lists& all, absl::Span<const uint8_t> kept, Lists* left) {
  const auto ranks = all.row_first.size() - 1;
  left->row_first.assign(1, 0);
  left->pair_first.assign(1, 0);
  left->row_token.clear();
  left->row_pairs.clear();
  left->pair_bucket.clear();
  left->pair_slot.clear();
  int64_t pair = 0;
  for (size_t r = 0; r < ranks; ++r) {
    for (int64_t i = all.row_first[r]; i < all.row_first[r + 1]; ++i) {
      int32_t pairs = 0;
      for (const int64_t last = pair + all.row_pairs[at(i)]; pair < last;
           ++pair) {
        if (kept[at(pair)] == 0) continue;
        ++pairs;
        left->pair_bucket.push_back(all.pair_bucket[at(pair)]);
        left->pair_slot.push_back(all.pair_slot[at(pair)]);
      }
      if (pairs == 0) continue;
      left->row_token.push_back(all.row_token[at(i)]);
      left->row_pairs.push_back(pairs);
    }
    left->row_first.push_back(static_cast<int64_t>(left->row_token.size()));
    left->pair_first.push_back(static_cast<int64_t>(left->pair_bucket.size()));
  }
}

}  // namespace distwrap::moe
