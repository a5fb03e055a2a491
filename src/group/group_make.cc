#include "group/group_make.h"

#include "base/bytes.h"
#include "base/error.h"
#include "group/board_call.h"
#include "group/group_build.h"
#include "group/group_call.h"
#include "group/group_end.h"
#include "group/session_state.h"
#include "group/split_plan.h"
#include "store/interrupt.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <utility>

namespace distwrap::group {
namespace {

// The checked parameters of a call.
struct Request {
  std::string op;
  std::string description;
  absl::Duration timeout;
  comm::Hints hints;
  std::vector<BackendChoice> choices;
  std::vector<std::shared_ptr<comm::BackendInstance>> backends;  // opened
  int device_id = 0;
};

absl::Status located(const GroupState& parent, absl::string_view op,
                     ErrorInfo info) {
  info.op = std::string(op);
  info.group = parent.name();
  info.my_rank = parent.rank();
  info.group_size = parent.size();
  return base::make_error(info);
}

// Like check_lists; errors name the call.
absl::StatusOr<Place> place_in(const RankLists& lists, const GroupState& parent,
                               absl::string_view op) {
  absl::StatusOr<Place> place =
      check_lists(lists, parent.size(), parent.rank(), op);
  if (place.ok()) return place;
  return located(parent, op, *error_info(place.status()));
}

absl::Status closed(const GroupState& parent, absl::string_view op) {
  return located(parent, op,
                 {.reason = Reason::kGroupClosed,
                  .what = "the group was destroyed",
                  .next_step = "split a group before it is destroyed"});
}

bool is_on_one_host(const GroupParts& parts) {
  return std::all_of(
      parts.host_of.begin(), parts.host_of.end(),
      [&](int32_t host) { return host == parts.host_of.front(); });
}

absl::StatusOr<std::vector<BackendChoice>> choose_backends(
    const GroupState& parent, const std::string& text, SessionState& session) {
  if (text.empty()) return parent.choices();
  absl::StatusOr<std::vector<BackendChoice>> choices =
      parse_backends(text, session.plugins());
  if (!choices.ok()) return choices;
  for (const BackendChoice& choice : *choices)
    if (const Device device{choice.device_type}; parent.find(device) == nullptr)
      return parent.no_communicator(device);
  if (absl::Status status = settle_backends(*choices, session.plugins());
      !status.ok())
    return status;
  resolve_auto(&*choices, parent.size(), session.one_host(), session.plugins(),
               session.between_hosts());
  return choices;
}

// An inherited hint may be for a backend that the new group does not have.
absl::StatusOr<comm::Hints> choose_hints(
    const GroupState& parent, const std::optional<comm::Hints>& given,
    const std::vector<BackendChoice>& choices, SessionState& session) {
  const auto tables = session.instances().tables(choices);
  if (!tables.ok()) return tables.status();
  if (!given.has_value()) return comm::hints_known_to(*tables, parent.hints());
  if (absl::Status status = comm::check_hints(*tables, *given); !status.ok())
    return status;
  return *given;
}

// Checks the arguments that all calls share.
absl::StatusOr<Request> check_request(
    const GroupState& parent, absl::string_view op, SessionState& session,
    const std::optional<absl::Duration>& timeout,
    const std::optional<comm::Hints>& hints, const std::string& description,
    const std::string& backend, int device_id) {
  if (parent.ended()) return closed(parent, op);
  if (timeout.has_value() && *timeout <= absl::ZeroDuration())
    return located(parent, op,
                   {.reason = Reason::kInvalidArgument,
                    .what = "the timeout is not positive",
                    .actual = absl::FormatDuration(*timeout),
                    .next_step = "leave it unset for the parent's, or give "
                                 "InfiniteDuration for none"});
  if (device_id < 0)
    return located(parent, op,
                   {.reason = Reason::kInvalidArgument,
                    .what = "the device_id is negative",
                    .actual = absl::StrCat(device_id),
                    .next_step = "give the index of a device, or none"});
  absl::StatusOr<std::vector<BackendChoice>> choices =
      choose_backends(parent, backend, session);
  const auto of_call = [&](const absl::Status& status) {
    return base::amend_error(
        status, [&](ErrorInfo& info) { info.op = std::string(op); });
  };
  if (!choices.ok()) return of_call(choices.status());
  absl::StatusOr<comm::Hints> own =
      choose_hints(parent, hints, *choices, session);
  if (!own.ok()) return of_call(own.status());
  Request request{
      std::string(op), description,         timeout.value_or(parent.timeout()),
      *std::move(own), *std::move(choices), {},
      device_id};
  for (const BackendChoice& choice : request.choices) {
    absl::StatusOr<std::shared_ptr<comm::BackendInstance>> opened =
        session.instances().open(choice.backend, device_of(choice, device_id),
                                 request.hints);
    if (!opened.ok()) return of_call(opened.status());
    request.backends.push_back(*std::move(opened));
  }
  return request;
}

CallTerms terms_of_call(const Request& request, uint64_t lists_hash,
                        std::string lists) {
  std::string rest = absl::StrCat(request.op, "\n", request.description, "\n",
                                  terms_of(request.choices));
  for (const auto& hint : request.hints)
    absl::StrAppend(&rest, "\n", hint.first, "=", hint.second);
  std::string text = std::move(lists);
  if (!request.description.empty())
    absl::StrAppend(&text, " \"", request.description.substr(0, 64), "\"");
  absl::StrAppend(&text, " on ", terms_of(request.choices));
  return {request.op, mix_hash(lists_hash, hash_text(rest)), std::move(text)};
}

std::string child_name(const GroupState& parent, const std::string& description,
                       uint64_t uid) {
  return absl::StrCat(parent.name(), "/",
                      description.empty()
                          ? absl::StrCat(absl::Hex(uid >> 32, absl::kZeroPad8))
                          : description);
}

// Distinguishes numbers of calls from numbers of children that no call has
// made.
constexpr uint64_t kCalls = uint64_t{1} << 63;

// The keys that a failed build may have left in the store.
std::vector<std::string> keys_of_failed_build(const std::string& prefix,
                                              size_t channels) {
  constexpr int kRounds = 4;
  std::vector<std::string> keys;
  for (size_t i = 0; i < channels; ++i)
    for (int round = 0; round < kRounds; ++round)
      for (const char* const part : {"present", "over"})
        keys.push_back(absl::StrCat(prefix, i, "/setup/", round, "/", part));
  return keys;
}

// Whether every rank of the parent is in a list.
bool names_all(const RankLists& lists, const GroupState& parent) {
  size_t named = 0;
  for (const std::vector<int>& list : lists) named += list.size();
  return named == static_cast<size_t>(parent.size());
}

// Builds the caller's group, which `place` names.
absl::StatusOr<std::shared_ptr<GroupState>> make_child(
    GroupState& parent, SessionState& session, Request request,
    const RankLists& lists, const Place& place, BoardCall* call) {
  const std::vector<int>& members = lists[static_cast<size_t>(place.list)];
  ChildPlan plan = plan_child(members, parent.global_ranks());
  const uint64_t which =
      mix_hash(plan.members_hash, hash_text(request.description));
  const uint64_t generation = call != nullptr && call->meets_in_rounds()
                                  ? kCalls | call->number()
                                  : parent.begin_child(which);
  const uint64_t uid = child_uid(parent.uid(), plan.members_hash,
                                 request.description, generation);
  const std::string prefix =
      session.world()->key(absl::StrCat("of/", absl::Hex(uid), "/"));
  const size_t channels = request.choices.size();
  // Member by member: gcc 12 destroys parts of a nested initializer twice when
  // a later one throws.
  GroupPlan child;
  child.op = request.op;
  child.device_id = request.device_id;
  child.backends = std::move(request.backends);
  child.call = call;
  child.parent_ranks = members;
  child.all_of_parent = names_all(lists, parent);
  GroupParts& parts = child.parts;
  parts.name = child_name(parent, request.description, uid);
  parts.description = request.description;
  parts.uid = uid;
  parts.rank = place.position;
  parts.global_ranks = std::move(plan.global_ranks);
  for (const int rank : parts.global_ranks)
    parts.host_of.push_back(session.host_of()[static_cast<size_t>(rank)]);
  if (absl::Status reach = check_reach(request.choices, is_on_one_host(parts),
                                       session.clear_data(), session.plugins());
      !reach.ok())
    return located(parent, request.op, *error_info(reach));
  parts.choices = std::move(request.choices);
  parts.hints = std::move(request.hints);
  parts.timeout = request.timeout;
  parts.recording = session.recording();
  parts.board = session.board();
  parts.news = session.news();
  parts.store = parent.store();
  parts.key_prefix = prefix;
  parts.parent = parent.weak_from_this();
  parts.session = session.weak_from_this();
  absl::StatusOr<std::shared_ptr<GroupState>> built =
      build_group(std::move(child), session.instances(), session.watchdog(),
                  Deadline::after(session.init_timeout()));
  if (!built.ok()) {
    if (call != nullptr && !call->failure().ok()) return call->failure();
    parent.leave_behind(keys_of_failed_build(prefix, channels));
    return built;
  }
  if (!parent.add_child(*built)) {
    drop_group(**built);
    return closed(parent, request.op);
  }
  if (absl::Status status = session.registry().create(
          Group(*built), (*built)->global_ranks(), (*built)->description());
      !status.ok())
    return status;
  return built;
}

absl::Status no_session(const GroupState& parent, absl::string_view op) {
  return located(parent, op,
                 {.reason = Reason::kNotInitialized,
                  .what = absl::StrCat(op,
                                       " called before init_process_group "
                                       "or after the session's end"),
                  .next_step = "make groups while the session lives"});
}

absl::Status not_in_split(const GroupState& parent, absl::string_view op) {
  return located(parent, op,
                 {.reason = Reason::kRankNotInSplit,
                  .what = absl::StrCat("Rank ", parent.rank(),
                                       " not found in any split_ranks group"),
                  .next_step = "name every rank in a list"});
}

// Ends the waits of a call in the store when the parent group ends meanwhile by
// a failure: a rank of another host that the call waits for may be lost. On one
// host the board does that.
class ParentWatch {
 public:
  explicit ParentWatch(const GroupState& parent)
      : parent_(*parent.default_communicator()),
        alarm_(parent_.has_far_members() && !goes_on()
                   ? eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)
                   : -1) {
    if (alarm_ < 0) return;
    interrupt_.emplace(
        alarm_,
        store::Interrupt::Words{"the call", "see why the parent group ended"});
    parent_.add_alarm(alarm_);
  }
  ~ParentWatch() {
    if (alarm_ < 0) return;
    parent_.remove_alarm(alarm_);
    close(alarm_);
  }
  ParentWatch(const ParentWatch&) = delete;
  ParentWatch& operator=(const ParentWatch&) = delete;

