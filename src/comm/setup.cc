#include "comm/setup.h"

#include "base/bytes.h"
#include "base/error.h"
#include "base/exceptions.h"
#include "comm/communicator.h"
#include "store/exchange.h"

#include <absl/strings/str_cat.h>

#include <vector>

namespace distwrap::comm {
namespace {

constexpr size_t kMaxTerms = 4096, kMaxWord = 4096;

ErrorInfo info_of(const SetupPlan& plan) {
  return {.op = plan.op,
          .group = plan.group,
          .my_rank = plan.rank,
          .group_size = plan.size};
}

std::string round_key(const SetupPlan& plan, int round) {
  return absl::StrCat(plan.keys, "setup/", round);
}

// Whether the store could still tell the others.
bool can_tell(const absl::Status& status) {
  const ErrorInfo info = error_info(status).value_or(ErrorInfo{});
  return info.reason != Reason::kStoreUnreachable &&
         (info.reason != Reason::kTimedOut || !info.ranks.empty());
}

}  // namespace

absl::StatusOr<std::vector<std::string>> StoreRounds::exchange(
    int round, const std::string& word, bool /*built*/, Deadline deadline) {
  return store::exchange(store_, round_key(plan_, round), plan_.rank,
                         plan_.size, word, deadline);
}

void StoreRounds::give_up(int round, const ErrorInfo& failed,
                          Deadline deadline) {
  store::give_up_exchange(store_, round_key(plan_, round), plan_.rank,
                          plan_.size, failed, deadline);
}

// Connections of a backend break when a rank dies. If that rank served the
// store, its loss is the cause.
absl::Status StoreRounds::cause_of(const absl::Status& failure) {
  constexpr absl::Duration kPatience = absl::Milliseconds(50);
  constexpr char kNever[] = "?";  // a compare_set that changes nothing
  const absl::Status answers =
      store_.compare_set(kNever, kNever, kNever, Deadline::after(kPatience))
          .status();
  if (error_reason(answers) != Reason::kStoreUnreachable)
    return base::amend_error(failure, [](ErrorInfo& info) {
      if (info.next_step.empty())
        info.next_step =
            "look at the output of the other ranks: one may have ended";
    });
  return base::amend_error(answers, [&](ErrorInfo& info) {
    const ErrorInfo who = info_of(plan_);
    info.op = who.op;
    info.group = who.group;
    info.my_rank = who.my_rank;
    info.group_size = who.group_size;
    info.cause = base::cause_text(failure);
  });
}

namespace {

ErrorInfo failure_of(const SetupPlan& plan, const absl::Status& status) {
  ErrorInfo failed = info_of(plan);
  failed.reason = Reason::kAborted;
  failed.what = absl::StrCat("another rank could not build the ", plan.what);
  failed.ranks = {plan.rank};
  failed.cause = base::cause_text(status);
  failed.next_step = "fix the cause on that rank";
  return failed;
}

void tell_failure(SetupRounds& rounds, const SetupPlan& plan, int round,
                  const absl::Status& status, Deadline deadline) {
  rounds.give_up(round, failure_of(plan, status), deadline);
}

std::string frame(absl::string_view terms, absl::string_view word, bool watched,
                  const dw_blob& blob) {
  base::ByteWriter out;
  out.text(terms);
  out.text(word);
  out.u8(watched ? 1 : 0);
  out.bytes(absl::string_view(static_cast<const char*>(blob.data), blob.size));
  return out.take();
}

absl::Status different_terms(const SetupPlan& plan, int rank,
                             absl::string_view theirs, absl::string_view mine) {
  ErrorInfo info = info_of(plan);
  info.reason = Reason::kCallMismatch;
  info.what = absl::StrCat("ranks made the ", plan.what, " differently");
  info.ranks = {rank};
  info.expected = absl::StrCat(mine, " (rank ", plan.rank, ")");
  info.actual = absl::StrCat(theirs, " (rank ", rank, ")");
  info.next_step = "make the same call on all ranks";
  return base::make_error(info);
}

// Removes distwrap's own part from the frames of all ranks and compares the
// terms. Every rank sees equal frames, so all ranks find a difference.
absl::Status check_terms(const SetupPlan& plan, absl::string_view terms,
                         std::vector<std::string>* frames,
                         std::vector<std::string>* words, bool* all_watched) {
  for (size_t rank = 0; rank < frames->size(); ++rank) {
    std::string& bytes = (*frames)[rank];
    base::ByteReader in(bytes);
    const absl::string_view theirs = in.text(kMaxTerms);
    words->emplace_back(in.text(kMaxWord));
    if (in.u8() == 0) *all_watched = false;
    if (!in.ok() || theirs != terms)
      return different_terms(plan, static_cast<int>(rank), theirs, terms);
    bytes.erase(0, bytes.size() - in.left());
  }
  return absl::OkStatus();
}

// All ranks' blobs of one round.
absl::StatusOr<std::vector<std::string>> exchange_round(
    SetupRounds& rounds, int round, const SetupPlan& plan, const dw_blob& blob,
    Built* built, Deadline deadline) {
  const bool first = round == 0;
  const absl::string_view terms = first ? plan.terms : absl::string_view();
  const absl::string_view word = first ? plan.word : absl::string_view();
  absl::StatusOr<std::vector<std::string>> blobs = rounds.exchange(
      round, frame(terms, word, plan.watched, blob), built->done(), deadline);
  if (blobs.ok()) {
    built->all_watched = true;
    std::vector<std::string> words;
    if (absl::Status status =
            check_terms(plan, terms, &*blobs, &words, &built->all_watched);
        !status.ok())
      return status;
    if (first) built->words = std::move(words);
    return blobs;
  }
  // The round may have been complete for some ranks, which wait in the next.
  if (can_tell(blobs.status()))
    tell_failure(rounds, plan, round + 1, blobs.status(), deadline);
  return base::amend_error(blobs.status(), [&](ErrorInfo& info) {
    info.op = plan.op;
    info.group = plan.group;
    info.my_rank = plan.rank;
    info.group_size = plan.size;
  });
}

// The setup object, cancelled unless it was consumed.
class Steps {
 public:
  Steps(BackendInstance& backend, dw_setup* setup)
      : backend_(backend), setup_(setup) {}
  ~Steps() {
    if (setup_ == nullptr) return;
    base::MutexLock lock(backend_.calls());
    backend_.api().setup_cancel(setup_);
  }
  Steps(const Steps&) = delete;
  Steps& operator=(const Steps&) = delete;

