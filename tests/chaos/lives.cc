// Sessions that begin and end in every wrong order: started twice, ended twice,
// used afterwards, ended or dropped with work in flight. No order crashes or
// hangs, nothing remains, and nothing is printed.
#include "chaos/call.h"
#include "chaos/cases.h"
#include "chaos/resources.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <optional>
#include <thread>
#include <utility>

namespace distwrap::chaos {
namespace {

constexpr int kSessions = 6;
// The limit of an end with work in flight.
constexpr absl::Duration kDrain = absl::Milliseconds(30);

enum class Act : uint8_t { kTwice, kUsedAfter, kInFlight, kDropped, kGroup };
constexpr const char* kActs[] = {
    "begun and ended twice", "used after its end", "ended with work in flight",
    "dropped with work in flight", "a group of it ended under a call"};

struct Plan {
  explicit Plan(const Setting& setting) {
    Draw draw(setting);
    for (Act& act : acts) act = static_cast<Act>(draw.below(5));
    absent = draw.below(setting.ranks);
  }
  Act acts[kSessions];
  int absent;  // the rank that does not come, so that work stays in flight
};

std::string plan(const Setting& setting) {
  const Plan plan(setting);
  std::string text = "sessions one after the other:";
  for (const Act act : plan.acts)
    absl::StrAppend(&text, " ", kActs[static_cast<size_t>(act)], ";");
  return text;
}

class Life {
 public:
  Life(const Self& self, const Plan& plan) : self_(self), plan_(plan) {}

  void live(Act act) {
    if (act == Act::kDropped) return dropped();
    const absl::StatusOr<Session> session = self_.join();
    if (!session.ok()) return;
    const absl::Status met = work(session->world());
    // Other ranks may have ended their session before this one was done.
    if (!met.ok() && (act != Act::kInFlight || !is_of_an_end(met)))
      return self_.complain(met.ToString());
    switch (act) {
      case Act::kTwice:
        expect("a second start", Reason::kAlreadyInitialized,
               init_process_group({}).status());
        expect("work beside it", Reason::kNone, work(session->world()));
        end(0);
        expect("a second end", Reason::kNotInitialized,
               destroy_process_group());
        break;
      case Act::kUsedAfter:
        use_after(*session);
        break;
      case Act::kInFlight:
        in_flight(*session);
        break;
      case Act::kDropped:
        break;
      case Act::kGroup:
        group_under_a_call();
        end(0);
        break;
    }
  }

 private:
  static absl::Status work(const Group& group) {
    Performer performer(group);
    const absl::Status status =
        performer.perform({.kind = Kind::kAllReduce, .count = 100}, 1);
    return status.ok() && !performer.wrong().empty()
               ? absl::DataLossError(performer.wrong())
               : status;
  }

  static bool is_of_an_end(const absl::Status& status) {
    const Reason reason = error_reason(status);
    return reason == Reason::kAborted || reason == Reason::kPeerLost ||
           reason == Reason::kGroupBroken;
  }

  void expect(const char* what, Reason reason, const absl::Status& status) {
    if (error_reason(status) != reason ||
        status.ok() != (reason == Reason::kNone))
      self_.complain(absl::StrCat(what, ": ", status.ToString()));
  }

  void took(size_t measure, int64_t began_ns) {
    std::atomic<int64_t>& most = self_.page.took_ns[measure];
    most.store(std::max(most.load(), Deadline::now_ns() - began_ns));
  }

  void end(size_t measure) {
    const int64_t began = Deadline::now_ns();
    expect("the end", Reason::kNone, destroy_process_group());
    took(measure, began);
  }

  // Starts work that one rank never joins.
  std::optional<Work> start(const Group& group) {
    if (self_.rank == plan_.absent) return std::nullopt;
    const absl::StatusOr<Work> work =
        all_reduce(TensorView(data_, 100), ReduceOp::kSum,
                   {.group = group, .async = true});
    // The absent rank may have ended before.
    return work.ok() ? std::optional<Work>(*work) : std::nullopt;
  }

