// Hooks in C: the struct that a callback sees, and the answer that it gives.
#include "distwrap/hooks.h"

#include "base/error.h"
#include "capi/entry.h"
#include "capi/seen.h"
#include "distwrap/c.h"
#include "distwrap/distwrap.h"
#include "distwrap/group_options.h"

#include <absl/strings/str_cat.h>

#include <string>
#include <utility>
#include <vector>

namespace distwrap::capi {
namespace {

// A HookedCall as a C struct, with the memory behind its pointers.
class CallInC {
 public:
  explicit CallInC(const HookedCall& call)
      : op_(call.op),
        group_(call.group),
        label_(call.label),
        inputs_(buffers_of(call.inputs)),
        outputs_(buffers_of(call.outputs)) {
    c_.struct_size = sizeof c_;
    c_.kind = call.kind;
    c_.id = call.id;
    c_.op = op_.c_str();
    c_.group = group_.c_str();
    c_.label = label_.c_str();
    c_.group_uid = call.group_uid;
    c_.rank = call.rank;
    c_.group_size = call.group_size;
    c_.inputs = inputs_.data();
    c_.inputs_count = inputs_.size();
    c_.outputs = outputs_.data();
    c_.outputs_count = outputs_.size();
    c_.in_counts = data_of(call.in_counts);
    c_.in_displs = data_of(call.in_displs);
    c_.out_counts = data_of(call.out_counts);
    c_.out_displs = data_of(call.out_displs);
    c_.reduction =
        static_cast<int32_t>(call.reduces ? call.reduction.kind() : 0);
    c_.peer = call.peer;
    c_.tag = call.tag;
    c_.timeout = nanoseconds_of(call.timeout);
    c_.stream.device_type = call.stream.device.type;
    c_.stream.device_id = call.stream.device.id;
    c_.stream.native = call.stream.native;
    c_.seq = call.seq;
    c_.batch = call.batch;
    c_.items = call.items;
    c_.objects = call.object_count;
    c_.is_async = call.async ? 1 : 0;
    c_.in_place = call.in_place ? 1 : 0;
    c_.exclusive = call.exclusive ? 1 : 0;
    c_.color = call.color;
    c_.key = call.key;
    c_.window = call.window;
    c_.offset = call.offset;
    c_.signal = call.signal;
    c_.value = call.value;
    if (call.split != nullptr) describe(*call.split);
    if (call.new_group != nullptr) describe(*call.new_group);
  }
  CallInC(const CallInC&) = delete;
  CallInC& operator=(const CallInC&) = delete;

  const distwrap_hooked_call* get() const { return &c_; }

 private:
  static std::vector<distwrap_output> buffers_of(
      absl::Span<const TensorView> views) {
    std::vector<distwrap_output> buffers;
    for (const TensorView& view : views)
      buffers.push_back({view.data(),
                         view.count(),
                         {view.device().type, view.device().id},
                         static_cast<int32_t>(view.dtype()),
                         0});
    return buffers;
  }
  static const int64_t* data_of(absl::Span<const int64_t> counts) {
    return counts.empty() ? nullptr : counts.data();
  }
  static int64_t nanoseconds_of(absl::Duration timeout) {
    return timeout == absl::InfiniteDuration()
               ? DW_FOREVER
               : absl::ToInt64Nanoseconds(timeout);
  }

  template <class Options>
  void describe_both(const Options& options) {
    options_.struct_size = sizeof options_;
    options_.timeout =
        options.timeout.has_value() ? nanoseconds_of(*options.timeout) : 0;
    options_.backend =
        options.backend.empty() ? nullptr : options.backend.c_str();
    options_.description = options.group_desc.c_str();
    if (options.hints.has_value()) {
      for (const auto& [key, value] : *options.hints)
        hints_.push_back({key.c_str(), value.c_str()});
      options_.hints = hints_.data();
      options_.hints_count = hints_.size();
    }
    options_.ranks = ranks_.empty() ? nullptr : ranks_.data();
    options_.ranks_count = ranks_.size();
    c_.group_options = &options_;
  }
  void describe(const SplitOptions& options) {
    for (const std::vector<int>& list : options.split_ranks) {
      ranks_.insert(ranks_.end(), list.begin(), list.end());
      sizes_.push_back(list.size());
    }
    options_.list_sizes = sizes_.data();
    options_.lists = sizes_.size();
    describe_both(options);
  }
  void describe(const NewGroupOptions& options) {
    if (options.ranks.has_value()) {
      ranks_.assign(options.ranks->begin(), options.ranks->end());
    }
    options_.use_local_synchronization =
        options.use_local_synchronization ? 1 : 0;
    options_.has_device_id = options.device_id.has_value() ? 1 : 0;
    options_.device_id = options.device_id.value_or(0);
    describe_both(options);
  }