  int32_t step(const std::vector<dw_blob>& in, dw_blob* out,
               dw_setup_result* result, dw_error* error) {
    base::MutexLock lock(backend_.calls());
    const int32_t code = backend_.api().setup_step(setup_, in.data(), in.size(),
                                                   out, result, error);
    if (code != DW_OK) setup_ = nullptr;  // done or failed: it is gone
    return code;
  }

 private:
  BackendInstance& backend_;
  dw_setup* setup_;
};

}  // namespace

void discard(BackendInstance& backend, const Built& built) {
  const dw_backend_api& api = backend.api();
  if (built.window != nullptr) {
    base::MutexLock lock(backend.calls());
    api.window_destroy(built.window, 0, nullptr);
    return;
  }
  const dw_error why{
      DW_ABORTED, DW_REASON_ABORTED, -1, 0, 0, "the group was not completed"};
  api.comm_abort(built.comm, &why);
  api.comm_destroy(built.comm, 0, nullptr);
}

namespace {

dw_setup_info info_to_build(uint32_t what, const SetupPlan& plan,
                            Deadline deadline) {
  return {.struct_size = sizeof(dw_setup_info),
          .flags = what,
          .rank = plan.rank,
          .size = plan.size,
          .uid = plan.uid,
          .epoch = plan.epoch,
          .host_of = plan.host_of.empty() ? nullptr : plan.host_of.data(),
          .parent_rank = nullptr,
          .parent = nullptr,
          .hints = nullptr,
          .n_hints = 0,
          .deadline_ns = deadline.is_never() ? 0 : deadline.ns(),
          .memory = {},
          .signals = 0,
          .next = nullptr};
}

// `begin(&setup, &blob, &error)` is the backend's first step.
template <class Begin>
absl::StatusOr<Built> build(BackendInstance& backend, SetupRounds& rounds,
                            const SetupPlan& plan, Deadline deadline,
                            const Begin& begin) {
  const auto own_failure = [&](int32_t code, const dw_error& error) {
    ErrorInfo failed = backend_error(code, error, backend.name());
    const ErrorInfo who = info_of(plan);
    failed.op = who.op;
    failed.group = who.group;
    failed.my_rank = who.my_rank;
    failed.group_size = who.group_size;
    return base::make_error(failed);
  };
  const auto fail = [&](int round, int32_t failure_code,
                        const dw_error& failure) {
    const absl::Status status =
        rounds.cause_of(own_failure(failure_code, failure));
    if (can_tell(status)) tell_failure(rounds, plan, round, status, deadline);
    return status;
  };

  dw_error error{};
  dw_setup* setup = nullptr;
  dw_blob out{};
  int32_t code = begin(&setup, &out, &error);
  if (code != DW_OK) return fail(0, code, error);
  Steps steps(backend, setup);

  // A rank that is done takes part in one more round, with an empty blob, so
  // that the object exists on all ranks or on none.
  dw_setup_result result{};
  Built built;
  int round = 0;
  try {
    for (;; ++round) {
      const absl::StatusOr<std::vector<std::string>> all =
          exchange_round(rounds, round, plan, out, &built, deadline);
      if (!all.ok()) {
        if (built.done()) discard(backend, built);
        return all.status();
      }
      if (built.done()) return built;
      std::vector<dw_blob> blobs;
      for (const std::string& blob : *all)
        blobs.push_back({blob.data(), blob.size(), nullptr, 0});
      out = {};
      code = steps.step(blobs, &out, &result, &error);
      built.comm = result.comm;
      built.window = result.window;
      if (code == DW_DONE)
        out = {};
      else if (code != DW_OK)
        return fail(round + 1, code, error);
    }
  } catch (...) {
    const absl::Status status = base::error_of_exception(plan.op);
    if (built.done()) discard(backend, built);
    base::guarded("", [&] {
      rounds.leave(round, failure_of(plan, status), deadline);
      return absl::OkStatus();
    }).IgnoreError();
    return status;
  }
}

}  // namespace

absl::StatusOr<Built> build_communicator(BackendInstance& backend,
                                         SetupRounds& rounds,
                                         const SetupPlan& plan,
                                         Deadline deadline) {
  const std::vector<dw_hint> hints = hints_of(plan.hints);
  dw_setup_info info = info_to_build(DW_SETUP_COMMUNICATOR, plan, deadline);
  info.hints = hints.data();
  info.n_hints = hints.size();
  return build(backend, rounds, plan, deadline,
               [&](dw_setup** setup, dw_blob* out, dw_error* error) {
                 const BackendCommunicator::Reference parent(plan.parent);
                 info.parent = parent.comm();
                 if (info.parent != nullptr) {
                   info.parent_rank = plan.parent_ranks.data();
                   if (plan.all_of_parent) info.flags |= DW_SETUP_ALL_OF_PARENT;
                 }
                 base::MutexLock lock(backend.calls());
                 return backend.api().setup_begin(backend.backend(), &info,
                                                  setup, out, error);
               });
}

absl::StatusOr<Built> build_window(BackendInstance& backend,
                                   BackendCommunicator& owner,
                                   SetupRounds& rounds, const SetupPlan& plan,
                                   const WindowMemory& part,
                                   Deadline deadline) {
  dw_setup_info info = info_to_build(DW_SETUP_WINDOW, plan, deadline);
  info.memory = part.memory;
  info.signals = part.signals;
  // Kept until the rounds end: a window does not outlive its communicator.
  const BackendCommunicator::Reference kept(&owner);
  return build(backend, rounds, plan, deadline,
               [&](dw_setup** setup, dw_blob* out, dw_error* error) -> int32_t {
                 info.parent = kept.comm();
                 if (info.parent == nullptr) {
                   *error = abi_error({.reason = Reason::kGroupClosed,
                                       .what = "the group was destroyed"});
                   return DW_FAILED_PRECONDITION;
                 }
                 base::MutexLock lock(backend.calls());
                 return backend.api().window_create(info.parent, &info, setup,
                                                    out, error);
               });
}

absl::StatusOr<dw_comm*> build_communicator(BackendInstance& backend,
                                            Store& store, const SetupPlan& plan,
                                            Deadline deadline) {
  StoreRounds rounds(store, plan);
  const absl::StatusOr<Built> built =
      build_communicator(backend, rounds, plan, deadline);
  if (!built.ok()) return built.status();
  return built->comm;
}

void refuse_communicator(SetupRounds& rounds, const SetupPlan& plan,
                         const absl::Status& why, Deadline deadline) {
  if (can_tell(why)) tell_failure(rounds, plan, 0, why, deadline);
}

void refuse_communicator(Store& store, const SetupPlan& plan,
                         const absl::Status& why, Deadline deadline) {
  StoreRounds rounds(store, plan);
  refuse_communicator(rounds, plan, why, deadline);
}

}  // namespace distwrap::comm