  // The parent's failure, if that may have ended the call with this status.
  std::optional<ErrorInfo> failure(const absl::Status& ended) const {
    if (alarm_ < 0) return std::nullopt;
    // Another rank has given up, or the rank that served the store has left,
    // and may have heard the news before this one.
    const Reason reason = error_reason(ended);
    pollfd entry = {.fd = alarm_, .events = POLLIN, .revents = 0};
    if (reason == Reason::kAborted || reason == Reason::kStoreUnreachable)
      poll(&entry, 1, static_cast<int>(absl::ToInt64Milliseconds(kNews)));
    return parent_.failure();
  }

 private:
  // Whether the call may succeed although the parent has failed: it needs the
  // ranks, and not the parent's connections.
  bool goes_on() const {
    const std::optional<ErrorInfo> failed = parent_.failure();
    return failed.has_value() && failed->reason != Reason::kPeerLost;
  }

  // The news of a failure come to all ranks within this time.
  static constexpr absl::Duration kNews = absl::Milliseconds(500);

  comm::BackendCommunicator& parent_;
  const int alarm_;
  std::optional<store::Interrupt> interrupt_;
};

// The call of all ranks, over the board where possible.
class JointCall {
 public:
  JointCall(GroupState& parent, const CallTerms& terms, Deadline deadline)
      : parent_(parent),
        terms_(terms),
        deadline_(deadline),
        watch_(parent),
        board_(BoardCall::begin(parent, terms, deadline)) {}
  // Why the call has failed.
  absl::Status explain(absl::Status failed) const {
    std::optional<ErrorInfo> cause = watch_.failure(failed);
    return cause.has_value() ? located(parent_, terms_.op, *std::move(cause))
                             : failed;
  }
  // The meeting is the first round of the build when all ranks know what they
  // build.
  absl::Status meet(const Request& request) {
    if (board_ != nullptr && request.choices.size() == 1) {
      board_->meet_in_rounds();
      return absl::OkStatus();
    }
    return board_ != nullptr ? board_->meet("").status()
                             : meet_for_call(parent_, terms_, deadline_);
  }
  absl::StatusOr<std::vector<std::string>> gather(absl::string_view word) {
    return board_ != nullptr
               ? board_->meet(word)
               : gather_for_call(parent_, terms_, word, deadline_);
  }
  BoardCall* board() const { return board_.get(); }

