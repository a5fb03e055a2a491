#include "comm/setup.h"

#include "base/bytes.h"
#include "base/error.h"
#include "store/exchange.h"

#include <absl/strings/str_cat.h>

#include <vector>

namespace distwrap::comm {
namespace {

// A rank's part of a round: its blob, or why it has none.
constexpr uint8_t kBlob = 0;
constexpr uint8_t kFailed = 1;
constexpr size_t kMaxFailureText = 4096;

std::string blob_frame(const dw_blob& blob) {
  base::ByteWriter out;
  out.u8(kBlob);
  out.bytes(absl::string_view(static_cast<const char*>(blob.data), blob.size));
  return out.take();
}

std::string failure_frame(absl::string_view text) {
  base::ByteWriter out;
  out.u8(kFailed);
  out.text(text.substr(0, kMaxFailureText));
  return out.take();
}

ErrorInfo info_of(const SetupPlan& plan) {
  return {.op = "init",
          .group = plan.group,
          .my_rank = plan.rank,
          .group_size = plan.size};
}

// All ranks' frames of one round, each a blob frame; the error of the first
// rank that failed.
absl::StatusOr<std::vector<std::string>> exchange_round(
    Store& store, const std::string& key, const SetupPlan& plan,
    const std::string& frame, Deadline deadline) {
  absl::StatusOr<std::vector<std::string>> frames =
      store::exchange(store, key, plan.rank, plan.size, frame, deadline);
  if (!frames.ok())
    return base::amend_error(frames.status(), [&](ErrorInfo& info) {
      info.op = "init";
      info.group = plan.group;
      info.my_rank = plan.rank;
      info.group_size = plan.size;
    });
  for (size_t rank = 0; rank < frames->size(); ++rank) {
    base::ByteReader in((*frames)[rank]);
    if (in.u8() == kBlob && in.ok()) continue;
    ErrorInfo failed = info_of(plan);
    failed.reason = Reason::kAborted;
    failed.what = "another rank could not build the group";
    failed.ranks = {static_cast<int>(rank)};
    failed.cause = std::string(in.text(kMaxFailureText));
    failed.next_step = "mend the cause on that rank";
    return base::make_error(failed);
  }
  return frames;
}

void discard(const dw_backend_api& api, dw_comm* comm) {
  const dw_error why{
      DW_ABORTED, DW_REASON_ABORTED, -1, 0, 0, "the group was not completed"};
  api.comm_abort(comm, &why);
  api.comm_destroy(comm, 0, nullptr);
}

// The setup object, cancelled unless it was consumed.
class Rounds {
 public:
  Rounds(const dw_backend_api& api, dw_setup* setup)
      : api_(api), setup_(setup) {}
  ~Rounds() {
    if (setup_ != nullptr) api_.setup_cancel(setup_);
  }
  Rounds(const Rounds&) = delete;
  Rounds& operator=(const Rounds&) = delete;

  int32_t step(const std::vector<dw_blob>& in, dw_blob* out,
               dw_setup_result* result, dw_error* error) {
    const int32_t code =
        api_.setup_step(setup_, in.data(), in.size(), out, result, error);
    if (code != DW_OK) setup_ = nullptr;  // done or failed: it is gone
    return code;
  }

 private:
  const dw_backend_api& api_;
  dw_setup* setup_;
};

}  // namespace

absl::StatusOr<dw_comm*> build_communicator(BackendInstance& backend,
                                            Store& store, const SetupPlan& plan,
                                            Deadline deadline) {
  const std::vector<dw_hint> hints = hints_of(plan.hints);
  const dw_setup_info info{
      .struct_size = sizeof(dw_setup_info),
      .flags = DW_SETUP_COMMUNICATOR,
      .rank = plan.rank,
      .size = plan.size,
      .uid = plan.uid,
      .epoch = plan.epoch,
      .host_of = nullptr,
      .parent_rank = nullptr,
      .parent = nullptr,
      .hints = hints.data(),
      .n_hints = hints.size(),
      .deadline_ns = deadline.is_never() ? 0 : deadline.ns(),
      .memory = {},
      .signals = 0,
      .next = nullptr};
  const auto own_failure = [&](int32_t code, const dw_error& error) {
    ErrorInfo failed = backend_error(code, error, backend.name());
    const ErrorInfo who = info_of(plan);
    failed.op = who.op;
    failed.group = who.group;
    failed.my_rank = who.my_rank;
    failed.group_size = who.group_size;
    return base::make_error(failed);
  };
  // What the others are told, whether or not they are still there.
  const auto tell_failure = [&](const std::string& key,
                                const absl::Status& status) {
    (void)store::exchange(
        store, key, plan.rank, plan.size, failure_frame(status.message()),
        Deadline::earlier(deadline, Deadline::after(absl::Seconds(1))));
    return status;
  };

  dw_error error{};
  dw_setup* setup = nullptr;
  dw_blob out{};
  int32_t code =
      backend.api().setup_begin(backend.backend(), &info, &setup, &out, &error);
  const std::string prefix =
      absl::StrCat("group/", plan.uid, "/", plan.epoch, "/setup/");
  if (code != DW_OK)
    return tell_failure(prefix + "0", own_failure(code, error));
  Rounds rounds(backend.api(), setup);

  // A rank that is done takes part in one more round, with an empty blob: the
  // communicator then exists on all ranks or on none.
  dw_setup_result result{};
  for (int round = 0;; ++round) {
    const absl::StatusOr<std::vector<std::string>> frames = exchange_round(
        store, absl::StrCat(prefix, round), plan, blob_frame(out), deadline);
    if (!frames.ok()) {
      if (result.comm != nullptr) discard(backend.api(), result.comm);
      return frames.status();
    }
    if (result.comm != nullptr) return result.comm;
    std::vector<dw_blob> blobs;
    for (const std::string& frame : *frames)
      blobs.push_back({frame.data() + 1, frame.size() - 1, nullptr, 0});
    out = {};
    code = rounds.step(blobs, &out, &result, &error);
    if (code == DW_DONE)
      out = {};
    else if (code != DW_OK)
      return tell_failure(absl::StrCat(prefix, round + 1),
                          own_failure(code, error));
  }
}

}  // namespace distwrap::comm
