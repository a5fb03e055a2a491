#include "cases.h"

#include "sdk/dtype.h"

#include <algorithm>

namespace distwrap::conformance {
namespace {

constexpr int kDtypes = DW_DTYPE_BOOL + 1;
constexpr size_t kSizes[] = {0, 1, 3, 1023, 1024, 4097};
constexpr size_t kLargeSize = 1 << 18;
constexpr uint64_t kLargeSample = 8;  // one of so many

constexpr uint64_t kReductions = DW_BIT(DW_OP_ALL_REDUCE) |
                                 DW_BIT(DW_OP_REDUCE_SCATTER) |
                                 DW_BIT(DW_OP_REDUCE);
constexpr uint64_t kChecked =
    DW_BIT(DW_OP_BARRIER) | DW_BIT(DW_OP_BROADCAST) | DW_BIT(DW_OP_REDUCE) |
    DW_BIT(DW_OP_ALL_REDUCE) | DW_BIT(DW_OP_GATHER) | DW_BIT(DW_OP_SCATTER) |
    DW_BIT(DW_OP_ALL_GATHER) | DW_BIT(DW_OP_REDUCE_SCATTER) |
    DW_BIT(DW_OP_ALL_TO_ALL);
// Reductions that the reference knows.
constexpr uint32_t kKnownReductions =
    DW_BIT(DW_REDUCE_SUM) | DW_BIT(DW_REDUCE_MIN) | DW_BIT(DW_REDUCE_MAX) |
    DW_BIT(DW_REDUCE_BAND) | DW_BIT(DW_REDUCE_BOR) | DW_BIT(DW_REDUCE_BXOR);

bool has_bit(uint64_t mask, int bit) {
  return bit >= 0 && bit < 64 && (mask >> bit & 1) != 0;
}

enum class PeerUse { NO, ROOT, PEER, TARGET };

struct Shape {
  const char* name;
  PeerUse peer;
  enum Extent { NONE, ALL, ALL_R, ROOT, ROOT_R } in, out;
};

Shape shape_of(uint16_t kind) {
  switch (kind) {
#define DW_OP(value, name, enumerator, text, peer, in, out, summary) \
  case value:                                                        \
    return {#text, PeerUse::peer, Shape::in, Shape::out};
#include "distwrap/abi/ops.def"
    default:
      return {"?", PeerUse::NO, Shape::NONE, Shape::NONE};
  }
}

size_t elements(Shape::Extent extent, const Case& c, int rank, int size) {
  const size_t all = c.count * static_cast<size_t>(size);
  switch (extent) {
    case Shape::ALL:
      return c.count;
    case Shape::ALL_R:
      return all;
    case Shape::ROOT:
      return rank == c.root ? c.count : 0;
    case Shape::ROOT_R:
      return rank == c.root ? all : 0;
    default:
      return 0;
  }
}

// What the output must hold; the slow way.
std::string expected(const Case& c, int rank, int size, size_t out_count) {
  if (out_count == 0) return "";
  const size_t own = static_cast<size_t>(rank) * c.count;
  std::string all;
  switch (c.kind) {
    case DW_OP_BROADCAST:
      return values(c.dtype, c.root, 0, c.count);
    case DW_OP_SCATTER:
      return values(c.dtype, c.root, own, c.count);
    case DW_OP_REDUCE:
    case DW_OP_ALL_REDUCE:
      return reduced(c.dtype, c.reduce, size, 0, c.count);
    case DW_OP_REDUCE_SCATTER:
      return reduced(c.dtype, c.reduce, size, own, c.count);
    case DW_OP_GATHER:
    case DW_OP_ALL_GATHER:
      for (int r = 0; r < size; ++r) all += values(c.dtype, r, 0, c.count);
      return all;
    default:
      for (int r = 0; r < size; ++r) all += values(c.dtype, r, own, c.count);
      return all;
  }
}

std::string first_difference(const std::string& got, const std::string& want) {
  const auto at = std::mismatch(got.begin(), got.end(), want.begin()).first;
  return "output differs from byte " + std::to_string(at - got.begin()) +
         " on, of " + std::to_string(want.size());
}

std::vector<int> roots(bool rooted, int size, size_t count, uint64_t seed) {
  if (!rooted) return {-1};
  if (count > 4)
    return {static_cast<int>((seed + count) % static_cast<size_t>(size))};
  std::vector<int> all;
  for (int root = 0; root < size; ++root) all.push_back(root);
  return all;
}

}  // namespace

std::string Case::name() const {
  std::string text = shape_of(kind).name;
  if (kind == DW_OP_BARRIER) return text;
  text += " dtype " + std::to_string(dtype) + " count " + std::to_string(count);
  if (reduce != DW_REDUCE_NONE) text += " reduction " + std::to_string(reduce);
  if (root >= 0) text += " root " + std::to_string(root);
  return in_place ? text + " in place" : text;
}

bool Promises::has_kind(uint16_t kind) const {
  return std::any_of(rows, rows + n, [&](const dw_caps_row& row) {
    return has_bit(row.ops, kind) && has_bit(row.memory, DW_DEVICE_CPU);
  });
}

bool Promises::has(uint16_t kind, int dtype, uint16_t reduce) const {
  return std::any_of(rows, rows + n, [&](const dw_caps_row& row) {
    return has_bit(row.ops, kind) && has_bit(row.memory, DW_DEVICE_CPU) &&
           (kind == DW_OP_BARRIER || has_bit(row.dtypes, dtype)) &&
           (has_bit(kReductions, kind) || kind == DW_OP_SCAN
                ? reduce != DW_REDUCE_NONE && has_bit(row.reductions, reduce)
                : reduce == DW_REDUCE_NONE);
  });
}

Promises promises_of(const Member& member) {
  Promises promises;
  dw_error error = {};
  const int32_t code =
      member.api.caps(member.backend, &promises.rows, &promises.n, &error);
  if (code == DW_OK) return promises;
  member.find("caps: " + error_text(code, error));
  return {};
}

std::vector<Case> promised_cases(const Promises& promises, int size,
                                 uint64_t seed) {
  std::vector<Case> cases;
  uint64_t chosen = seed;
  const auto add = [&](const Case& c) {
    cases.push_back(c);
    if (c.kind == DW_OP_ALL_TO_ALL || c.count == 0) return;
    cases.push_back(c);
    cases.back().in_place = true;
  };
  for (uint16_t kind = 1; kind < 64; ++kind) {
    if (!has_bit(kChecked, kind)) continue;
    if (kind == DW_OP_BARRIER) {
      if (promises.has_kind(kind)) cases.push_back({.kind = kind});
      continue;
    }
    for (int dtype = 0; dtype < kDtypes; ++dtype)
      for (uint16_t reduce = 0; reduce < 32; ++reduce) {
        if (!promises.has(kind, dtype, reduce)) continue;
        if (reduce != DW_REDUCE_NONE && !has_bit(kKnownReductions, reduce))
          continue;
        std::vector<size_t> counts(std::begin(kSizes), std::end(kSizes));
        if (chosen++ % kLargeSample == 0) counts.push_back(kLargeSize);
        for (size_t count : counts)
          for (int root :
               roots(shape_of(kind).peer == PeerUse::ROOT, size, count, seed))
            add({kind, dtype, reduce, count, root, false});
      }
  }
  return cases;
}

Call::Call(const Case& c, int rank, int size)
    : case_(c),
      element_(dw_dtype_bytes(dw_dtype_of(c.dtype))),
      in_count_(elements(shape_of(c.kind).in, c, rank, size)),
      out_count_(elements(shape_of(c.kind).out, c, rank, size)),
      in_(shares_output() ? 0 : in_count_ * element_),
      out_(shares_input() ? 0 : out_count_ * element_),
      expected_(expected(c, rank, size, out_count_)) {
  const size_t own = static_cast<size_t>(rank) * c.count * element_;
  if (out_count_ != 0)
    out_data_ = shares_input() ? in_.data() + (in_count_ > out_count_ ? own : 0)
                               : out_.data();
  if (in_count_ != 0)
    in_data_ = shares_output()
                   ? out_.data() + (out_count_ > in_count_ ? own : 0)
                   : in_.data();
  if (in_count_ != 0) {
    const std::string input = values(c.dtype, rank, 0, in_count_);
    std::copy(input.begin(), input.end(), in_data_);
  }
  in_before_ = in_.get(0, in_.size());
  out_before_ = out_.get(0, out_.size());
}

// In place, the smaller buffer lies within the larger one.
bool Call::shares_output() const {
  return case_.in_place && in_count_ != 0 && out_count_ >= in_count_;
}

bool Call::shares_input() const {
  return case_.in_place && out_count_ != 0 && in_count_ > out_count_;
}

dw_op Call::op() {
  dw_op op = {};
  op.struct_size = sizeof op;
  op.kind = case_.kind;
  op.reduce = case_.reduce;
  op.flags = shares_output() || shares_input() ? DW_FLAG_IN_PLACE : 0;
  op.peer = case_.root;
  if (case_.kind == DW_OP_BARRIER) return op;
  const dw_dtype dtype = dw_dtype_of(case_.dtype);
  op.in.data = in_data_;
  op.in.count = static_cast<int64_t>(in_count_);
  op.in.dtype = dtype;
  op.out.data = out_data_;
  op.out.count = static_cast<int64_t>(out_count_);
  op.out.dtype = dtype;
  return op;
}

std::string Call::strangers() const {
  if (!in_.guards_intact()) return "wrote outside of the input";
  if (!out_.guards_intact()) return "wrote outside of the output";
  return "";
}

std::string Call::wrong_result() const {
  if (const std::string text = strangers(); !text.empty()) return text;
  const std::string got(out_data_, out_count_ * element_);
  if (got != expected_) return first_difference(got, expected_);
  std::string in_now = in_.get(0, in_.size());
  if (shares_input()) {
    // The output's own place is the only one that may have changed.
    const size_t at = static_cast<size_t>(out_data_ - in_.data());
    in_now.replace(at, got.size(), in_before_, at, got.size());
  }
  if (in_now != in_before_) return "wrote into the input";
  return "";
}

std::string Call::wrong_refusal() const {
  if (const std::string text = strangers(); !text.empty()) return text;
  if (in_.get(0, in_.size()) != in_before_) return "wrote into the input";
  if (out_.get(0, out_.size()) != out_before_) return "wrote into the output";
  return "";
}

void make_call(Member& member, const Case& c, bool caller_waits) {
  const std::string name = c.name() + (caller_waits ? "" : " async");
  Call call(c, member.rank, member.size);
  dw_op op = call.op();
  op.seq = member.next_seq++;
  op.flags |= caller_waits ? DW_FLAG_CALLER_WAITS : 0;
  dw_error error = {};
  int32_t code = member.api.query(member.comm, &op, &error);
  if (code != DW_OK && code != DW_DONE)
    return member.find(name + ": query: " + error_text(code, error));
  dw_work work;
  code = member.api.submit(member.comm, &op, caller_waits ? nullptr : &work,
                           &error);
  if (code == DW_OK && caller_waits)
    return member.find(name + ": pending, but the caller waits");
  if (code == DW_OK) {
    if (!work.wait(member.limits.operation)) {
      const dw_error why = {DW_ABORTED, DW_REASON_ABORTED, -1, 0, 0, ""};
      member.api.comm_abort(member.comm, &why);
      return member.find(name + ": did not complete");
    }
    code = work.code() == DW_OK ? DW_DONE : work.code();
    error = work.error();
    if (work.completions() != 1)
      member.find(name + ": completed more than once");
  } else if (work.completions() != 0) {
    member.find(name + ": completed without being pending");
  }
  if (code != DW_DONE)
    return member.find(name + ": submit: " + error_text(code, error));
  if (const std::string wrong = call.wrong_result(); !wrong.empty())
    member.find(name + ": " + wrong);
}

}  // namespace distwrap::conformance