 private:
  GroupState& parent_;
  const CallTerms terms_;
  const Deadline deadline_;
  const ParentWatch watch_;
  const std::unique_ptr<BoardCall> board_;
};

// The colours and keys of all ranks, when all have come.
absl::StatusOr<std::vector<ColorKey>> gather_colors(JointCall& call,
                                                    ColorKey mine) {
  base::ByteWriter out;
  out.i64(mine.color);
  out.i64(mine.key);
  const absl::StatusOr<std::vector<std::string>> given = call.gather(out.str());
  if (!given.ok()) return given.status();
  std::vector<ColorKey> all;
  for (const std::string& bytes : *given) {
    base::ByteReader in(bytes);
    all.push_back({in.i64(), in.i64()});
  }
  return all;
}

// Continues after the meeting: returns the caller's group, or null for a rank
// outside.
absl::StatusOr<std::shared_ptr<GroupState>> take_place(
    GroupState& parent, SessionState& session, Request request,
    const RankLists& lists, const Place& place, const JointCall& call) {
  if (place.list >= 0) {
    auto child = make_child(parent, session, std::move(request), lists, place,
                            call.board());
    if (!child.ok()) return call.explain(child.status());
    return child;
  }
  if (call.board() != nullptr)
    if (absl::Status status = call.board()->pass(); !status.ok()) return status;
  if (session.drop_in()) return not_in_split(parent, request.op);
  return nullptr;
}

}  // namespace