  void use_after(const Session& session) {
    const Group world = session.world();
    const int64_t began = Deadline::now_ns();
    expect("close", Reason::kNone, session.close());
    took(0, began);
    expect("a second close", Reason::kNone, session.close());
    expect("a call after it", Reason::kGroupClosed,
           barrier({.group = world}).status());
    expect("its end", Reason::kNone, destroy_process_group());
    expect("a call after that", Reason::kGroupClosed,
           barrier({.group = world}).status());
  }

  void in_flight(const Session& session) {
    const std::optional<Work> work = start(session.world());
    const int64_t began = Deadline::now_ns();
    expect("close in flight", Reason::kNone, session.close(kDrain));
    took(1, began + absl::ToInt64Nanoseconds(kDrain));
    if (work.has_value() && work->wait(absl::ZeroDuration()).ok())
      self_.complain("work without one rank is done");
    expect("its end", Reason::kNone, destroy_process_group());
  }

  // Only this function holds a handle.
  void dropped() {
    absl::StatusOr<Session> session = Session::create(self_.options());
    if (!session.ok()) return self_.complain(session.status().ToString());
    const absl::Status met = work(session->world());
    const std::optional<Work> work = start(session->world());
    if (!met.ok() && !is_of_an_end(met)) self_.complain(met.ToString());
    const int64_t began = Deadline::now_ns();
    session = Session();
    took(2, began);
    if (work.has_value() && work->wait(absl::Seconds(20)).ok())
      self_.complain("work without one rank is done");
  }

  void group_under_a_call() {
    const absl::StatusOr<Group> group = new_group();
    if (!group.ok()) return self_.complain(group.status().ToString());
    // The call waits for the absent rank, and ends with its group.
    std::thread caller([&] {
      if (self_.rank == plan_.absent) return;
      if (barrier({.group = *group, .timeout = absl::Seconds(20)}).ok())
        self_.complain("a barrier without one rank is done");
    });
    sleep_for(absl::Milliseconds(1));
    expect("a timeout", Reason::kNone, set_timeout(*group, kDrain));
    const int64_t began = Deadline::now_ns();
    expect("the end of a group", Reason::kNone, destroy_process_group(*group));
    took(1, began + absl::ToInt64Nanoseconds(kDrain));
    caller.join();
    expect("the world", Reason::kNone, barrier().status());
  }

  const Self& self_;
  const Plan& plan_;
  float data_[100] = {};
};

void rank(const Self& self) {
  const Plan plan(self.setting);
  Resources before;
  for (int i = 0; i < kSessions; ++i) {
    Life(self, plan).live(plan.acts[i]);
    if (self.page.is_wrong.load()) return;
    if (i == 1) before = Resources::now();
  }
  if (const std::string leaked = leaked_since(before); !leaked.empty())
    self.complain("left: " + leaked);
}

void direct(const Setting& setting, Job& job, Findings& findings) {
  if (!job.wait_for_all()) return;
  findings.count(kSessions);
  for (int rank = 0; rank < setting.ranks; ++rank)
    for (size_t m = 0; m < 3; ++m)
      if (const int64_t ns = job.page(rank).took_ns[m].load(); ns != 0)
        findings.took(m, ns);
}

constexpr Measure kMeasures[] = {
    {"the end of an idle session", absl::Milliseconds(500),
     absl::Milliseconds(500)},
    {"an end with work in flight, beyond its deadline", absl::Milliseconds(500),
     absl::Milliseconds(500)},
    {"dropping the last handle of a session", absl::Milliseconds(500),
     absl::Milliseconds(500)}};

}  // namespace

const Case kLives = {.name = "F18",
                     .what = "sessions begin and end in every order",
                     .full = 5000 / kSessions,
                     .measures = kMeasures,
                     .plan = plan,
                     .rank = rank,
                     .direct = direct};

}  // namespace distwrap::chaos
