#include "capi/arguments.h"

#include "base/error.h"
#include "capi/entry.h"
#include "distwrap/dlpack.h"

#include <absl/strings/str_cat.h>

#include <cstddef>
#include <utility>

namespace distwrap::capi {

// The C struct and the C++ struct describe the same memory.
static_assert(sizeof(distwrap_tensor) == sizeof(dlpack::Tensor) &&
              offsetof(distwrap_tensor, dtype) ==
                  offsetof(dlpack::Tensor, dtype) &&
              offsetof(distwrap_tensor, shape) ==
                  offsetof(dlpack::Tensor, shape) &&
              offsetof(distwrap_tensor, byte_offset) ==
                  offsetof(dlpack::Tensor, byte_offset));
static_assert(sizeof(distwrap_managed_tensor) ==
                  sizeof(dlpack::ManagedTensorVersioned) &&
              offsetof(distwrap_managed_tensor, flags) ==
                  offsetof(dlpack::ManagedTensorVersioned, flags));
static_assert(dlpack::kReadOnly == DW_DLPACK_READ_ONLY);
// The C constants and the C++ enumerators have equal values.
#define DW_REDUCTION(value, name, enumerator, text, takes, meaning) \
  static_assert(DW_REDUCE_##name == static_cast<int>(ReduceOp::enumerator));
#include "distwrap/abi/reductions.def"
#define DW_DTYPE(index, name, enumerator, text, code, bits, storage) \
  static_assert(DW_DTYPE_##name == static_cast<int>(DType::enumerator));
#include "distwrap/abi/dtypes.def"
#define DW_REASON(value, name, enumerator, code, python, text) \
  static_assert(DW_REASON_##name == static_cast<int>(Reason::enumerator));
#include "distwrap/abi/reasons.def"

// Not inlined, so that a call outside of a batch pays nothing for it.
[[gnu::noinline, gnu::cold]] void Arguments::mean_group_of_batch() {
  BatchBox& box = **batch_;
  base::MutexLock lock(box.mutex);
  options_->group = box.group;
}

void Arguments::read_given(const distwrap_op_options* options, bool async) {
  options_.emplace();
  options_->async = async;
  if (options != nullptr && options->struct_size == sizeof *options)
      [[likely]] {
    given_ = options;
  } else {
    if (absl::Status read = read_options(call_, options, &known_); !read.ok())
      return refuse(std::move(read));
    given_ = &known_;
  }
  has_factor_ = given_->factor != nullptr || given_->factor_tensor != nullptr;
  if (given_->batch != nullptr) {
    batch_ = find(given_->batch);
    if (!batch_)
      return refuse(
          refuse_handle(call_, number_of(given_->batch), Kind::kBatch));
    if (async)
      return refuse(capi::refuse(call_, "a call in a batch has no work",
                                 "give no work, and take the batch's"));
  }
  if (given_->group != nullptr) {
    group_ = find(given_->group);
    if (!group_)
      return refuse(
          refuse_handle(call_, number_of(given_->group), Kind::kGroup));
    // A batch keeps the group. For other calls the handle's box keeps it during
    // the call, so a Group without a reference saves the counting.
    const auto& state = group_->state();
    options_->group =
        batch_ ? *group_
               : Group(std::shared_ptr<group::GroupState>(
                     std::shared_ptr<group::GroupState>(), state.get()));
  } else if (given_->batch != nullptr) {
    mean_group_of_batch();
  }
  if (given_->timeout == DW_FOREVER)
    options_->timeout = absl::InfiniteDuration();
  else if (given_->timeout != 0)
    options_->timeout = absl::Nanoseconds(given_->timeout);
  options_->stream = {{given_->stream.device_type, given_->stream.device_id},
                      given_->stream.native};
  if (given_->label != nullptr) options_->label = given_->label;
}

TensorView Arguments::unusual_view(const distwrap_tensor& tensor) {
  absl::StatusOr<TensorView> view = view_of_dlpack(tensor);
  if (view.ok()) return *view;
  refuse(base::amend_error(view.status(),
                           [&](ErrorInfo& info) { info.op = call_; }));
  return {};
}

Views Arguments::of(const TensorList& argument) {
  if (argument.tensors == nullptr && argument.count != 0) {
    refuse_missing(argument.name);
    return {};
  }
  // No group has so many ranks; a bad count must not allocate memory.
  if (argument.count > INT32_MAX) {
    refuse(capi::refuse(
        call_, absl::StrCat(argument.name, " has ", argument.count, " tensors"),
        "give one tensor for each rank"));
    return {};
  }
  Views views;
  for (uint64_t i = 0; i < argument.count && status_.ok(); ++i)
    views.push_back(of(Tensor{argument.tensors[i], argument.name}));
  return views;
}

absl::Span<const int64_t> Arguments::of(const Rows& argument) {
  if (argument.rows == nullptr && argument.count != 0)
    refuse_missing(argument.name);
  return {argument.rows, argument.rows == nullptr ? 0 : argument.count};
}

ReduceOp Arguments::unusual_reduction(int32_t kind) {
  if (kind == DW_REDUCE_PREMUL_SUM) {
    if (given_->factor != nullptr && given_->factor_tensor != nullptr)
      refuse(capi::refuse(call_, "there are two factors",
                          "give factor or factor_tensor"));
    if (given_->factor != nullptr) return ReduceOp::premul_sum(*given_->factor);
    if (given_->factor_tensor != nullptr)
      return ReduceOp::premul_sum(view_of(*given_->factor_tensor));
    return ReduceOp::kPremulSum;  // the operation reports the missing factor
  }
  if (has_factor_)
    refuse(capi::refuse(call_, "a factor goes with DW_REDUCE_PREMUL_SUM only",
                        "give no factor"));
  if (kind >= DW_REDUCE_SUM && kind <= DW_REDUCE_PREMUL_SUM)
    return static_cast<ReduceOp::Kind>(kind);
  refuse(base::make_error({.reason = Reason::kReduceOp,
                           .what = absl::StrCat("there is no reduction ", kind),
                           .op = call_,
                           .next_step = "use one of DW_REDUCE_*"}));
  return ReduceOp::kSum;
}

void Arguments::refuse_batch() {
  if (batch_)
    refuse(capi::refuse(call_, "the call cannot be in a batch",
                        "make it without one"));
}

void Arguments::refuse_missing(const char* name) {
  refuse(refuse_null(call_, name));
}

void Arguments::refuse_numbering(int32_t numbering) {
  refuse(capi::refuse(
      call_, absl::StrCat("a rank has the numbering ", numbering),
      "use DW_RANK_OF_WORLD or DW_RANK_OF_GROUP, or all zero for nobody"));
}

}  // namespace distwrap::capi