absl::StatusOr<std::shared_ptr<GroupState>> split(GroupState& parent,
                                                  const SplitOptions& options) {
  constexpr char kOp[] = "split_group";
  const std::shared_ptr<SessionState> session = parent.session();
  if (session == nullptr) return no_session(parent, kOp);
  absl::StatusOr<Request> request =
      check_request(parent, kOp, *session, options.timeout, options.hints,
                    options.group_desc, options.backend, session->device_id());
  if (!request.ok()) return request.status();
  const absl::StatusOr<Place> place =
      place_in(options.split_ranks, parent, kOp);
  if (!place.ok()) return place.status();
  const CallTerms terms =
      terms_of_call(*request, hash_lists(options.split_ranks),
                    show_lists(options.split_ranks));
  JointCall call(parent, terms, Deadline::after(session->init_timeout()));
  if (absl::Status status = call.meet(*request); !status.ok())
    return call.explain(status);
  return take_place(parent, *session, *std::move(request), options.split_ranks,
                    *place, call);
}

absl::StatusOr<std::shared_ptr<GroupState>> split_by_color(
    GroupState& parent, int64_t color, int64_t key,
    const SplitOptions& options) {
  constexpr char kOp[] = "split_group_by_color";
  const std::shared_ptr<SessionState> session = parent.session();
  if (session == nullptr) return no_session(parent, kOp);
  absl::StatusOr<Request> request =
      check_request(parent, kOp, *session, options.timeout, options.hints,
                    options.group_desc, options.backend, session->device_id());
  if (!request.ok()) return request.status();
  JointCall call(parent, terms_of_call(*request, 0, "by colour"),
                 Deadline::after(session->init_timeout()));
  const absl::StatusOr<std::vector<ColorKey>> all =
      gather_colors(call, {color, key});
  if (!all.ok()) return call.explain(all.status());
  const RankLists lists = lists_of_colors(*all);
  const absl::StatusOr<Place> place =
      lists.empty() ? Place{} : place_in(lists, parent, kOp);
  if (!place.ok()) return place.status();
  return take_place(parent, *session, *std::move(request), lists, *place, call);
}

absl::StatusOr<std::shared_ptr<GroupState>> make_group(
    GroupState& world, const NewGroupOptions& options) {
  constexpr char kOp[] = "new_group";
  const std::shared_ptr<SessionState> session = world.session();
  if (session == nullptr) return no_session(world, kOp);
  if (absl::Status status =
          session->registry().assert_registered(Group(session->world()));
      !status.ok())
    return status;
  if (session->drop_in())
    return located(world, kOp,
                   {.reason = Reason::kNewGroupDisabled,
                    .what = "new_group is not supported in drop-in mode. Use "
                            "split_group",
                    .next_step = "call split_group, or start without drop_in"});
  absl::StatusOr<Request> request = check_request(
      world, kOp, *session, options.timeout, options.hints, options.group_desc,
      options.backend, options.device_id.value_or(session->device_id()));
  if (!request.ok()) return request.status();
  RankLists lists(1);
  if (options.ranks.has_value()) {
    lists[0] = *options.ranks;
    if (options.sort_ranks) std::sort(lists[0].begin(), lists[0].end());
  } else {
    lists[0] = world.global_ranks();
  }
  const absl::StatusOr<Place> place = place_in(lists, world, kOp);
  if (!place.ok()) return place.status();
  std::optional<JointCall> call;  // set on all ranks or on none
  if (!options.use_local_synchronization) {
    call.emplace(world,
                 terms_of_call(*request, hash_lists(lists), show_lists(lists)),
                 Deadline::after(session->init_timeout()));
    if (absl::Status status = call->meet(*request); !status.ok())
      return call->explain(status);
  }
  BoardCall* const board = call.has_value() ? call->board() : nullptr;
  if (place->list < 0) {
    if (board != nullptr)
      if (absl::Status status = board->pass(); !status.ok()) return status;
    return nullptr;
  }
  auto child =
      make_child(world, *session, *std::move(request), lists, *place, board);
  if (!child.ok() && call.has_value()) return call->explain(child.status());
  return child;
}

}  // namespace distwrap::group
