#include "moe/chunks.h"

#include "base/error.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

namespace distwrap::moe {
namespace {

size_t at(int64_t i) { return static_cast<size_t>(i); }

// A rank tells each other one before its chunks: the shape of its call,
// the ids that follow, and the fault that it found.
struct Announcement {
  int64_t chunks = 0, row = 0, dtype = 0, ids = 0;
  int32_t reason = 0;
  char text[100] = {};
};

// A fault that all ranks are told.
struct Fault {
  Reason reason = Reason::kNone;
  std::string text;
  void set(Reason why, std::string what) {
    if (reason != Reason::kNone) return;
    reason = why;
    text = std::move(what);
  }
};

struct Range {
  int64_t begin, count;  // elements
};

// The element ranges of all chunks, back to back; false: too large to count.
bool ranges_of(absl::Span<const int64_t> sizes, int64_t row,
               std::vector<Range>* ranges) {
  ranges->clear();
  int64_t begin = 0;
  for (const int64_t size : sizes) {
    int64_t count;
    if (__builtin_mul_overflow(size, row, &count)) return false;
    ranges->push_back({begin, count});
    if (__builtin_add_overflow(begin, count, &begin)) return false;
  }
  return true;
}

class Mover {
 public:
  explicit Mover(const Exchange& exchange)
      : exchange_(exchange), ranks_(exchange.size()) {}

  int ranks() const { return ranks_; }
  absl::Status announce(const Chunks& chunks, int64_t count,
                        const Fault& fault);
  // Tells what this rank found behind the announcements; all agree on it.
  absl::Status agree(const Fault& fault);
  // The ids that each rank sends to this one; `base(q)` is taken from an id for
  // rank q. Sizes of the dispatch go along.
  absl::Status exchange_ids(const Chunks& chunks, bool flat,
                            absl::Span<const int64_t> sizes, int64_t count);
  // Moves ranges of elements: those for each rank, into those of each rank.
  using Pieces = std::vector<std::vector<std::pair<uint8_t*, int64_t>>>;
  absl::Status move(const Pieces& from, const Pieces& to);

  const std::vector<std::vector<int64_t>>& ids() const { return ids_; }
  const std::vector<std::vector<int64_t>>& sizes() const { return sizes_; }

 private:
  absl::Status swap_bytes(const std::vector<int64_t>& give,
                          std::vector<uint8_t>& out,
                          const std::vector<int64_t>& get,
                          std::vector<uint8_t>* in);
  absl::Status told(Reason reason, const char* text, int rank) const {
    return exchange_.error({.reason = reason,
                            .what = text,
                            .ranks = {rank},
                            .next_step = "mend the call of that rank"});
  }

