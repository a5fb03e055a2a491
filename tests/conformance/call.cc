#include "call.h"

#include "operation.h"
#include "promises.h"
#include "sdk/dtype.h"

namespace distwrap::conformance {
namespace {

bool is_wide(Extent extent) {
  return extent == Extent::ALL_R || extent == Extent::ROOT_R;
}

}  // namespace

Call::Call(const Case& c, const Member& member)
    : case_(c),
      rank_(member.rank),
      size_(member.size),
      own_floats_((member.api.flags & DW_BACKEND_OWN_FLOATS) != 0),
      factor_(factor(c.dtype, rank_)) {
  make_buffers(shape_of(c.kind));
  put_inputs();
}

std::vector<size_t> Call::counts(Extent extent, bool input) const {
  const bool is_root = rank_ == case_.peer(size_);
  switch (extent) {
    case Extent::NONE:
      return {};
    case Extent::ROOT:
      if (!is_root) return {};
      [[fallthrough]];
    case Extent::ALL:
      return {case_.piece(rank_, rank_, size_)};
    case Extent::ROOT_R:
      if (!is_root) return {};
      break;
    default:
      break;
  }
  std::vector<size_t> all;
  for (int r = 0; r < size_; ++r)
    all.push_back(input ? case_.piece(rank_, r, size_)
                        : case_.piece(r, rank_, size_));
  return all;
}

void Call::make_buffers(const Shape& shape) {
  const std::vector<size_t> in = counts(shape.in, true);
  const std::vector<size_t> out = counts(shape.out, false);
  const auto make = [this](Extent extent, const std::vector<size_t>& counts) {
    return std::make_unique<Buffer>(case_.dtype, counts,
                                    is_wide(extent) ? case_.form : Form::kPlain,
                                    case_.odd);
  };
  const size_t own = static_cast<size_t>(rank_);
  if (case_.odd)
    absent_ = std::make_unique<Buffer>(case_.dtype, std::vector<size_t>{8},
                                       Form::kPlain, true);
  in_place_ = case_.in_place && !in.empty() && !out.empty();
  if (in_place_ && is_wide(shape.in)) {
    in_ = make(shape.in, in);
    out_ = std::make_unique<Buffer>(*in_, own);
    return;
  }
  if (!out.empty()) out_ = make(shape.out, out);
  if (in_place_)
    in_ = std::make_unique<Buffer>(*out_, is_wide(shape.out) ? own : 0);
  else if (!in.empty())
    in_ = make(shape.in, in);
}

size_t Call::phase(size_t piece) const {
  return (piece * 131 + case_.salt * 37) % kPeriod;
}

void Call::put_inputs() {
  if (in_ == nullptr) return;
  const Period mine = values(case_.dtype, case_.reduce, rank_);
  for (size_t p = 0; p < in_->pieces(); ++p) in_->put(p, *mine, phase(p));
}

void Call::want_outputs() {
  if (out_ == nullptr) return;
  const auto from = [this](int rank) {
    return values(case_.dtype, DW_REDUCE_NONE, rank);
  };
  const auto want_reduced = [this](int ranks, size_t phase) {
    out_->want(
        0, *reduced_values(case_.dtype, case_.reduce, ranks), phase,
        own_floats_ ? ranges(case_.dtype, case_.reduce, ranks) : nullptr);
  };
  const size_t own = static_cast<size_t>(rank_);
  switch (case_.kind) {
    case DW_OP_BROADCAST:
      return out_->want(0, *from(case_.peer(size_)), phase(0));
    case DW_OP_SCATTER:
      return out_->want(0, *from(case_.peer(size_)), phase(own));
    case DW_OP_REDUCE:
    case DW_OP_ALL_REDUCE:
      return want_reduced(size_, phase(0));
    case DW_OP_REDUCE_SCATTER:
      return want_reduced(size_, phase(own));
    case DW_OP_SCAN:
      // In an exclusive scan the first rank's output keeps its contents.
      if (!case_.exclusive || rank_ > 0)
        want_reduced(rank_ + (case_.exclusive ? 0 : 1), phase(0));
      return;
    default: {
      const bool exchanges = case_.kind == DW_OP_ALL_TO_ALL;
      for (int r = 0; r < size_; ++r)
        out_->want(static_cast<size_t>(r), *from(r),
                   phase(exchanges ? own : 0));
    }
  }
}

dw_buf Call::view(const Buffer* buffer) const {
  if (buffer != nullptr) return buffer->view();
  // A buffer that is not used has neither a type nor an address of the call.
  dw_buf none = {};
  none.dtype = dw_dtype_of(case_.odd ? DW_DTYPE_U8 : case_.dtype);
  if (absent_ != nullptr) none.data = absent_->view().data;
  return none;
}

dw_op Call::op() const {
  dw_op op = {};
  op.struct_size = sizeof op;
  op.kind = case_.kind;
  op.reduce = case_.reduce;
  op.peer = case_.peer(size_);
  // All ranks know whether a call is a v form or a list form; other flags are a
  // rank's own.
  op.flags = case_.flags() & (DW_FLAG_CALLER_WAITS | DW_FLAG_EXCLUSIVE |
                              DW_FLAG_PER_RANK | DW_FLAG_PARTS);
  if (case_.kind == DW_OP_BARRIER) return op;
  op.in = view(in_.get());
  op.out = view(out_.get());
  if (in_place_) op.flags |= DW_FLAG_IN_PLACE;
  if (case_.reduce == DW_REDUCE_PREMUL_SUM) op.scale = factor_.data();
  return op;
}

std::string Call::wrong(int nan_dtype) const {
  std::string text;
  if (in_ != nullptr) text = in_->wrong("the input", nan_dtype);
  if (text.empty() && out_ != nullptr)
    text = out_->wrong("the output", nan_dtype);
  if (text.empty() && absent_ != nullptr)
    text = absent_->wrong("a buffer that this rank does not have", -1);
  if (text.empty() && factor_ != factor(case_.dtype, rank_))
    text = "wrote into the factor";
  return text;
}

std::string Call::wrong_result() {
  want_outputs();
  return wrong(case_.reduces() && is_float(case_.dtype) ? case_.dtype : -1);
}

std::string Call::wrong_refusal() const { return wrong(-1); }

void make_call(Member& member, const Case& c) {
  Call call(c, member);
  dw_op op = call.op();
  op.seq = member.next_seq++;
  if ((op.flags & DW_FLAG_CALLER_WAITS) != 0) op.trace = member.trace;
  dw_error error = {};
  const int32_t asked = member.api.query(member.comm, &op, &error);
  if (asked != DW_OK && asked != DW_DONE)
    return member.find(c.name() + ": query: " + error_text(asked, error));
  Operation operation(op);
  std::string wrong;
  if (!c.grouped()) {
    wrong = operation.begin(member);
    if (wrong.empty()) wrong = operation.end(member);
  } else {
    // Run together with a barrier that follows it.
    dw_op barrier = {};
    barrier.struct_size = sizeof barrier;
    barrier.kind = DW_OP_BARRIER;
    barrier.peer = -1;
    barrier.flags = op.flags & DW_FLAG_CALLER_WAITS;
    barrier.seq = member.next_seq++;
    barrier.trace = op.trace;
    Operation after(barrier);
    std::vector<Operation*> all = {&operation};
    if (promises_of(member).has(DW_OP_BARRIER, 0, 0, barrier.flags))
      all.push_back(&after);
    wrong = begin_group(member, all);
    for (Operation* item : all) {
      const std::string ended = item->end(member);
      if (wrong.empty()) wrong = ended;
    }
  }
  if (wrong.empty()) wrong = call.wrong_result();
  if (!wrong.empty()) member.find(c.name() + ": " + wrong);
}

}  // namespace distwrap::conformance
