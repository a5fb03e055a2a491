#include "comm/window_check.h"

#include "comm/op_shape.h"

#include <absl/strings/str_cat.h>

namespace distwrap::comm {
namespace {

using op_check::Use;

bool is_atomic(uint16_t kind) {
  return kind == DW_OP_ACCUMULATE || kind == DW_OP_FETCH_OP ||
         kind == DW_OP_COMPARE_SWAP;
}

WindowFault check_signal(const WindowCall& call, const WindowPlace& place) {
  if (call.signal == kPairSignal) return WindowFault::kNone;
  if (call.signal < 0 || static_cast<uint64_t>(call.signal) >= place.signals)
    return WindowFault::kSignal;
  return WindowFault::kNone;
}

bool overlap(const TensorView& a, const TensorView& b) {
  const auto begin = [](const TensorView& view) {
    return reinterpret_cast<uintptr_t>(view.data());
  };
  const auto end = [&](const TensorView& view) {
    return begin(view) +
           static_cast<uintptr_t>(view.count() * dtype_size(view.dtype()));
  };
  return begin(a) < end(b) && begin(b) < end(a);
}

// Checks the result buffer: as many elements of the same type as are moved.
CheckedWindowCall check_result(uint16_t kind, const WindowCall& call,
                               const WindowPlace& place) {
  op_check::Range range;
  if (const Fault fault = op_check::check_buffer(
          call.in, Use::kInput, place.capabilities.memory(), &range);
      fault != Fault::kNone)
    return {WindowFault::kBuffer, fault};
  if (call.in.dtype() != call.out.dtype()) return {WindowFault::kDTypesDiffer};
  const bool swap = kind == DW_OP_COMPARE_SWAP;
  const bool fits = swap ? call.in.count() == 2 && call.out.count() == 1
                         : call.in.count() == call.out.count();
  if (!fits) return {WindowFault::kCounts};
  if (overlap(call.in, call.out)) return {WindowFault::kOverlap};
  return {};
}

CheckedWindowCall check_move(uint16_t kind, const WindowCall& call,
                             const WindowPlace& place) {
  const bool gives =
      kind == DW_OP_GET || kind == DW_OP_FETCH_OP || kind == DW_OP_COMPARE_SWAP;
  CheckedWindowCall checked =
      check_window_move(kind, gives ? call.out : call.in,
                        gives ? Use::kOutput : Use::kInput, call, place);
  if (checked.fault == WindowFault::kNone && gives && kind != DW_OP_GET)
    if (const CheckedWindowCall result = check_result(kind, call, place);
        result.fault != WindowFault::kNone)
      return result;
  if (checked.fault == WindowFault::kUnsupported && op_shape(kind).reduces() &&
      !reduction_takes(call.reduce, call.in.dtype()))
    checked.fault = WindowFault::kReduction;
  if (checked.fault != WindowFault::kNone || !is_atomic(kind)) return checked;
  const WindowPart& part = place.parts[static_cast<size_t>(call.target)];
  if (part.misaligned % dtype_size(part.dtype) != 0)
    return {WindowFault::kMisaligned};
  return checked;
}

std::string span_text(const WindowCall& call, const TensorView& view) {
  return absl::StrCat(view.count(), " elements at ", call.offset);
}

const TensorView& moved(uint16_t kind, const WindowCall& call) {
  return kind == DW_OP_PUT || kind == DW_OP_ACCUMULATE ? call.in : call.out;
}

}  // namespace

CheckedWindowCall check_window_call(uint16_t kind, const WindowCall& call,
                                    const WindowPlace& place) {
  const bool in_range = static_cast<size_t>(call.target) < place.parts.size();
  switch (kind) {
    case DW_OP_SIGNAL:
      if (!in_range) return {WindowFault::kTarget};
      if (call.signal != kPairSignal && call.how != DW_SIGNAL_SET &&
          call.how != DW_SIGNAL_ADD)
        return {WindowFault::kHow};
      return {check_signal(call, place)};
    case DW_OP_WAIT_SIGNAL:
      if (call.signal == kPairSignal)
        return {in_range ? WindowFault::kNone : WindowFault::kTarget};
      if (call.compare < DW_COMPARE_EQ || call.compare > DW_COMPARE_GE)
        return {WindowFault::kCompare};
      return {check_signal(call, place)};
    case DW_OP_FLUSH:
    case DW_OP_FENCE:
      return {in_range || call.target == -1 ? WindowFault::kNone
                                            : WindowFault::kTarget};
    default:
      break;
  }
  CheckedWindowCall checked = check_move(kind, call, place);
  if (checked.fault == WindowFault::kNone && call.with_signal) {
    checked.fault = check_signal(call, place);
    if (checked.fault == WindowFault::kNone && call.signal != kPairSignal &&
        call.how != DW_SIGNAL_SET && call.how != DW_SIGNAL_ADD)
      checked.fault = WindowFault::kHow;
  }
  return checked;
}

ErrorInfo describe_window_fault(const CheckedWindowCall& checked, uint16_t kind,
                                const WindowCall& call,
                                const WindowPlace& place,
                                absl::string_view backend) {
  const size_t size = place.parts.size();
  const TensorView& view = moved(kind, call);
  if (checked.fault == WindowFault::kBuffer) {
    AnyCall as_call;
    as_call.in = call.in;
    as_call.out = call.out;
    return describe_fault(checked.buffer, kind, as_call, place.rank,
                          static_cast<int>(size), backend, place.capabilities);
  }
  const bool known = static_cast<size_t>(call.target) < size;
  const WindowPart part =
      known ? place.parts[static_cast<size_t>(call.target)] : WindowPart{};
  ErrorInfo info{.reason = Reason::kInvalidArgument};
  if (known) info.ranks = {call.target};
  switch (checked.fault) {
    case WindowFault::kNone:
    case WindowFault::kBuffer:
      break;
    case WindowFault::kTarget:
      info.what = "the target is not a rank of the window's group";
      info.expected = absl::StrCat("0..", size - 1);
      info.actual = absl::StrCat(call.target);
      info.next_step = "name a rank of the group";
      break;
    case WindowFault::kNegativeOffset:
      info.what = "the offset is negative";
      info.actual = absl::StrCat(call.offset);
      info.next_step = "count from the beginning of the target's part";
      break;
    case WindowFault::kBeyond:
      info.what = "the call reaches beyond the target's part of the window";
      info.expected =
          absl::StrCat("within ", part.count, " elements of ",
                       dtype_name(part.dtype), " on rank ", call.target);
      info.actual =
          absl::StrCat(span_text(call, view), " of ", dtype_name(view.dtype()));
      info.next_step =
          "offsets count elements of the target's type; ask get_attr for its "
          "size";
      break;
    case WindowFault::kDTypesDiffer:
      info.what = "the element types differ";
      info.expected =
          absl::StrCat(dtype_name(part.dtype), " as in the target's part");
      info.actual = call.in.count() > 0 && call.out.count() > 0
                        ? absl::StrCat(dtype_name(call.in.dtype()), " and ",
                                       dtype_name(call.out.dtype()))
                        : std::string(dtype_name(view.dtype()));
      info.next_step =
          "give the target's type, or make the window of bytes (u8), which "
          "takes puts and gets of all";
      break;
    case WindowFault::kMisaligned:
      info.what =
          "the target's part is not aligned to its elements, which atomic "
          "operations need";
      info.expected = absl::StrCat("an address that is a multiple of ",
                                   dtype_size(part.dtype));
      info.actual = absl::StrCat(part.misaligned, " bytes off");
      info.next_step = "bring aligned memory, or let the window allocate it";
      break;
    case WindowFault::kUnsupported:
      info.reason = Reason::kUnsupported;
      info.what =
          absl::StrCat("backend ", backend, " has no ", op_shape(kind).name,
                       " on windows for ", dtype_name(view.dtype()));
      info.next_step = "see docs/windows.md for what each backend has";
      break;
    case WindowFault::kCounts:
      info.what = kind == DW_OP_COMPARE_SWAP
                      ? "compare_swap takes two elements and returns one"
                      : "the numbers of operands and results differ";
      info.actual =
          absl::StrCat(call.in.count(), " in, ", call.out.count(), " out");
      info.next_step = "give a result for each operand";
      break;
    case WindowFault::kOverlap:
      info.what = "operands and results are the same memory";
      info.next_step = "give results memory of their own";
      break;
    case WindowFault::kSignal:
      info.what = "the window has no such signal";
      info.expected = absl::StrCat("0 <= index < ", place.signals);
      info.actual = absl::StrCat(call.signal);
      info.next_step = "make the window with more signals";
      break;
    case WindowFault::kHow:
      info.what = "the way to raise the signal is unknown";
      info.actual = absl::StrCat(call.how);
      info.next_step = "use SignalHow::kSet or SignalHow::kAdd";
      break;
    case WindowFault::kCompare:
      info.what = "the comparison is unknown";
      info.actual = absl::StrCat(call.compare);
      info.next_step = "use a Compare of distwrap/window.h";
      break;
    case WindowFault::kReduction:
      info.reason = Reason::kReduceOp;
      info.what =
          absl::StrCat("Unsupported ReduceOp ",
                       reduce_op_name(static_cast<ReduceOp::Kind>(call.reduce)),
                       " for ", dtype_name(call.in.dtype()));
      info.next_step = "see distwrap/reduce_op.h";
      break;
  }
  return info;
}

}  // namespace distwrap::comm