  const Exchange& exchange_;
  const int ranks_;
  std::vector<Announcement> all_;
  std::vector<std::vector<int64_t>> ids_, sizes_;  // by source
};

absl::Status Mover::swap_bytes(const std::vector<int64_t>& give,
                               std::vector<uint8_t>& out,
                               const std::vector<int64_t>& get,
                               std::vector<uint8_t>* in) {
  std::vector<int64_t> out_displs, in_displs;
  int64_t given = 0, got = 0;
  for (int r = 0; r < ranks_; ++r) {
    out_displs.push_back(given);
    in_displs.push_back(got);
    given += give[at(r)];
    got += get[at(r)];
  }
  in->resize(at(got));
  return exchange_
      .all_to_all({in->data(), get, in_displs}, {out.data(), give, out_displs},
                  kPlanTag, false)
      .status();
}

absl::Status Mover::announce(const Chunks& chunks, int64_t count,
                             const Fault& fault) {
  Announcement mine{.chunks = count,
                    .row = chunks.row,
                    .dtype = static_cast<int64_t>(chunks.dtype),
                    .reason = static_cast<int32_t>(fault.reason)};
  fault.text.copy(mine.text, sizeof mine.text - 1);
  std::vector<uint8_t> out(at(ranks_) * sizeof mine), in;
  for (int r = 0; r < ranks_; ++r) {
    mine.ids = fault.reason == Reason::kNone ? chunks.per_rank[at(r)] : 0;
    memcpy(out.data() + at(r) * sizeof mine, &mine, sizeof mine);
  }
  const std::vector<int64_t> each(at(ranks_), sizeof mine);
  if (absl::Status status = swap_bytes(each, out, each, &in); !status.ok())
    return status;
  all_.resize(at(ranks_));
  if (!in.empty()) memcpy(all_.data(), in.data(), in.size());
  for (int r = 0; r < ranks_; ++r) {
    all_[at(r)].text[sizeof mine.text - 1] = 0;
    if (all_[at(r)].reason != 0)
      return told(static_cast<Reason>(all_[at(r)].reason), all_[at(r)].text, r);
  }
  for (int r = 1; r < ranks_; ++r)
    if (all_[at(r)].chunks != all_[0].chunks ||
        all_[at(r)].row != all_[0].row || all_[at(r)].dtype != all_[0].dtype)
      return exchange_.error(
          {.reason = Reason::kCallMismatch,
           .what = "ranks move different numbers of chunks, rows or types",
           .ranks = {0, r},
           .expected = absl::StrCat(all_[0].chunks, " chunks of ", all_[0].row,
                                    " elements"),
           .actual = absl::StrCat(all_[at(r)].chunks, " chunks of ",
                                  all_[at(r)].row, " elements"),
           .next_step = "give equal shapes on all ranks"});
  return absl::OkStatus();
}

absl::Status Mover::exchange_ids(const Chunks& chunks, bool flat,
                                 absl::Span<const int64_t> sizes,
                                 int64_t count) {
  std::vector<int64_t> give, get;
  const auto with_sizes = static_cast<int64_t>(sizes.size());
  for (int r = 0; r < ranks_; ++r) {
    give.push_back(8 * (with_sizes + chunks.per_rank[at(r)]));
    get.push_back(8 * (with_sizes + std::max<int64_t>(all_[at(r)].ids, 0)));
  }
  std::vector<int64_t> out;
  size_t next = 0;
  for (int r = 0; r < ranks_; ++r) {
    out.insert(out.end(), sizes.begin(), sizes.end());
    for (int64_t k = 0; k < chunks.per_rank[at(r)]; ++k)
      out.push_back(chunks.ids[next++] - (flat ? r * count : 0));
  }
  std::vector<uint8_t> bytes(out.size() * 8 + 1), in;
  if (!out.empty()) memcpy(bytes.data(), out.data(), out.size() * 8);
  if (absl::Status status = swap_bytes(give, bytes, get, &in); !status.ok())
    return status;
  const uint8_t* from = in.data();
  ids_.clear();
  sizes_.clear();
  for (int r = 0; r < ranks_; ++r) {
    std::vector<int64_t> words(at(get[at(r)] / 8));
    if (!words.empty()) memcpy(words.data(), from, words.size() * 8);
    from += get[at(r)];
    sizes_.emplace_back(words.begin(), words.begin() + with_sizes);
    ids_.emplace_back(words.begin() + with_sizes, words.end());
  }
  return absl::OkStatus();
}

absl::Status Mover::agree(const Fault& fault) {
  Announcement mine{.reason = static_cast<int32_t>(fault.reason)};
  fault.text.copy(mine.text, sizeof mine.text - 1);
  std::vector<uint8_t> out(at(ranks_) * sizeof mine), in;
  for (int r = 0; r < ranks_; ++r)
    memcpy(out.data() + at(r) * sizeof mine, &mine, sizeof mine);
  const std::vector<int64_t> each(at(ranks_), sizeof mine);
  if (absl::Status status = swap_bytes(each, out, each, &in); !status.ok())
    return status;
  for (int r = 0; r < ranks_; ++r) {
    Announcement one;
    memcpy(&one, in.data() + at(r) * sizeof one, sizeof one);
    one.text[sizeof one.text - 1] = 0;
    if (one.reason != 0)
      return told(static_cast<Reason>(one.reason), one.text, r);
  }
  return absl::OkStatus();
}

absl::Status Mover::move(const Pieces& from, const Pieces& to) {
  std::vector<int64_t> give(at(ranks_)), get(at(ranks_));
  const auto add_up = [](const Pieces& pieces, std::vector<int64_t>* sums) {
    int64_t total = 0;
    for (size_t r = 0; r < pieces.size(); ++r)
      for (const auto& piece : pieces[r]) {
        (*sums)[r] += piece.second;
        total += piece.second;
      }
    return total;
  };
  std::vector<uint8_t> out(at(add_up(from, &give)) + 1), in;
  add_up(to, &get);
  uint8_t* next = out.data();
  for (const auto& pieces : from)
    for (const auto& [data, bytes] : pieces) {
      if (bytes > 0) memcpy(next, data, at(bytes));
      next += bytes;
    }
  if (absl::Status status = swap_bytes(give, out, get, &in); !status.ok())
    return status;
  const uint8_t* got = in.data();
  for (const auto& pieces : to)
    for (const auto& [data, bytes] : pieces) {
      if (bytes > 0) memcpy(data, got, at(bytes));
      got += bytes;
    }
  return absl::OkStatus();
}

// Sizes are not negative; ids are ascending inside a destination and in range.
void check(const Chunks& chunks, bool flat, int64_t count, Fault* fault) {
  for (size_t c = 0; c < chunks.sizes.size(); ++c)
    if (chunks.sizes[c] < 0)
      fault->set(Reason::kIndexMap,
                 absl::StrCat("input_split_sizes has ", chunks.sizes[c],
                              " at position ", c));
  size_t next = 0;
  for (size_t d = 0; d < chunks.per_rank.size(); ++d) {
    if (chunks.per_rank[d] < 0 ||
        at(chunks.per_rank[d]) > chunks.ids.size() - next)
      return fault->set(Reason::kIndexMap,
                        absl::StrCat("input_split_indices_per_rank has ",
                                     chunks.per_rank[d], " at position ", d));
    const int64_t base = flat ? static_cast<int64_t>(d) * count : 0;
    int64_t least = base;
    for (int64_t k = 0; k < chunks.per_rank[d]; ++k, ++next) {
      if (chunks.ids[next] < least || chunks.ids[next] >= base + count)
        return fault->set(
            Reason::kIndexMap,
            absl::StrCat("input_split_indices has ", chunks.ids[next],
                         " for rank ", d, " at position ", next));
      least = chunks.ids[next] + 1;
    }
  }
  if (next != chunks.ids.size())
    fault->set(Reason::kIndexMap,
               absl::StrCat("input_split_indices has ",
                            chunks.ids.size() - next, " ids for no rank"));
}

int64_t end_of(const std::vector<Range>& ranges) {
  return ranges.empty() ? 0 : ranges.back().begin + ranges.back().count;
}

}  // namespace

absl::Status dispatch_chunks(const Exchange& exchange, const Chunks& chunks,
                             absl::Span<const TensorView> outs,
                             const TensorView& input,
                             absl::Span<int64_t> gathered) {
  const auto count = static_cast<int64_t>(chunks.sizes.size());
  const int64_t size = dtype_size(chunks.dtype);
  Mover mover(exchange);
  Fault fault;
  std::vector<Range> mine, theirs;
  check(chunks, false, count, &fault);
  if (fault.reason == Reason::kNone &&
      (!ranges_of(chunks.sizes, chunks.row, &mine) ||
       end_of(mine) > input.count()))
    fault.set(Reason::kCapacity,
              absl::StrCat("the chunks need ", end_of(mine),
                           " elements of input, which has ", input.count()));
  if (absl::Status status = mover.announce(chunks, count, fault); !status.ok())
    return status;
  if (absl::Status status =
          mover.exchange_ids(chunks, false, chunks.sizes, count);
      !status.ok())
    return status;
  Mover::Pieces from(at(mover.ranks())), to(from.size());
  for (int p = 0; p < mover.ranks(); ++p) {
    if (!ranges_of(mover.sizes()[at(p)], chunks.row, &theirs)) continue;
    for (const int64_t c : mover.ids()[at(p)]) {
      if (c < 0 || c >= count) {
        fault.set(Reason::kIndexMap, absl::StrCat("rank ", p, " sent id ", c));
        continue;
      }
      const Range& range = theirs[at(c)];
      if (range.begin + range.count > outs[at(p)].count())
        fault.set(Reason::kCapacity,
                  absl::StrCat("output ", p, " needs ",
                               range.begin + range.count, " elements"));
      to[at(p)].push_back(
          {static_cast<uint8_t*>(outs[at(p)].data()) + range.begin * size,
           range.count * size});
    }
  }
  if (absl::Status status = mover.agree(fault); !status.ok()) return status;
  size_t next = 0;
  for (size_t d = 0; d < chunks.per_rank.size(); ++d)
    for (int64_t k = 0; k < chunks.per_rank[d]; ++k) {
      const Range& range = mine[at(chunks.ids[next++])];
      from[d].push_back(
          {static_cast<uint8_t*>(input.data()) + range.begin * size,
           range.count * size});
    }
  if (absl::Status status = mover.move(from, to); !status.ok()) return status;
  for (int p = 0; p < mover.ranks(); ++p)
    std::copy(mover.sizes()[at(p)].begin(), mover.sizes()[at(p)].end(),
              gathered.begin() + p * count);
  return absl::OkStatus();
}

absl::Status combine_chunks(const Exchange& exchange, const Chunks& chunks,
                            const TensorView& output, const TensorView& input) {
  Mover mover(exchange);
  const int64_t ranks = mover.ranks();
  const int64_t count = static_cast<int64_t>(chunks.sizes.size()) / ranks;
  const int64_t size = dtype_size(chunks.dtype), slab = input.count() / ranks;
  Fault fault;
  std::vector<std::vector<Range>> rows(at(ranks));
  check(chunks, true, count, &fault);
  for (int64_t q = 0; q < ranks && fault.reason == Reason::kNone; ++q)
    if (!ranges_of(chunks.sizes.subspan(at(q * count), at(count)), chunks.row,
                   &rows[at(q)]))
      fault.set(Reason::kCapacity, "the sizes are too large to count");
  Mover::Pieces from(at(ranks)), to(at(ranks));
  size_t next = 0;
  for (int64_t q = 0; q < ranks && fault.reason == Reason::kNone; ++q)
    for (int64_t k = 0; k < chunks.per_rank[at(q)]; ++k) {
      const Range& range = rows[at(q)][at(chunks.ids[next++] - q * count)];
      if (range.begin + range.count > slab)
        fault.set(Reason::kCapacity,
                  absl::StrCat("slab ", q, " needs ", range.begin + range.count,
                               " elements, and has ", slab));
      from[at(q)].push_back({static_cast<uint8_t*>(input.data()) +
                                 (q * slab + range.begin) * size,
                             range.count * size});
    }
  if (absl::Status status = mover.announce(chunks, count, fault); !status.ok())
    return status;
  if (absl::Status status = mover.exchange_ids(chunks, true, {}, count);
      !status.ok())
    return status;
  const std::vector<Range>& own = rows[at(exchange.rank())];
  for (int64_t p = 0; p < ranks; ++p)
    for (const int64_t c : mover.ids()[at(p)]) {
      if (c < 0 || c >= count) {
        fault.set(Reason::kIndexMap, absl::StrCat("rank ", p, " sent id ", c));
        continue;
      }
      const Range& range = own[at(c)];
      if (range.begin + range.count > output.count())
        fault.set(Reason::kCapacity,
                  absl::StrCat("the output needs ", range.begin + range.count,
                               " elements"));
      to[at(p)].push_back(
          {static_cast<uint8_t*>(output.data()) + range.begin * size,
           range.count * size});
    }
  if (absl::Status status = mover.agree(fault); !status.ok()) return status;
  // By rank: of several copies of a chunk the last one stays.
  return mover.move(from, to);
}

}  // namespace distwrap::moe
