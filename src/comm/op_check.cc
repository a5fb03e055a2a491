#include "comm/op_check.h"

#include "comm/op_shape.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>

#include <vector>

namespace distwrap::comm {
namespace {

absl::string_view reduction_name(uint16_t reduce) {
  return reduce_op_name(static_cast<ReduceOp::Kind>(reduce));
}

// The element types and reductions that the backend takes for this kind.
std::string supported_text(uint16_t kind, const Capabilities& capabilities) {
  if (!capabilities.supports_kind(kind)) return "";
  std::vector<std::string> parts;
  for (int i = 0; i < kDTypes; ++i) {
    const DType dtype = static_cast<DType>(i);
    std::vector<absl::string_view> reductions;
    for (uint16_t r = 1; r <= DW_REDUCE_PREMUL_SUM; ++r)
      if (capabilities.supports(kind, dtype, r))
        reductions.push_back(reduction_name(r));
    if (!reductions.empty())
      parts.push_back(absl::StrCat(dtype_name(dtype), " with ",
                                   absl::StrJoin(reductions, "/")));
    else if (capabilities.supports(kind, dtype, DW_REDUCE_NONE))
      parts.emplace_back(dtype_name(dtype));
  }
  return absl::StrJoin(parts, ", ");
}

// The name of the buffer with the fault, for the error text: the first that has
// it.
std::string faulty_buffer(Fault fault, const AnyCall& call, uint32_t memory,
                          TensorView* view) {
  op_check::Range range;
  for (const bool input : {true, false}) {
    const char* const name = input ? "input" : "output";
    const auto use = input ? op_check::Use::kInput : op_check::Use::kOutput;
    const absl::Span<const TensorView> list = list_of(call, input);
    for (size_t r = 0; r < list.size(); ++r) {
      *view = list[r];
      if (op_check::check_buffer(*view, use, memory, &range) == fault)
        return absl::StrCat(name, " ", r);
    }
    *view = input ? call.in : call.out;
    if (op_check::check_buffer(*view, use, memory, &range) == fault)
      return name;
  }
  return "output";
}

// DLPack's number, which most people know for two of them.
std::string device_text(Device device) {
  return device == kCpu ? "host memory"
                        : absl::StrCat("device type ", device.type, ", number ",
                                       device.id);
}

std::string taking_dtypes(uint16_t reduce) {
  std::vector<absl::string_view> names;
  for (int i = 0; i < kDTypes; ++i)
    if (reduction_takes(reduce, static_cast<DType>(i)))
      names.push_back(dtype_name(static_cast<DType>(i)));
  return absl::StrJoin(names, ", ");
}

const Counts& counts_of(const AnyCall& call, bool input) {
  return input ? call.in_counts : call.out_counts;
}

// Lists of many ranks are cut after the first ones.
std::string list_text(absl::Span<const int64_t> list) {
  constexpr size_t kShown = 16;
  return absl::StrCat("[", absl::StrJoin(list.subspan(0, kShown), ", "),
                      list.size() > kShown ? ", ...]" : "]");
}

void describe_length(absl::string_view what, bool input, size_t length,
                     int size, ErrorInfo* info) {
  info->reason = Reason::kSplitMismatch;
  info->what = absl::StrCat("the ", input ? "input's " : "output's ", what,
                            " do not have one entry for each rank");
  info->expected = absl::StrCat(size);
  info->actual = absl::StrCat(length);
  info->next_step = "give one number for each rank of the group";
}

void describe_pieces(const AnyCall& call, bool input, ErrorInfo* info) {
  const Counts& counts = counts_of(call, input);
  info->reason = Reason::kSplitMismatch;
  info->what = absl::StrCat("the ", input ? "input's" : "output's",
                            " pieces do not fit into it");
  info->expected = absl::StrCat(
      "pieces within ", (input ? call.in : call.out).count(), " elements");
  info->actual = absl::StrCat(
      "counts ", list_text(counts.counts),
      counts.displs.empty() ? "" : " at " + list_text(counts.displs));
}

}  // namespace

ErrorInfo describe_fault(Fault fault, uint16_t kind, const AnyCall& call,
                         int rank, int size, absl::string_view backend,
                         const Capabilities& capabilities) {
  const OpShape& shape = op_shape(kind);
  ErrorInfo info{.reason = Reason::kInvalidArgument, .op = shape.name};
  const DType reduced = (call.ins.empty() ? call.in : call.ins.front()).dtype();
  TensorView view;
  const std::string which =
      faulty_buffer(fault, call, capabilities.memory(), &view);
  const std::string ranks = absl::StrCat("0..", size - 1);
  switch (fault) {
    case Fault::kNone:
      break;
    case Fault::kUnknownDType:
      info.what = absl::StrCat("the ", which, "'s element type is unknown");
      info.actual = absl::StrCat(static_cast<int>(view.dtype()));
      info.next_step = "use a DType of distwrap/types.h";
      break;
    case Fault::kImpossibleShape:
      info.what = absl::StrCat("the ", which, "'s shape is impossible");
      info.expected = absl::StrCat(
          "at most ", TensorView::kMaxDims,
          " extents of 0 or more, fewer than 2^63 elements, and no strides or "
          "one for each extent");
      info.actual = view.text();
      info.next_step = "correct the shape; parts lie within their tensor";
      break;
    case Fault::kNotContiguous:
      info.what = absl::StrCat("the ", which, " is not contiguous");
      info.expected = "row-major elements without gaps";
      info.actual = view.text();
      info.next_step = "copy it to contiguous memory";
      break;
    case Fault::kReadOnlyOutput:
      info.what = "the output is read-only memory";
      info.actual = view.text();
      info.next_step =
          "give memory that may be written; what is const or "
          "read-only may only be an input";
      break;
    case Fault::kDTypesDiffer:
      info.what = "input and output have different element types";
      info.expected = std::string(dtype_name(call.in.dtype()));
      info.actual = std::string(dtype_name(call.out.dtype()));
      info.next_step = "give both the same type";
      break;
    case Fault::kOtherDevice:
      info.what = absl::StrCat(
          "the ", which,
          " is not in memory of the device that this communicator serves");
      info.expected = device_text(capabilities.device());
      info.actual = device_text(view.device());
      info.next_step = "copy it, or use a backend of that device";
      break;
    case Fault::kUnknownReduction:
      info.reason = Reason::kReduceOp;
      info.what = "Unsupported ReduceOp";
      info.actual = absl::StrCat(call.reduce);
      info.next_step = "use a ReduceOp of distwrap/types.h";
      break;
    case Fault::kUnsupported: {
      info.reason = Reason::kUnsupported;
      const DType dtype = shape.reduces()      ? reduced
                          : !call.outs.empty() ? call.outs[0].dtype()
                          : shape.out != Extent::NONE && !call.lists
                              ? call.out.dtype()
                              : reduced;
      info.what = absl::StrCat("backend ", backend, " has no ", shape.name);
      info.expected = supported_text(kind, capabilities);
      if (!info.expected.empty()) {
        info.actual = std::string(dtype_name(dtype));
        if (shape.reduces())
          absl::StrAppend(&info.actual, " with ", reduction_name(call.reduce));
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
      info.actual = view.text();
      info.next_step = "check the count; it is in elements, not in bytes";
      break;
    case Fault::kNullBuffer:
      info.what = absl::StrCat("the ", which, " has elements but no memory");
      info.actual = absl::StrCat(view.text(), " at NULL");
      info.next_step = "give the address of the elements";
      break;
    case Fault::kCountsDisagree: {
      const bool gathers = shape.out == Extent::ALL_R;
      const bool scatters = shape.in == Extent::ALL_R;
      info.what = "the counts of input and output do not match";
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
      info.reason = Reason::kSplitMismatch;
      info.what =
          absl::StrCat("a buffer is not a multiple of the ", size, " ranks");
      info.actual =
          absl::StrCat("input ", call.in.text(), ", output ", call.out.text());
      info.next_step = "pad the buffers, or give splits for both";
      break;
    case Fault::kOverlap:
      info.what =
          "input and output overlap in a way that the in-place rule does not "
          "allow";
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
    case Fault::kTagOutOfRange:
      info.what = "the tag is out of range";
      info.expected = absl::StrCat("0..", op_check::kMaxTag);
      info.actual = absl::StrCat(call.tag);
      info.next_step = "choose a smaller tag";
      break;
    case Fault::kNoFactor:
      info.what = "premul_sum has no factor";
      info.next_step = "use ReduceOp::premul_sum(factor)";
      break;
    case Fault::kFactorUnusable:
      info.what = "the factor of premul_sum is not one element";
      info.next_step = "give a number, or a TensorView of one element";
      break;
    case Fault::kFactorElsewhere:
      info.what = "the factor of premul_sum lies in memory of another device";
      info.expected = device_text(capabilities.device());
      info.actual = device_text(call.op.tensor_device());
      info.next_step = "copy it to the host or to the group's device";
      break;
    case Fault::kFactorDType:
      info.what =
          "the factor of premul_sum and the input have different element types";
      info.expected = std::string(dtype_name(reduced));
      info.actual = std::string(dtype_name(call.op.tensor_dtype()));
      info.next_step = "give both the same type, or give a number";
      break;
    case Fault::kReductionForDType:
      info.what = absl::StrCat("the reduction ", reduction_name(call.reduce),
                               " is not defined for elements of type ",
                               dtype_name(reduced));
      info.expected = taking_dtypes(call.reduce);
      info.actual = std::string(dtype_name(reduced));
      info.next_step = "convert the data or choose another reduction";
      break;
    case Fault::kAverageInScan:
      info.what = "a scan has no average";
      info.next_step = "scan with sum, and divide by the rank's own count";
      break;
    case Fault::kInputCountsLength:
    case Fault::kOutputCountsLength:
      describe_length(
          "counts", fault == Fault::kInputCountsLength,
          counts_of(call, fault == Fault::kInputCountsLength).counts.size(),
          size, &info);
      break;
    case Fault::kInputDisplsLength:
    case Fault::kOutputDisplsLength:
      describe_length(
          "displs", fault == Fault::kInputDisplsLength,
          counts_of(call, fault == Fault::kInputDisplsLength).displs.size(),
          size, &info);
      break;
    case Fault::kInputPieceNegative:
    case Fault::kOutputPieceNegative:
      describe_pieces(call, fault == Fault::kInputPieceNegative, &info);
      info.what =
          absl::StrCat("a count or displacement of the ",
                       fault == Fault::kInputPieceNegative ? "input" : "output",
                       " is negative");
      info.next_step = "give elements, zero or more for each rank";
      break;
    case Fault::kInputPiecesExceed:
    case Fault::kOutputPiecesExceed:
      describe_pieces(call, fault == Fault::kInputPiecesExceed, &info);
      info.next_step = "correct the counts; they are in elements, not in bytes";
      break;
    case Fault::kPiecesOverlap:
      info.reason = Reason::kSplitMismatch;
      info.what = "pieces of the output overlap";
      info.actual = absl::StrCat("counts ", list_text(call.out_counts.counts),
                                 " at ", list_text(call.out_counts.displs));
      info.next_step = "move the displacements apart";
      break;
    case Fault::kOwnPieceDiffers: {
      const bool gathers = !call.out_counts.counts.empty();
      const Counts& counts = counts_of(call, !gathers);
      info.reason = Reason::kSplitMismatch;
      info.what =
          absl::StrCat("the ", gathers ? "input" : "output",
                       " is not as large as the counts say for this rank");
      const auto own = static_cast<size_t>(rank);
      info.expected = absl::StrCat(counts.counts[own]);
      info.actual = absl::StrCat(gathers && !call.in_counts.counts.empty()
                                     ? call.in_counts.counts[own]
                                     : (gathers ? call.in : call.out).count());
      info.next_step =
          "give equal counts on all ranks, and buffers of these sizes";
      break;
    }
    case Fault::kInputListLength:
    case Fault::kOutputListLength:
    case Fault::kListDTypesDiffer:
    case Fault::kOwnTensorDiffers:
    case Fault::kListOverlap:
    case Fault::kOutputsOverlap:
      describe_list_fault(fault, call, rank, size, &info);
      break;
  }
  return info;
}

}  // namespace distwrap::comm
