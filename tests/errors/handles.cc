// Objects that have ended, do not exist yet, or are used in the wrong order;
// and objects that ranks exchange.
#include "errors/fault.h"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

namespace distwrap::faults {
namespace {

InitOptions alone(const std::string& backend = "loopback") {
  return {.backend = backend,
          .rank = 0,
          .world_size = 1,
          .store = Store::in_memory()};
}

struct Unregistered {};

// Runs a call when no file descriptor is left.
void without_descriptors(const Work& pending) {
  rlimit before = {};
  getrlimit(RLIMIT_NOFILE, &before);
  rlimit none = before;
  none.rlim_cur = 0;
  setrlimit(RLIMIT_NOFILE, &none);
  const absl::Status status = pending.event_fd().status();
  setrlimit(RLIMIT_NOFILE, &before);
  report("no_descriptor_left", status,
         {.reason = Reason::kResourceLimit,
          .what = {"descriptor", "errno 24"},
          .where = Where{.op = "event_fd", .group = ""},
          .next = "limit of open files"});
}

void in_a_child_of_fork(const Group& group, const Work& pending) {
  std::fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    const Expected expected{.reason = Reason::kForkedChild,
                            .what = {"parent"},
                            .where = Where{.op = "barrier", .rank = 0},
                            .next = "session of its own in the child"};
    report("call_in_a_forked_child", barrier({.group = group}).status(),
           expected);
    Expected of_work = expected;
    of_work.where = std::nullopt;
    report("work_in_a_forked_child", pending.wait(), of_work);
    Expected of_split = expected;
    of_split.where->op = "split_group";
    report("split_in_a_forked_child",
           split_group({.parent = group, .split_ranks = {{0}}}).status(),
           of_split);
    _exit(0);
  }
  waitpid(child, nullptr, 0);
}

}  // namespace

void of_handles(Choices& choices) {
  const std::vector<std::pair<const char*, std::function<absl::Status()>>>
      early = {{"barrier", [] { return barrier().status(); }},
               {"split_group",
                [] { return split_group({.split_ranks = {{0}}}).status(); }},
               {"abort", [] { return abort(); }}};
  const auto& [call, make] = choices.of(early);
  report("before_the_start", make(),
         {.reason = Reason::kNotInitialized,
          .what = {std::string(call) + " called before init_process_group"},
          .where = Where{.op = call, .group = ""},
          .next = "init_process_group"});

  const absl::StatusOr<Session> session = init_process_group(alone());
  const Group world = session->world();
  report("init_twice", init_process_group(alone()).status(),
         {.reason = Reason::kAlreadyInitialized,
          .what = {"since ", " UTC, for "},
          .where = Where{.op = "init_process_group", .rank = 0},
          .next = "destroy_process_group"});
  float x = 1;
  const absl::StatusOr<Work> pending = irecv(TensorView(&x, 1), Peer::group(0));
  report("wait_expires", pending->wait(absl::Milliseconds(20)),
         {.reason = Reason::kWaitExpired,
          .what = {"still running"},
          .where = Where{.op = "recv", .rank = 0},
          .how_long = HowLong{absl::Seconds(600), "DISTWRAP_TIMEOUT", false},
          .next = "wait again"});
  report("cancel_of_a_running_one", pending->cancel(),
         {.reason = Reason::kAlreadySubmitted,
          .what = {"has the operation already"},
          .where = Where{.op = "cancel", .group = ""},
          .next = "wait for it"});
  report("wait_of_none", wait_any({}).status(),
         {.reason = Reason::kInvalidArgument,
          .what = {"no Work"},
          .where = Where{.op = "wait_any", .group = ""},
          .next = "at least one"});
  without_descriptors(*pending);
  in_a_child_of_fork(world, *pending);
  float y = 2;
  send(TensorView(&y, 1), Peer::group(0)).IgnoreError();
  pending->wait().IgnoreError();

  report("lists_that_are_wrong",
         split_group({.split_ranks = {{0, 5}}}).status(),
         {.reason = Reason::kInvalidArgument,
          .what = {"5", "[[0, 5]]"},
          .where = Where{.op = "split_group"},
          .next = "ranks"});
  report("outside_of_the_group", Group().communicator().status(),
         {.reason = Reason::kNotInitialized,
          .what = {"no group"},
          .next = "test the handle"});
  report("registered_twice", session->registry().create(world, {0}, "again"),
         {.reason = Reason::kGroupDuplicate,
          .what = {"already registered"},
          .where = Where{.op = "register_group", .rank = 0},
          .next = "entry"});
  const absl::StatusOr<Group> child =
      split_group({.split_ranks = {{0}}, .group_desc = "half"});
  destroy_process_group(*child).IgnoreError();
  report("stale_group", barrier({.group = *child}).status(),
         {.reason = Reason::kGroupClosed,
          .what = {"closed"},
          .where = Where{.op = "barrier",
                         .group = std::string(child->name()),
                         .rank = 0},
          .next = "before"});
  report("unknown_group", session->registry().get_global_ranks(*child).status(),
         {.reason = Reason::kGroupUnknown,
          .what = {"not registered"},
          .where = Where{.op = "get_global_ranks",
                         .group = std::string(child->name()),
                         .rank = 0},
          .next = "session has made"});
  destroy_process_group().IgnoreError();
  report("call_after_destroy", barrier({.group = world}).status(),
         {.reason = Reason::kGroupClosed,
          .what = {"closed"},
          .where = Where{.op = "barrier", .rank = 0},
          .next = "before the session is closed"});

  InitOptions strict = alone();
  strict.drop_in = true;
  if (const auto second = init_process_group(strict); second.ok()) {
    report("new_group_in_drop_in", new_group().status(),
           {.reason = Reason::kNewGroupDisabled,
            .what = {"not supported"},
            .where = Where{.op = "new_group", .rank = 0},
            .next = "split_group"});
    destroy_process_group().IgnoreError();
  }
}

