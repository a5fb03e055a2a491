#include "call.h"

#include <absl/strings/str_cat.h>

#include <cstring>
#include <utility>

namespace distwrap::programs {
namespace {

constexpr unsigned char kSentinel = 0xA5;
constexpr int kTags = 4;

template <class T>
void put(unsigned char* at, int64_t value) {
  const T typed = static_cast<T>(value);
  std::memcpy(at, &typed, sizeof typed);
}

bool is_message(Kind kind) {
  return kind == Kind::kRing || kind == Kind::kBackward;
}

}  // namespace

Pieces::Pieces(DType dtype, std::vector<int64_t> counts)
    : dtype_(dtype), counts_(std::move(counts)) {
  int64_t sum = 0;
  for (int64_t count : counts_) {
    begins_.push_back(sum);
    sum += count;
  }
  bytes_.assign(static_cast<size_t>(sum * dtype_size(dtype_)), kSentinel);
}

void Pieces::set(int piece, int64_t i, int64_t value) {
  const int64_t at =
      (begins_[static_cast<size_t>(piece)] + i) * dtype_size(dtype_);
  unsigned char* const to = bytes_.data() + at;
  switch (dtype_) {
    case DType::kU8:
      return put<uint8_t>(to, value);
    case DType::kI32:
      return put<int32_t>(to, value);
    case DType::kI64:
      return put<int64_t>(to, value);
    case DType::kF32:
      return put<float>(to, value);
    default:
      return put<double>(to, value);
  }
}

TensorView Pieces::view() const {
  return {const_cast<unsigned char*>(bytes_.data()),
          static_cast<int64_t>(bytes_.size()) / dtype_size(dtype_), dtype_};
}

TensorView Pieces::view(int piece) const {
  const auto p = static_cast<size_t>(piece);
  return {const_cast<unsigned char*>(bytes_.data()) +
              begins_[p] * dtype_size(dtype_),
          counts_[p], dtype_};
}

std::vector<TensorView> Pieces::views() const {
  std::vector<TensorView> all;
  for (size_t i = 0; i < counts_.size(); ++i)
    all.push_back(view(static_cast<int>(i)));
  return all;
}

Call::Call(const Operation& operation, const std::vector<int>& members, int me)
    : operation_(operation),
      members_(members),
      me_(me),
      size_(static_cast<int>(members.size())),
      in_(operation.dtype, {}),
      out_(in_),
      given_(in_),
      wanted_(in_) {
  prepare();
  given_ = in_;
}

int64_t Call::value(int from, int to, int64_t i) const {
  return operation_.value(members_[static_cast<size_t>(from)], to, i);
}

int64_t Call::reduced(int first, int last, int to, int64_t i) const {
  int64_t result = value(first, to, i);
  for (int rank = first + 1; rank <= last; ++rank)
    result = operation_.reduce(result, value(rank, to, i));
  return result;
}

void Call::prepare() {
  const Operation& o = operation_;
  const auto piece = [&](int from, int to) { return o.piece(from, to, size_); };
  // counts(f) lists f of each rank; make(counts, f) fills pieces with f of each
  // piece and place.
  const auto counts = [&](const auto& of) {
    std::vector<int64_t> all;
    for (int r = 0; r < size_; ++r) all.push_back(of(r));
    return all;
  };
  const auto make = [&](std::vector<int64_t> sizes, const auto& of) {
    Pieces pieces(o.dtype, std::move(sizes));
    for (int p = 0; p < static_cast<int>(pieces.counts().size()); ++p)
      for (int64_t i = 0; i < pieces.counts()[static_cast<size_t>(p)]; ++i)
        pieces.set(p, i, of(p, i));
    return pieces;
  };
  const auto mine = [&](int, int64_t i) { return value(me_, 0, i); };
  const bool is_root = me_ == o.root;
  const int before = (me_ + size_ - 1) % size_;
  switch (o.kind) {
    case Kind::kBarrier:
      return;
    case Kind::kBroadcast:
      if (is_root) in_ = make({o.n}, mine);
      wanted_ =
          make({o.n}, [&](int, int64_t i) { return value(o.root, 0, i); });
      break;
    case Kind::kReduce:
      in_ = make({o.n}, mine);
      wanted_ = Pieces(o.dtype, {o.n});
      if (is_root)
        wanted_ = make(
            {o.n}, [&](int, int64_t i) { return reduced(0, size_ - 1, 0, i); });
      break;
    case Kind::kAllReduce:
      in_ = make({o.n}, mine);
      wanted_ = make(
          {o.n}, [&](int, int64_t i) { return reduced(0, size_ - 1, 0, i); });
      break;
    case Kind::kScan:
      in_ = make({o.n}, mine);
      wanted_ =
          make({o.n}, [&](int, int64_t i) { return reduced(0, me_, 0, i); });
      break;
    case Kind::kExscan:
      in_ = make({o.n}, mine);
      wanted_ = Pieces(o.dtype, {o.n});
      if (me_ > 0)
        wanted_ = make(
            {o.n}, [&](int, int64_t i) { return reduced(0, me_ - 1, 0, i); });
      break;
    case Kind::kGather:
    case Kind::kAllGather:
      in_ = make({piece(me_, 0)}, mine);
      if (o.kind == Kind::kAllGather || is_root)
        wanted_ = make(counts([&](int r) { return piece(r, 0); }),
                       [&](int p, int64_t i) { return value(p, 0, i); });
      break;
    case Kind::kScatter:
      if (is_root)
        in_ = make(counts([&](int r) { return piece(0, r); }),
                   [&](int p, int64_t i) { return value(me_, p, i); });
      wanted_ = make({piece(0, me_)},
                     [&](int, int64_t i) { return value(o.root, me_, i); });
      break;
    case Kind::kReduceScatter:
      in_ = make(counts([&](int r) { return piece(0, r); }),
                 [&](int p, int64_t i) { return value(me_, p, i); });
      wanted_ = make({piece(0, me_)}, [&](int, int64_t i) {
        return reduced(0, size_ - 1, me_, i);
      });
      break;
    case Kind::kAllToAll:
      in_ = make(counts([&](int r) { return piece(me_, r); }),
                 [&](int p, int64_t i) { return value(me_, p, i); });
      wanted_ = make(counts([&](int r) { return piece(r, me_); }),
                     [&](int p, int64_t i) { return value(p, me_, i); });
      break;
    case Kind::kRing:
      in_ = make({o.n}, mine);
      wanted_ =
          make({o.n}, [&](int, int64_t i) { return value(before, 0, i); });
      break;
    case Kind::kBackward:
      in_ = make(std::vector<int64_t>(kTags, o.n),
                 [&](int p, int64_t i) { return value(me_, p, i); });
      wanted_ = make(std::vector<int64_t>(kTags, o.n),
                     [&](int p, int64_t i) { return value(before, p, i); });
      break;
  }
  out_ = Pieces(o.dtype, wanted_.counts());
}

absl::Status Call::run_messages(const OpOptions& options) {
  const int before = (me_ + size_ - 1) % size_, next = (me_ + 1) % size_;
  const int n = static_cast<int>(in_.counts().size());
  std::vector<P2POp> ops;
  for (int tag = 0; tag < n; ++tag)
    ops.push_back({.kind = P2POp::Kind::kIsend,
                   .tensor = in_.view(tag),
                   .peer = Peer::group(next),
                   .tag = tag});
  for (int tag = n; tag-- > 0;)
    ops.push_back({.kind = P2POp::Kind::kIrecv,
                   .tensor = out_.view(tag),
                   .peer = Peer::global(members_[static_cast<size_t>(before)]),
                   .tag = tag});
  if (operation_.salt % 2 == 0) {
    absl::StatusOr<std::vector<Work>> works = batch_isend_irecv(ops, options);
    if (works.ok()) works_ = *std::move(works);
    return works.status();
  }
  for (const P2POp& op : ops) {
    absl::StatusOr<Work> work =
        op.kind == P2POp::Kind::kIsend
            ? isend(op.tensor, op.peer, op.tag, options)
            : irecv(op.tensor, op.peer, op.tag, options);
    if (!work.ok()) return work.status();
    works_.push_back(*std::move(work));
  }
  return absl::OkStatus();
}

absl::Status Call::run(const OpOptions& options) {
  const Operation& o = operation_;
  constexpr ReduceOp kOps[] = {ReduceOp::kSum, ReduceOp::kProduct,
                               ReduceOp::kMin, ReduceOp::kMax};
  const ReduceOp op = kOps[o.reduction];
  const bool lists = o.salt % 2 == 0;
  const TensorView in = in_.view(), out = out_.view();
  const std::vector<TensorView> ins = in_.views(), outs = out_.views();
  const Peer root = o.salt % 3 == 0
                        ? Peer::group(o.root)
                        : Peer::global(members_[static_cast<size_t>(o.root)]);
  const auto start = [&]() -> absl::StatusOr<Work> {
    switch (o.kind) {
      case Kind::kBroadcast:
        return broadcast(out, in, root, options);
      case Kind::kReduce:
        return reduce(out, in, root, op, options);
      case Kind::kAllReduce:
        return all_reduce(out, in, op, options);
      case Kind::kScan:
        return scan(out, in, op, options);
      case Kind::kExscan:
        return exscan(out, in, op, options);
      case Kind::kGather:
        return gather(outs, in, root, options);
      case Kind::kScatter:
        return scatter(out, ins, root, options);
      case Kind::kAllGather:
        if (lists) return all_gather(outs, in, options);
        return all_gather_v(out, in, out_.counts(), options);
      case Kind::kReduceScatter:
        if (lists) return reduce_scatter(out, ins, op, options);
        return reduce_scatter_v(out, in, in_.counts(), op, options);
      case Kind::kAllToAll:
        if (lists) return all_to_all(outs, ins, options);
        return all_to_all_single(out, in, out_.counts(), in_.counts(), options);
      default:
        return barrier(options);
    }
  };
  absl::StatusOr<Work> work = start();
  if (work.ok()) works_ = {*std::move(work)};
  return work.status();
}

std::string Call::start(const Group& group) {
  const OpOptions options = {.group = group, .async = operation_.async};
  const absl::Status status =
      is_message(operation_.kind) ? run_messages(options) : run(options);
  return status.ok() ? "" : absl::StrCat(status.message());
}

bool Call::ended() const {
  for (const Work& work : works_)
    if (!work.test()) return false;
  return true;
}

std::string Call::finish() {
  for (const Work& work : works_)
    if (absl::Status status = work.wait(); !status.ok())
      return absl::StrCat(operation_.name(), ": ", status.message());
  if (!(in_ == given_))
    return absl::StrCat(operation_.name(), ": the input was changed");
  if (!(out_ == wanted_))
    return absl::StrCat(operation_.name(), ": the output is wrong");
  return "";
}

}  // namespace distwrap::programs
