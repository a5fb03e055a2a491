#include "moe/chunks.h"

#include "moe/call.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace distwrap::moe {
namespace {

size_t at(int64_t i) { return static_cast<size_t>(i); }

// A rank tells another one the shape of its call, and how many ids follow for
// that rank.
struct Announced {
  int64_t chunks = 0, row = 0, dtype = 0, ids = 0;
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

// Ranges of memory, by rank.
struct Piece {
  uint8_t* data;
  int64_t bytes;
};
using PieceLists = std::vector<std::vector<Piece>>;

// Parts of memory by rank, packed.
struct Packed {
  explicit Packed(const PieceLists& pieces) {
    for (const auto& of_rank : pieces) {
      displs.push_back(total);
      counts.push_back(0);
      for (const Piece& piece : of_rank) counts.back() += piece.bytes;
      total += counts.back();
    }
    bytes.resize(at(total));
  }
  std::vector<int64_t> counts, displs;
  int64_t total = 0;
  std::vector<uint8_t> bytes;
};

// Moves the pieces for each rank into those that come from each.
class ChunkMove final : public StagedCall {
 public:
  ChunkMove(const Exchange& exchange, const PieceLists& from, PieceLists to)
      : StagedCall(exchange), to_(std::move(to)), out_(from), in_(to_) {
    uint8_t* next = out_.bytes.data();
    for (const auto& of_rank : from)
      for (const auto& [data, bytes] : of_rank) {
        if (bytes > 0) memcpy(next, data, at(bytes));
        next += bytes;
      }
  }
  absl::StatusOr<Work> first(bool async) {
    return exchange_.all_to_all({in_.bytes.data(), in_.counts, in_.displs},
                                {out_.bytes.data(), out_.counts, out_.displs},
                                kPlanTag, async);
  }
  absl::StatusOr<Work> second(bool /*async*/) override { return Work(); }
  // By rank: of several copies of a chunk the last one stays.
  void end() override {
    const uint8_t* got = in_.bytes.data();
    for (const auto& of_rank : to_)
      for (const auto& [data, bytes] : of_rank) {
        if (bytes > 0) memcpy(data, got, at(bytes));
        got += bytes;
      }
  }

 private:
  PieceLists to_;
  Packed out_, in_;
};

absl::StatusOr<Work> move_pieces(const Exchange& exchange,
                                 const PieceLists& from, PieceLists to,
                                 bool async) {
  auto call = std::make_unique<ChunkMove>(exchange, from, std::move(to));
  absl::StatusOr<Work> started = call->first(async);
  if (!started.ok()) return started;
  if (async) return run_async(std::move(call), *started);
  if (absl::Status status = call->run_rest(*started); !status.ok())
    return status;
  return Work();
}

// The steps before the move, the same ones on all ranks.
class Meeting {
 public:
  Meeting(const Exchange& exchange, const Chunks& chunks, int64_t count)
      : exchange_(exchange),
        agreement_(exchange),
        chunks_(chunks),
        count_(count) {}

  // Compares the shapes of all ranks' calls.
  absl::Status announce(const Fault& fault);
  // The ids that each rank sends to this one; with `flat` those for rank q are
  // told without q * count. `sizes` go along.
  absl::Status exchange_ids(bool flat, absl::Span<const int64_t> sizes);
  // Tells what this rank found behind the announcements.
  absl::Status agree(const Fault& fault) { return agreement_.tell(fault); }

  const std::vector<std::vector<int64_t>>& ids() const { return ids_; }
  const std::vector<std::vector<int64_t>>& sizes() const { return sizes_; }

