#include "comm/op_check.h"

#include "comm/op_shape.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>

#include <vector>

namespace distwrap::comm {
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
  op_check::Range range;
  *view = call.in;
  if (op_check::check_buffer(call.in, &range) == fault) return "input";
  *view = call.out;
  return "output";
}

}  // namespace

ErrorInfo describe_fault(Fault fault, uint16_t kind, const Call& call, int rank,
                         int size, absl::string_view backend,
                         const Capabilities& capabilities) {
  const OpShape& shape = op_shape(kind);
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
      info.expected = supported_text(kind, capabilities);
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
      info.expected = absl::StrCat("0..", op_check::kMaxTag);
      info.actual = absl::StrCat(call.tag);
      info.next_step = "choose a smaller tag";
      break;
  }
  return info;
}

}  // namespace distwrap::comm