void of_objects(Choices& choices) {
  const int wrong = choices.below(2);
  on_ranks(2, {.backend = "gloo"}, [&](const Session& session) {
    const int me = session.rank();
    const Where here{.op = "all_gather_object", .rank = me};
    const Object bad =
        Object::map({{Object("model"), Object::of(Unregistered{})}});
    const absl::Status status =
        all_gather_object(me == wrong ? bad : Object(1)).status();
    if (me == wrong)
      report("object_that_cannot_be_sent", status,
             {.reason = Reason::kObjectType,
              .what = {"model"},
              .where = here,
              .next = "register"});
    else
      report("object_of_another_rank", status,
             {.reason = Reason::kAborted,
              .what = {"model"},
              .where = here,
              .who = Who{.ranks = {wrong}},
              .next = "rank that is named"});
    std::vector<Object> list(static_cast<size_t>(2 + (me == wrong ? 1 : 0)));
    report("object_lists_that_differ",
           broadcast_object_list(absl::MakeSpan(list), Peer::group(0)),
           {.reason = Reason::kCallMismatch,
            .what = {"2", "3"},
            .where = Where{.op = "broadcast_object_list", .rank = me},
            .who = Who{.ranks = {1}},
            .next = "same call"});
    report("object_calls_that_block",
           all_gather_object(Object(1), {.async = true}).status(),
           {.reason = Reason::kInvalidArgument,
            .what = {"async"},
            .where = here,
            .next = "leave `async` out"});
  });
  setenv("DISTWRAP_OBJECT_MAX_BYTES", "2048", 1);
  on_ranks(2, {.backend = "gloo"}, [&](const Session& session) {
    const int me = session.rank();
    const Object large = Object::bytes(std::string(4096, 'x'));
    const absl::Status status =
        all_gather_object(me == wrong ? large : Object(1)).status();
    const Where here{.op = "all_gather_object", .rank = me};
    if (me == wrong)
      report("object_too_large", status,
             {.reason = Reason::kObjectType,
              .what = {"2048 bytes"},
              .where = here,
              .how_long = HowLong{absl::ZeroDuration(),
                                  "DISTWRAP_OBJECT_MAX_BYTES", false},
              .next = "raise the limit"});
    else
      report("object_too_large_on_another_rank", status,
             {.reason = Reason::kAborted,
              .what = {"2048 bytes"},
              .where = here,
              .who = Who{.ranks = {wrong}},
              .next = "rank that is named"});
  });
  unsetenv("DISTWRAP_OBJECT_MAX_BYTES");
  // The limit belongs to the process.
  if (init_process_group(alone()).ok()) destroy_process_group().IgnoreError();
  report(
      "bytes_that_are_no_object", decode_object("no object at all").status(),
      {.reason = Reason::kObjectDecode, .what = {"byte 0"}, .next = "version"});
}

}  // namespace distwrap::faults