 private:
  const Exchange& exchange_;
  const Agreement agreement_;
  const Chunks& chunks_;
  const int64_t count_;
  std::vector<Announced> all_;
  std::vector<std::vector<int64_t>> ids_, sizes_;  // by source
};

absl::Status Meeting::announce(const Fault& fault) {
  std::vector<Announced> given(
      at(exchange_.size()),
      {count_, chunks_.row, static_cast<int64_t>(chunks_.dtype), 0});
  for (size_t r = 0; r < given.size() && !fault.found(); ++r)
    given[r].ids = chunks_.per_rank[r];
  absl::Status told = agreement_.tell(fault, absl::MakeConstSpan(given), &all_);
  if (!told.ok()) return told;
  for (int r = 1; r < exchange_.size(); ++r) {
    const Announced &one = all_[at(r)], &leader = all_[0];
    if (one.chunks != leader.chunks || one.row != leader.row ||
        one.dtype != leader.dtype)
      return exchange_.error(
          {.reason = Reason::kCallMismatch,
           .what = "ranks move different numbers of chunks, rows or types",
           .ranks = {0, r},
           .expected = absl::StrCat(leader.chunks, " chunks of ", leader.row,
                                    " elements"),
           .actual =
               absl::StrCat(one.chunks, " chunks of ", one.row, " elements"),
           .next_step = "give equal shapes on all ranks"});
  }
  return absl::OkStatus();
}

absl::Status Meeting::exchange_ids(bool flat, absl::Span<const int64_t> sizes) {
  const int ranks = exchange_.size();
  const auto with_sizes = static_cast<int64_t>(sizes.size());
  std::vector<int64_t> words, give, get, give_at, get_at;
  size_t next = 0;
  int64_t total = 0;
  for (int r = 0; r < ranks; ++r) {
    give_at.push_back(8 * static_cast<int64_t>(words.size()));
    words.insert(words.end(), sizes.begin(), sizes.end());
    for (int64_t k = 0; k < chunks_.per_rank[at(r)]; ++k)
      words.push_back(chunks_.ids[next++] - (flat ? r * count_ : 0));
    give.push_back(8 * (with_sizes + chunks_.per_rank[at(r)]));
    get_at.push_back(8 * total);
    get.push_back(8 * (with_sizes + std::max<int64_t>(all_[at(r)].ids, 0)));
    total += get.back() / 8;
  }
  std::vector<int64_t> in(at(total));
  const absl::StatusOr<Work> moved = exchange_.all_to_all(
      {reinterpret_cast<uint8_t*>(in.data()), get, get_at},
      {reinterpret_cast<uint8_t*>(words.data()), give, give_at}, kPlanTag,
      false);
  if (!moved.ok()) return moved.status();
  ids_.clear();
  sizes_.clear();
  for (int r = 0; r < ranks; ++r) {
    const auto begin = in.begin() + get_at[at(r)] / 8;
    const auto end = begin + get[at(r)] / 8;
    sizes_.emplace_back(begin, begin + with_sizes);
    ids_.emplace_back(begin + with_sizes, end);
  }
  return absl::OkStatus();
}

// Sizes are not negative; ids are ascending inside a destination and in range.
void check(const Chunks& chunks, bool flat, int64_t count, Fault* fault) {
  if (fault->found()) return;
  for (size_t c = 0; c < chunks.sizes.size(); ++c)
    if (chunks.sizes[c] < 0)
      return fault->set(Reason::kIndexMap,
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

Piece piece_of(const TensorView& view, int64_t begin, int64_t count) {
  const int64_t size = dtype_size(view.dtype());
  return {static_cast<uint8_t*>(view.data()) + begin * size, count * size};
}

}  // namespace

absl::StatusOr<Work> dispatch_chunks(const Exchange& exchange,
                                     const Chunks& chunks, Fault fault,
                                     absl::Span<const TensorView> outs,
                                     const TensorView& input,
                                     absl::Span<int64_t> gathered, bool async) {
  const auto count = static_cast<int64_t>(chunks.sizes.size());
  const int ranks = exchange.size();
  Meeting meeting(exchange, chunks, count);
  std::vector<Range> mine, theirs;
  check(chunks, false, count, &fault);
  if (!fault.found() && (!ranges_of(chunks.sizes, chunks.row, &mine) ||
                         end_of(mine) > input.count()))
    fault.set(Reason::kCapacity,
              absl::StrCat("the chunks need ", end_of(mine),
                           " elements of input, which has ", input.count()));
  if (absl::Status status = meeting.announce(fault); !status.ok())
    return status;
  if (absl::Status status = meeting.exchange_ids(false, chunks.sizes);
      !status.ok())
    return status;
  PieceLists from(at(ranks)), to(at(ranks));
  for (int p = 0; p < ranks; ++p) {
    if (!ranges_of(meeting.sizes()[at(p)], chunks.row, &theirs)) continue;
    for (const int64_t c : meeting.ids()[at(p)]) {
      if (c < 0 || c >= count) {
        fault.set(Reason::kIndexMap, absl::StrCat("rank ", p, " sent id ", c));
        continue;
      }
      const Range& range = theirs[at(c)];
      if (range.begin + range.count > outs[at(p)].count())
        fault.set(Reason::kCapacity,
                  absl::StrCat("output ", p, " needs ",
                               range.begin + range.count, " elements"));
      to[at(p)].push_back(piece_of(outs[at(p)], range.begin, range.count));
    }
  }
  if (absl::Status status = meeting.agree(fault); !status.ok()) return status;
  size_t next = 0;
  for (size_t d = 0; d < chunks.per_rank.size(); ++d)
    for (int64_t k = 0; k < chunks.per_rank[d]; ++k) {
      const Range& range = mine[at(chunks.ids[next++])];
      from[d].push_back(piece_of(input, range.begin, range.count));
    }
  for (int p = 0; p < ranks; ++p)
    std::copy(meeting.sizes()[at(p)].begin(), meeting.sizes()[at(p)].end(),
              gathered.begin() + p * count);
  return move_pieces(exchange, from, std::move(to), async);
}

absl::StatusOr<Work> combine_chunks(const Exchange& exchange,
                                    const Chunks& chunks, Fault fault,
                                    const TensorView& output,
                                    const TensorView& input, bool async) {
  const int64_t ranks = exchange.size();
  const int64_t count = static_cast<int64_t>(chunks.sizes.size()) / ranks;
  const int64_t slab = input.count() / ranks;
  Meeting meeting(exchange, chunks, count);
  std::vector<std::vector<Range>> rows(at(ranks));
  check(chunks, true, count, &fault);
  for (int64_t q = 0; q < ranks && !fault.found(); ++q)
    if (!ranges_of(chunks.sizes.subspan(at(q * count), at(count)), chunks.row,
                   &rows[at(q)]))
      fault.set(Reason::kCapacity, "the sizes are too large to count");
  PieceLists from(at(ranks)), to(at(ranks));
  size_t next = 0;
  for (int64_t q = 0; q < ranks && !fault.found(); ++q)
    for (int64_t k = 0; k < chunks.per_rank[at(q)]; ++k) {
      const Range& range = rows[at(q)][at(chunks.ids[next++] - q * count)];
      if (range.begin + range.count > slab) {
        fault.set(Reason::kCapacity,
                  absl::StrCat("slab ", q, " needs ", range.begin + range.count,
                               " elements, and has ", slab));
        break;
      }
      from[at(q)].push_back(
          piece_of(input, q * slab + range.begin, range.count));
    }
  if (absl::Status status = meeting.announce(fault); !status.ok())
    return status;
  if (absl::Status status = meeting.exchange_ids(true, {}); !status.ok())
    return status;
  const std::vector<Range>& own = rows[at(exchange.rank())];
  for (int64_t p = 0; p < ranks; ++p)
    for (const int64_t c : meeting.ids()[at(p)]) {
      if (c < 0 || c >= count) {
        fault.set(Reason::kIndexMap, absl::StrCat("rank ", p, " sent id ", c));
        continue;
      }
      const Range& range = own[at(c)];
      if (range.begin + range.count > output.count())
        fault.set(Reason::kCapacity,
                  absl::StrCat("the output needs ", range.begin + range.count,
                               " elements"));
      to[at(p)].push_back(piece_of(output, range.begin, range.count));
    }
  if (absl::Status status = meeting.agree(fault); !status.ok()) return status;
  return move_pieces(exchange, from, std::move(to), async);
}

}  // namespace distwrap::moe