  const std::string op_, group_, label_;
  const std::vector<distwrap_output> inputs_, outputs_;
  std::vector<int32_t> ranks_;
  std::vector<uint64_t> sizes_;
  std::vector<distwrap_pair> hints_;
  distwrap_group_options options_ = {};
  distwrap_hooked_call c_ = {};
};

absl::Status answer_of(int32_t code, const char* why) {
  if (code == DW_OK) return absl::OkStatus();
  return absl::Status(
      base::code_of_abi(code),
      why != nullptr ? std::string(why) : absl::StrCat("code ", code));
}

// The callback's error lives until the callback returns.
void tell(distwrap_post_hook function, void* user, const HookedCall& call,
          const absl::Status& status) {
  const CallInC in_c(call);
  distwrap_error error = nullptr;
  const int32_t code = status.ok() ? DW_OK : fail(status, &error);
  struct Free {
    ~Free() { free_handle(error); }
    distwrap_error error;
  } const free{error};
  function(user, in_c.get(), code, error);
}

Hooks hooks_of(const distwrap_hooks& given) {
  Hooks hooks;
  void* const user = given.user;
  if (given.pre != nullptr)
    hooks.pre = [user, f = given.pre](const HookedCall& call) {
      const char* why = nullptr;
      const int32_t code = f(user, CallInC(call).get(), &why);
      return answer_of(code, why);
    };
  if (given.post != nullptr)
    hooks.post = [user, f = given.post](const HookedCall& call,
                                        const absl::Status& status) {
      tell(f, user, call, status);
    };
  if (given.completion != nullptr)
    hooks.completion = [user, f = given.completion](
                           const HookedCall& call, const absl::Status& status) {
      tell(f, user, call, status);
    };
  if (given.straggler != nullptr)
    hooks.straggler = [user, f = given.straggler](const Straggling& waits) {
      const std::string group(waits.group), op(waits.op), label(waits.label),
          text(waits.text);
      const std::vector<distwrap_seen_rank> missing = seen_in_c(waits.missing);
      const distwrap_straggling in_c = {
          sizeof in_c,    waits.logged ? 1u : 0u,
          group.c_str(),  waits.group_uid,
          waits.rank,     waits.group_size,
          op.c_str(),     waits.seq,
          label.c_str(),  absl::ToInt64Nanoseconds(waits.waited),
          missing.data(), missing.size(),
          text.c_str()};
      f(user, &in_c);
    };
  if (given.abort != nullptr)
    hooks.abort = [user, f = given.abort](const BrokenGroup& group,
                                          const absl::Status& cause) {
      HookedCall call;
      call.op = "abort";
      call.group = group.name;
      call.group_uid = group.uid;
      call.rank = group.rank;
      call.group_size = group.size;
      tell(f, user, call, cause);
    };
  return hooks;
}

}  // namespace
}  // namespace distwrap::capi

using namespace distwrap::capi;  // NOLINT(google-build-using-namespace)

int32_t distwrap_add_hook(distwrap_group group, const distwrap_hooks* hooks,
                          distwrap_hook* hook, distwrap_error* error) {
  constexpr const char* kCall = "add_hook";
  return entry(kCall, error, [&]() -> absl::Status {
    if (hook == nullptr) return refuse_null(kCall, "hook");
    *hook = nullptr;
    if (hooks == nullptr) return refuse_null(kCall, "hooks");
    distwrap_hooks given;
    if (absl::Status read = read_options(kCall, hooks, &given); !read.ok())
      return read;
    const auto of = group_of(kCall, group);
    if (!of.ok()) return of.status();
    auto added = distwrap::add_hook(*of, hooks_of(given));
    if (!added.ok()) return added.status();
    return hand_out(kCall, *std::move(added), hook);
  });
}

int32_t distwrap_hook_free(distwrap_hook hook) { return free_handle(hook); }
