#include "chaos/call.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <numeric>

namespace distwrap::chaos {
namespace {

// Small values, so that every type can hold products of a few.
template <class T>
T element(int rank, uint64_t round, int64_t at) {
  return static_cast<T>((static_cast<uint64_t>(rank) * 7 + round * 3 +
                         static_cast<uint64_t>(at) * 5 +
                         static_cast<uint64_t>(at >> 7)) %
                            11 +
                        1);
}

template <class T>
T reduced(ReduceOp::Kind reduction, T a, T b) {
  switch (reduction) {
    case ReduceOp::kMin:
      return std::min(a, b);
    case ReduceOp::kMax:
      return std::max(a, b);
    case ReduceOp::kProduct:
      return static_cast<T>(a * b);
    default:
      return static_cast<T>(a + b);
  }
}

absl::Status ended(const absl::StatusOr<Work>& work) {
  return work.ok() ? work->wait() : work.status();
}

}  // namespace

const char* kind_name(Kind kind) {
  constexpr const char* kNames[] = {
      "barrier",      "broadcast", "reduce",       "all_reduce",
      "gather",       "scatter",   "all_gather",   "reduce_scatter",
      "all_to_all",   "scan",      "all_gather_v", "reduce_scatter_v",
      "all_to_all_v", "ring"};
  return kNames[static_cast<size_t>(kind)];
}

bool has_root(Kind kind) {
  return kind == Kind::kBroadcast || kind == Kind::kReduce ||
         kind == Kind::kGather || kind == Kind::kScatter;
}

bool reduces(Kind kind) {
  return kind == Kind::kReduce || kind == Kind::kAllReduce ||
         kind == Kind::kReduceScatter || kind == Kind::kScan ||
         kind == Kind::kReduceScatterV;
}

bool has_counts(Kind kind) {
  return kind == Kind::kAllGatherV || kind == Kind::kReduceScatterV ||
         kind == Kind::kAllToAllV;
}

std::string Call::text() const {
  std::string text = kind_name(kind);
  if (kind != Kind::kBarrier)
    absl::StrAppend(&text, " of ", count, " ", dtype_name(dtype));
  if (reduces(kind)) absl::StrAppend(&text, " ", reduce_op_name(reduction));
  if (has_root(kind)) absl::StrAppend(&text, " with root ", root);
  if (async) absl::StrAppend(&text, ", not waited for at once");
  return text;
}

Call draw_call(Draw& draw, int ranks, int64_t bytes) {
  constexpr Kind kKinds[] = {
      Kind::kBarrier,   Kind::kBroadcast, Kind::kReduce,
      Kind::kAllReduce, Kind::kGather,    Kind::kScatter,
      Kind::kAllGather, Kind::kAllToAll,  Kind::kReduceScatter,
      Kind::kScan,      Kind::kRing};
  Call call;
  call.kind = draw.one_of(kKinds);
  const bool is_divided =
      call.kind == Kind::kGather || call.kind == Kind::kScatter ||
      call.kind == Kind::kAllGather || call.kind == Kind::kAllToAll ||
      call.kind == Kind::kReduceScatter;
  const int64_t elements = bytes / dtype_size(call.dtype);
  call.count = std::max<int64_t>(1, is_divided ? elements / ranks : elements);
  call.root = draw.below(ranks);
  call.async = draw.coin();
  return call;
}

template <class T>
std::vector<T> Performer::filled(const Call& call, uint64_t round,
                                 int64_t n) const {
  std::vector<T> data(static_cast<size_t>(n));
  if (call.kind == Kind::kBarrier) return data;
  for (size_t i = 0; i < data.size(); ++i)
    data[i] = element<T>(me_, round, static_cast<int64_t>(i));
  return data;
}

// Compares `n` elements, whose first was element `first` of the inputs of ranks
// `from` to `to`.
template <class T>
void Performer::expect(const Call& call, uint64_t round, const T* got,
                       int64_t n, int64_t first, int from, int to) {
  for (int64_t i = 0; i < n; ++i) {
    T right = element<T>(from, round, first + i);
    for (int rank = from + 1; rank <= to; ++rank)
      right =
          reduced(call.reduction, right, element<T>(rank, round, first + i));
    if (got[i] == right) continue;
    if (!wrong_.empty()) return;
    wrong_round_ = round;
    wrong_ = absl::StrCat("wrong data called success: round ", round, ", ",
                          call.text(), ", element ", i, " is ",
                          static_cast<double>(got[i]), ", not ",
                          static_cast<double>(right));
    return;
  }
}

template <class T>
absl::Status Performer::perform_with(const Call& call, uint64_t round,
                                     const OpOptions& options) {
  const int last = ranks_ - 1;
  const Peer root = Peer::group(call.root);
  const bool is_root = me_ == call.root;
  const int64_t n = call.count;
  std::vector<int64_t> counts = call.counts;
  if (counts.empty()) counts.assign(static_cast<size_t>(ranks_), n);
  const int64_t all = std::accumulate(counts.begin(), counts.end(), int64_t{0});
  const int64_t mine = counts[static_cast<size_t>(me_)];
  const int64_t before =
      std::accumulate(counts.begin(), counts.begin() + me_, int64_t{0});
  std::vector<T> in, out;
  absl::Status status;
  // The pieces of all ranks, one behind the other.
  const auto expect_gathered = [&] {
    int64_t at = 0;
    for (int rank = 0; rank < ranks_; ++rank) {
      const int64_t count = counts[static_cast<size_t>(rank)];
      expect(call, round, out.data() + at, count, 0, rank, rank);
      at += count;
    }
  };
  switch (call.kind) {
    case Kind::kBarrier:
      return ended(barrier(options));
    case Kind::kBroadcast:
      out = is_root ? filled<T>(call, round, n)
                    : std::vector<T>(static_cast<size_t>(n));
      status = ended(broadcast(TensorView(out), root, options));
      if (status.ok())
        expect(call, round, out.data(), n, 0, call.root, call.root);
      return status;
    case Kind::kReduce:
      in = filled<T>(call, round, n);
      out.resize(in.size());
      status = ended(reduce(TensorView(out), TensorView(in), root,
                            call.reduction, options));
      if (status.ok() && is_root)
        expect(call, round, out.data(), n, 0, 0, last);
      return status;
    case Kind::kAllReduce:
      in = filled<T>(call, round, n);
      out.resize(in.size());
      status = ended(
          all_reduce(TensorView(out), TensorView(in), call.reduction, options));
      if (status.ok()) expect(call, round, out.data(), n, 0, 0, last);
      return status;
    case Kind::kScan:
      in = filled<T>(call, round, n);
      out.resize(in.size());
      status =
          ended(scan(TensorView(out), TensorView(in), call.reduction, options));
      if (status.ok()) expect(call, round, out.data(), n, 0, 0, me_);
      return status;
    case Kind::kGather:
      in = filled<T>(call, round, n);
      out.resize(static_cast<size_t>(is_root ? all : 0));
      status = ended(gather_into_tensor(TensorView(out), TensorView(in), root,
                                        {}, options));
      if (status.ok() && is_root) expect_gathered();
      return status;
    case Kind::kAllGather:
    case Kind::kAllGatherV:
      in = filled<T>(call, round, mine);
      out.resize(static_cast<size_t>(all));
      status = ended(
          call.kind == Kind::kAllGather
              ? all_gather_into_tensor(TensorView(out), TensorView(in), options)
              : all_gather_v(TensorView(out), TensorView(in), counts, options));
      if (status.ok()) expect_gathered();
      return status;
    case Kind::kScatter:
      if (is_root) in = filled<T>(call, round, all);
      out.resize(static_cast<size_t>(n));
      status = ended(
          scatter_tensor(TensorView(out), TensorView(in), root, {}, options));
      if (status.ok())
        expect(call, round, out.data(), n, before, call.root, call.root);
      return status;
    case Kind::kReduceScatter:
    case Kind::kReduceScatterV:
      in = filled<T>(call, round, all);
      out.resize(static_cast<size_t>(mine));
      status =
          ended(call.kind == Kind::kReduceScatter
                    ? reduce_scatter_tensor(TensorView(out), TensorView(in),
                                            call.reduction, options)
                    : reduce_scatter_v(TensorView(out), TensorView(in), counts,
                                       call.reduction, options));
      if (status.ok()) expect(call, round, out.data(), mine, before, 0, last);
      return status;
    case Kind::kAllToAll:
      in = filled<T>(call, round, all);
      out.resize(static_cast<size_t>(all));
      status = ended(
          all_to_all_single(TensorView(out), TensorView(in), {}, {}, options));
      for (int rank = 0; status.ok() && rank < ranks_; ++rank)
        expect(call, round, out.data() + rank * n, n, me_ * n, rank, rank);
      return status;
    case Kind::kAllToAllV: {
      std::vector<int64_t> with;  // equal in both directions
      for (int rank = 0; rank < ranks_; ++rank)
        with.push_back(counts[static_cast<size_t>((me_ + rank) % ranks_)]);
      in = filled<T>(call, round, all);
      out.resize(in.size());
      status = ended(all_to_all_single(TensorView(out), TensorView(in), with,
                                       with, options));
      // Where this rank's part begins in the input of rank r.
      for (int rank = 0, at = 0; status.ok() && rank < ranks_; ++rank) {
        int64_t first = 0;
        for (int to = 0; to < me_; ++to)
          first += counts[static_cast<size_t>((rank + to) % ranks_)];
        const int64_t count = with[static_cast<size_t>(rank)];
        expect(call, round, out.data() + at, count, first, rank, rank);
        at += static_cast<int>(count);
      }
      return status;
    }
    case Kind::kRing:
      break;
  }
  const int next = (me_ + 1) % ranks_, previous = (me_ + last) % ranks_;
  in = filled<T>(call, round, n);
  out.resize(in.size());
  const absl::StatusOr<Work> received =
      irecv(TensorView(out), Peer::group(previous), 0, options);
  if (!received.ok()) return received.status();
  status = send(TensorView(in), Peer::group(next), 0, options);
  // The receive may have failed first.
  if (const absl::Status came = received->wait(); !came.ok()) status = came;
  if (status.ok()) expect(call, round, out.data(), n, 0, previous, previous);
  return status;
}

absl::Status Performer::perform(const Call& call, uint64_t round,
                                std::optional<absl::Duration> timeout) {
  const OpOptions options{
      .group = group_, .async = call.async, .timeout = timeout};
  switch (call.dtype) {
    case DType::kU8:
      return perform_with<uint8_t>(call, round, options);
    case DType::kI64:
      return perform_with<int64_t>(call, round, options);
    case DType::kF32:
      return perform_with<float>(call, round, options);
    case DType::kF64:
      return perform_with<double>(call, round, options);
    default:
      return perform_with<int32_t>(call, round, options);
  }
}

}  // namespace distwrap::chaos
