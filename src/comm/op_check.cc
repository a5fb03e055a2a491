#include "comm/op_check.h"

#include "comm/op_shape.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>

#include <vector>

namespace distwrap::comm {
namespace {

constexpr int64_t kMaxTag = (int64_t{1} << 31) - 1;

// Elements this rank must hold per element of n; 0: no buffer here.
int64_t unit(Extent extent, bool is_root, int size) {
  switch (extent) {
    case Extent::NONE:
      return 0;
    case Extent::ALL:
      return 1;
    case Extent::ALL_R:
      return size;
    case Extent::ROOT:
      return is_root ? 1 : 0;
    case Extent::ROOT_R:
      return is_root ? size : 0;
  }
  return 0;
}

struct Range {
  uintptr_t begin = 0, end = 0;
};

// Faults of one buffer alone; on success its addresses.
Fault check_buffer(const TensorView& view, Range* range) {
  if (static_cast<uint8_t>(view.dtype()) >= kDTypes)
    return Fault::kUnknownDType;
  if (view.device().type != DW_DEVICE_CPU) return Fault::kNotHostMemory;
  if (view.count() < 0) return Fault::kNegativeCount;
  int64_t bytes;
  if (__builtin_mul_overflow(view.count(), dtype_size(view.dtype()), &bytes))
    return Fault::kSizeOverflow;
  if (view.data() == nullptr && view.count() > 0) return Fault::kNullBuffer;
  range->begin = reinterpret_cast<uintptr_t>(view.data());
  if (__builtin_add_overflow(range->begin, static_cast<uintptr_t>(bytes),
                             &range->end))
    return Fault::kSizeOverflow;
  return Fault::kNone;
}

// Where `in` lies when the call is in place: this rank's own part of the larger
// buffer, or the same buffer. 0: the operation cannot be in place.
uintptr_t in_place_address(uint16_t kind, const Range& in, const Range& out,
                           int rank) {
  const auto block = [rank](const Range& small) {
    return static_cast<uintptr_t>(rank) * (small.end - small.begin);
  };
  switch (kind) {
    case DW_OP_ALL_REDUCE:
    case DW_OP_BROADCAST:
      return out.begin;
    case DW_OP_ALL_GATHER:
      return out.begin + block(in);
    case DW_OP_REDUCE_SCATTER:
      return out.begin - block(out);
    default:
      return 0;
  }
}

Fault check_peer(const Call& call, const OpShape& shape, int rank, int size) {
  const bool in_range = call.peer >= 0 && call.peer < size;
  if (shape.peer == PeerRole::ROOT && !in_range) return Fault::kRootOutOfRange;
  if (shape.peer == PeerRole::PEER) {
    if (!in_range) return Fault::kPeerOutOfRange;
    if (call.peer == rank) return Fault::kPeerIsSelf;
    if (call.tag < 0 || call.tag > kMaxTag) return Fault::kTagOutOfRange;
  }
  return Fault::kNone;
}

}  // namespace

CheckedCall check_call(const Call& call, int rank, int size,
                       const Capabilities& capabilities) {
  const OpShape& shape = op_shape(call.kind);
  const auto faulty = [](Fault fault) { return CheckedCall{fault, false}; };
  if (shape.peer != PeerRole::NO) {
    const Fault fault = check_peer(call, shape, rank, size);
    if (fault != Fault::kNone) return faulty(fault);
  }
  const bool is_root = call.peer == rank;
  const int64_t in_unit = unit(shape.in, is_root, size);
  const int64_t out_unit = unit(shape.out, is_root, size);

  Range in, out;
  if (in_unit != 0) {
    const Fault fault = check_buffer(call.in, &in);
    if (fault != Fault::kNone) return faulty(fault);
  }
  if (out_unit != 0) {
    const Fault fault = check_buffer(call.out, &out);
    if (fault != Fault::kNone) return faulty(fault);
  }
  if (shape.reduces() &&
      (call.reduce == DW_REDUCE_NONE || call.reduce > DW_REDUCE_PREMUL_SUM))
    return faulty(Fault::kUnknownReduction);
  const DType dtype = out_unit != 0 ? call.out.dtype() : call.in.dtype();
  if (!capabilities.supports(call.kind, dtype, call.reduce))
    return faulty(Fault::kUnsupported);

  bool in_place = false;
  if (in_unit != 0 && out_unit != 0) {
    if (call.in.dtype() != call.out.dtype())
      return faulty(Fault::kDTypesDiffer);
    if (static_cast<__int128>(call.in.count()) * out_unit !=
        static_cast<__int128>(call.out.count()) * in_unit)
      return faulty(Fault::kCountsDisagree);
    if (in_unit > 1 && call.in.count() % in_unit != 0)
      return faulty(Fault::kNotDivisible);
    if (in.begin < out.end && out.begin < in.end) {
      in_place = in.begin == in_place_address(call.kind, in, out, rank);
      if (!in_place) return faulty(Fault::kOverlap);
    }
  }
  return {Fault::kNone, in_place};
}

namespace {

std::string view_text(const TensorView& view) {
  return absl::StrCat(dtype_name(view.dtype()), " x ", view.count());
}

// What the backend takes for this kind, for people.
std::string supported_text(uint16_t kind, const Capabilities& capabilities) {
  if (!capabilities.supports_kind(kind)) return "";
  std::vector<std::string> parts;
  for (int i = 0; i < kDTypes; ++i) {
    const DType dtype = static_cast<DType>(i);
    std::vector<absl::string_view> reductions;
    for (uint16_t r = 1; r <= DW_REDUCE_PREMUL_SUM; ++r)
      if (capabilities.supports(kind, dtype, r))
        reductions.push_back(reduce_op_name(static_cast<ReduceOp>(r)));
    if (!reductions.empty())
      parts.push_back(absl::StrCat(dtype_name(dtype), " with ",
                                   absl::StrJoin(reductions, "/")));
    else if (capabilities.supports(kind, dtype, DW_REDUCE_NONE))
      parts.emplace_back(dtype_name(dtype));
  }
  return absl::StrJoin(parts, ", ");
}

// The buffer a fault is about, for people: the first that has it.
const char* faulty_buffer(Fault fault, const Call& call, TensorView* view) {
  Range range;
  *view = call.in;
  if (check_buffer(call.in, &range) == fault) return "input";
  *view = call.out;
  return "output";
}

}  // namespace

ErrorInfo describe_fault(Fault fault, const Call& call, int rank, int size,
                         absl::string_view backend,
                         const Capabilities& capabilities) {
  const OpShape& shape = op_shape(call.kind);
  ErrorInfo info{.reason = Reason::kInvalidArgument, .op = shape.name};
  TensorView view;
  const char* const which = faulty_buffer(fault, call, &view);
  const std::string ranks = absl::StrCat("0..", size - 1);
  switch (fault) {
    case Fault::kNone:
      break;
    case Fault::kUnknownDType:
      info.what = absl::StrCat("the ", which, "'s element type is unknown");
      info.actual = absl::StrCat(static_cast<int>(view.dtype()));
      info.next_step = "use a DType of distwrap/types.h";
      break;
    case Fault::kDTypesDiffer:
      info.what = "input and output have different element types";
      info.expected = std::string(dtype_name(call.in.dtype()));
      info.actual = std::string(dtype_name(call.out.dtype()));
      info.next_step = "give both the same type";
      break;
    case Fault::kNotHostMemory:
      info.what = absl::StrCat("the ", which, " is not in host memory");
      info.actual = absl::StrCat("device type ", view.device().type);
      info.next_step = "copy it to the host, or use a backend of that device";
      break;
    case Fault::kUnknownReduction:
      info.reason = Reason::kReduceOp;
      info.what = "Unsupported ReduceOp";
      info.actual = absl::StrCat(call.reduce);
      info.next_step = "use a ReduceOp of distwrap/types.h";
      break;
    case Fault::kUnsupported: {
      info.reason = Reason::kUnsupported;
      const DType dtype =
          shape.out != Extent::NONE ? call.out.dtype() : call.in.dtype();
      info.what = absl::StrCat("backend ", backend, " has no ", shape.name);
      info.expected = supported_text(call.kind, capabilities);
      if (!info.expected.empty()) {
        info.actual = std::string(dtype_name(dtype));
        if (shape.reduces())
          absl::StrAppend(&info.actual, " with ",
                          reduce_op_name(static_cast<ReduceOp>(call.reduce)));
        absl::StrAppend(&info.what, " for ", info.actual);
      }
      info.next_step = "convert the data or choose another backend";
      break;
    }
    case Fault::kNegativeCount:
      info.what = absl::StrCat("the ", which, "'s count is negative");
      info.actual = absl::StrCat(view.count());
      info.next_step = "give the number of elements";
      break;
    case Fault::kSizeOverflow:
      info.what =
          absl::StrCat("the ", which, " does not fit into the address space");
      info.actual = view_text(view);
      info.next_step = "check the count; it is in elements, not in bytes";
      break;
    case Fault::kNullBuffer:
      info.what = absl::StrCat("the ", which, " has elements but no memory");
      info.actual = absl::StrCat(view_text(view), " at NULL");
      info.next_step = "give the address of the elements";
      break;
    case Fault::kCountsDisagree: {
      const bool gathers = shape.out == Extent::ALL_R;
      const bool scatters = shape.in == Extent::ALL_R;
      info.what = "input and output counts do not fit each other";
      info.expected =
          gathers && !scatters
              ? absl::StrCat("output of ", size, " x the input's count")
          : scatters && !gathers
              ? absl::StrCat("input of ", size, " x the output's count")
              : "equal counts";
      info.actual = absl::StrCat("input ", call.in.count(), ", output ",
                                 call.out.count());
      info.next_step = "correct the counts; they are in elements";
      break;
    }
    case Fault::kNotDivisible:
      info.what =
          absl::StrCat("the count is not a multiple of the ", size, " ranks");
      info.actual = absl::StrCat(call.in.count());
      info.next_step = "pad the buffers";
      break;
    case Fault::kOverlap:
      info.what =
          "input and output overlap, and not as the in-place rule allows";
      info.actual = absl::StrCat(
          "input [0x", absl::Hex(reinterpret_cast<uintptr_t>(call.in.data())),
          ", ", call.in.count(), "), output [0x",
          absl::Hex(reinterpret_cast<uintptr_t>(call.out.data())), ", ",
          call.out.count(), ")");
      info.next_step = "use separate memory, or the in-place form of the call";
      break;
    case Fault::kRootOutOfRange:
      info.what = "the root is not a rank of the group";
      info.expected = ranks;
      info.actual = absl::StrCat(call.peer);
      info.next_step = "give a rank of the group";
      break;
    case Fault::kPeerOutOfRange:
      info.what = "the peer is not a rank of the group";
      info.expected = ranks;
      info.actual = absl::StrCat(call.peer);
      info.next_step = "give a rank of the group";
      break;
    case Fault::kPeerIsSelf:
      info.what = absl::StrCat("rank ", rank, " is this rank itself");
      info.next_step = "copy the memory";
      break;
    case Fault::kTagOutOfRange:
      info.what = "the tag is out of range";
      info.expected = absl::StrCat("0..", kMaxTag);
      info.actual = absl::StrCat(call.tag);
      info.next_step = "choose a smaller tag";
      break;
  }
  return info;
}

}  // namespace distwrap::comm
