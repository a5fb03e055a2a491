// The rules of list forms: one view for each rank in place of a divided buffer.
#include "comm/op_check.h"
#include "comm/op_shape.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <vector>

namespace distwrap::comm {
namespace {

using op_check::check_buffer;
using op_check::Range;
using op_check::Use;

// A view of a list, where it lies.
struct Placed {
  Range range;
  size_t rank = 0;
};

bool empty(const Range& range) { return range.begin == range.end; }

Fault check_list(absl::Span<const TensorView> list, int size, bool input,
                 uint32_t memory, std::vector<Placed>* places) {
  if (list.size() != static_cast<size_t>(size))
    return input ? Fault::kInputListLength : Fault::kOutputListLength;
  int64_t sum = 0;
  for (size_t r = 0; r < list.size(); ++r) {
    Placed& place = places->emplace_back();
    place.rank = r;
    if (const Fault fault = check_buffer(
            list[r], input ? Use::kInput : Use::kOutput, memory, &place.range);
        fault != Fault::kNone)
      return fault;
    if (list[r].dtype() != list[0].dtype()) return Fault::kListDTypesDiffer;
    if (__builtin_add_overflow(sum, list[r].count(), &sum))
      return Fault::kSizeOverflow;
  }
  return Fault::kNone;
}

Fault check_single(const TensorView& view, Use use, uint32_t memory,
                   std::vector<Placed>* places) {
  return check_buffer(view, use, memory, &places->emplace_back().range);
}

// Leaves the views that have elements, by address; whether two of them share
// memory.
bool outputs_overlap(std::vector<Placed>* outs) {
  outs->erase(
      std::remove_if(outs->begin(), outs->end(),
                     [](const Placed& out) { return empty(out.range); }),
      outs->end());
  std::sort(outs->begin(), outs->end(), [](const Placed& a, const Placed& b) {
    return a.range.begin < b.range.begin;
  });
  return std::adjacent_find(outs->begin(), outs->end(),
                            [](const Placed& a, const Placed& b) {
                              return b.range.begin < a.range.end;
                            }) != outs->end();
}

const TensorView& of(absl::Span<const TensorView> list, const TensorView& view,
                     int rank) {
  return list.empty() ? view : list[static_cast<size_t>(rank)];
}

}  // namespace

CheckedCall check_list_call(const OpShape& shape, const AnyCall& call, int rank,
                            int size, uint32_t memory) {
  const auto faulty = [](Fault fault) { return CheckedCall{fault, false}; };
  const bool is_root = call.peer == rank;
  const bool has_in = has_buffer(shape.in, is_root);
  const bool has_out = has_buffer(shape.out, is_root);
  const bool list_in = is_divided(shape.in);
  const bool list_out = is_divided(shape.out);
  std::vector<Placed> ins, outs;
  if (has_in)
    if (const Fault fault =
            list_in ? check_list(call.ins, size, true, memory, &ins)
                    : check_single(call.in, Use::kInput, memory, &ins);
        fault != Fault::kNone)
      return faulty(fault);
  if (has_out)
    if (const Fault fault =
            list_out ? check_list(call.outs, size, false, memory, &outs)
                     : check_single(call.out, Use::kOutput, memory, &outs);
        fault != Fault::kNone)
      return faulty(fault);
  bool in_place = false;
  if (has_in && has_out) {
    const TensorView& in = of(call.ins, call.in, rank);
    const TensorView& out = of(call.outs, call.out, rank);
    if (in.dtype() != out.dtype()) return faulty(Fault::kListDTypesDiffer);
    if (in.count() != out.count()) return faulty(Fault::kOwnTensorDiffers);
    in_place =
        !(list_in && list_out) && in.count() > 0 && in.data() == out.data();
  }
  if (outputs_overlap(&outs)) return faulty(Fault::kOutputsOverlap);
  const auto own = static_cast<size_t>(rank);
  for (const Placed& in : ins) {
    if (empty(in.range)) continue;
    // The first output that ends behind the input's begin.
    const auto out = std::partition_point(
        outs.begin(), outs.end(),
        [&](const Placed& place) { return place.range.end <= in.range.begin; });
    for (auto at = out; at != outs.end() && at->range.begin < in.range.end;
         ++at) {
      const bool own_pair = (!list_in || in.rank == own) &&
                            (!list_out || at->rank == own) && in_place;
      if (!own_pair) return faulty(Fault::kListOverlap);
    }
  }
  return {Fault::kNone, in_place};
}

void describe_list_fault(Fault fault, const AnyCall& call, int rank, int size,
                         ErrorInfo* info) {
  switch (fault) {
    case Fault::kInputListLength:
    case Fault::kOutputListLength: {
      const bool input = fault == Fault::kInputListLength;
      info->what = absl::StrCat("the list of ", input ? "inputs" : "outputs",
                                " does not have one tensor for each rank");
      info->expected = absl::StrCat(size);
      info->actual = absl::StrCat(list_of(call, input).size());
      info->next_step = "give one tensor for each rank of the group";
      break;
    }
    case Fault::kListDTypesDiffer: {
      info->what = "the tensors have different element types";
      const DType first =
          (call.outs.empty() ? call.out : call.outs.front()).dtype();
      info->expected = std::string(dtype_name(first));
      for (const bool input : {false, true}) {
        for (const TensorView& view : list_of(call, input))
          if (view.dtype() != first)
            info->actual = std::string(dtype_name(view.dtype()));
        const TensorView& single = input ? call.in : call.out;
        if (info->actual.empty() && list_of(call, input).empty() &&
            single.dtype() != first)
          info->actual = std::string(dtype_name(single.dtype()));
      }
      info->next_step = "give all the same type";
      break;
    }
    case Fault::kOwnTensorDiffers:
      info->what = absl::StrCat("input and output of the own rank ", rank,
                                " have different counts");
      info->expected =
          absl::StrCat("input of ", of(call.outs, call.out, rank).count());
      info->actual = absl::StrCat(of(call.ins, call.in, rank).count());
      info->next_step = "correct the counts; they are in elements";
      break;
    case Fault::kListOverlap:
      info->what =
          "an input and an output overlap in a way that the in-place rule does "
          "not allow";
      info->next_step = "use separate memory, or the in-place form of the call";
      break;
    default:
      info->what = "two outputs of the list overlap";
      info->next_step = "give each rank's output memory of its own";
  }
}

}  // namespace distwrap::comm
