// All ranks run the same program of collectives, but one rank's program has a
// mistake: every rank gets an error with the two calls, and no wrong result
// counts as right.
#include "chaos/call.h"
#include "chaos/cases.h"

#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace distwrap::chaos {
namespace {

enum class Mistake : uint8_t {
  kOperation,
  kCount,
  kDtype,
  kReduction,
  kRoot,
  kSplits,
  kPair,  // the sizes that a pair of ranks sends and expects
  kOrder,
  kMissing,  // the rank does not come any more
};
constexpr const char* kMistakes[] = {"operation", "count", "dtype",
                                     "reduction", "root",  "splits",
                                     "pair",      "order", "missing"};

// Ranks of other hosts hear of each other's calls at intervals of 200 ms.
absl::Duration deadline(const Setting& setting) {
  return absl::Milliseconds(setting.hosts > 1 ? 1000 : 300);
}

constexpr Kind kRooted[] = {Kind::kBroadcast, Kind::kReduce, Kind::kGather,
                            Kind::kScatter};
constexpr Kind kReducing[] = {Kind::kReduce, Kind::kAllReduce,
                              Kind::kReduceScatter, Kind::kScan,
                              Kind::kReduceScatterV};
constexpr Kind kDivided[] = {Kind::kAllGatherV, Kind::kReduceScatterV};
constexpr Kind kSized[] = {
    Kind::kBroadcast,     Kind::kReduce,   Kind::kAllReduce,
    Kind::kGather,        Kind::kScatter,  Kind::kAllGather,
    Kind::kReduceScatter, Kind::kAllToAll, Kind::kScan};
constexpr DType kTypes[] = {DType::kU8, DType::kI32, DType::kI64, DType::kF32,
                            DType::kF64};
constexpr ReduceOp::Kind kReductions[] = {ReduceOp::kSum, ReduceOp::kProduct,
                                          ReduceOp::kMin, ReduceOp::kMax};

// Another member of the list.
template <class List, class Value>
Value another(Draw& draw, const List& list, Value than) {
  for (;;)
    if (const auto one = draw.one_of(list); one != than) return one;
}

Call any_call(Draw& draw, int ranks) {
  constexpr int64_t kCounts[] = {1, 3, 64, 1000, 20000};
  Call call;
  call.kind = static_cast<Kind>(draw.below(static_cast<int>(Kind::kRing)));
  call.count = draw.one_of(kCounts);
  call.dtype = draw.one_of(kTypes);
  call.reduction = draw.one_of(kReductions);
  call.root = draw.below(ranks);
  call.async = draw.coin();
  return call;
}

void settle(Draw& draw, int ranks, Call* call) {
  if (!has_counts(call->kind)) return;
  for (int rank = 0; rank < ranks; ++rank)
    call->counts.push_back(1 + draw.below(static_cast<int>(call->count)));
}

struct Plan {
  explicit Plan(const Setting& setting) {
    Draw draw(setting);
    odd = draw.below(setting.ranks);
    mistake = static_cast<Mistake>(draw.below(std::size(kMistakes)));
    at = draw.below(6);
    const int calls = at + 2 + draw.below(4);
    for (int i = 0; i < calls; ++i) {
      Call call = any_call(draw, setting.ranks);
      if (i == at) make_fit(draw, &call);
      if (i == at + 1 && mistake == Mistake::kOrder)
        while (call.kind == program[static_cast<size_t>(at)].kind)
          call = any_call(draw, setting.ranks);
      settle(draw, setting.ranks, &call);
      program.push_back(std::move(call));
    }
    ends_at_once = draw.coin();
    if (mistake == Mistake::kMissing) program.push_back({});
    mutated = program;
    mutate(draw, setting.ranks);
  }

  const std::vector<Call>& of(int rank) const {
    return rank == odd ? mutated : program;
  }

  Mistake mistake;
  int odd, at;
  int partner = -1;   // the second rank of a pair
  bool ends_at_once;  // else the ranks work until they get the error
  std::vector<Call> program, mutated;

 private:
  void make_fit(Draw& draw, Call* call) const {
    if (mistake == Mistake::kRoot) call->kind = draw.one_of(kRooted);
    if (mistake == Mistake::kReduction) call->kind = draw.one_of(kReducing);
    if (mistake == Mistake::kSplits) call->kind = draw.one_of(kDivided);
    if (mistake == Mistake::kPair) call->kind = Kind::kAllToAllV;
    if (mistake == Mistake::kCount || mistake == Mistake::kDtype)
      call->kind = draw.one_of(kSized);
  }

  void mutate(Draw& draw, int ranks) {
    Call& call = mutated[static_cast<size_t>(at)];
    switch (mistake) {
      case Mistake::kOperation:
        call.kind = another(draw, kSized, call.kind);
        call.counts.clear();
        break;
      case Mistake::kCount:
        call.count += 1 + draw.below(3);
        break;
      case Mistake::kDtype:
        call.dtype = another(draw, kTypes, call.dtype);
        break;
      case Mistake::kReduction:
        call.reduction = another(draw, kReductions, call.reduction);
        break;
      case Mistake::kRoot:
        call.root = (call.root + 1 + draw.below(ranks - 1)) % ranks;
        break;
      case Mistake::kSplits:
        ++draw_one(draw, call.counts);
        break;
      case Mistake::kPair:
        partner = (odd + 1 + draw.below(ranks - 1)) % ranks;
        ++call.counts[static_cast<size_t>((odd + partner) % ranks)];
        break;
      case Mistake::kOrder:
        std::swap(call, mutated[static_cast<size_t>(at) + 1]);
        break;
      case Mistake::kMissing:
        mutated.resize(static_cast<size_t>(at));
        break;
    }
  }
  static int64_t& draw_one(Draw& draw, std::vector<int64_t>& list) {
    return list[static_cast<size_t>(draw.below(static_cast<int>(list.size())))];
  }
};

std::string plan(const Setting& setting) {
  const Plan plan(setting);
  std::string text =
      absl::StrCat(kMistakes[static_cast<size_t>(plan.mistake)], ": call ",
                   plan.at, " of ", plan.program.size(), " is ",
                   plan.program[static_cast<size_t>(plan.at)].text(),
                   ", at rank ", plan.odd);
  if (plan.mistake == Mistake::kMissing) return text + " nothing any more";
  return absl::StrCat(text, " ",
                      plan.mutated[static_cast<size_t>(plan.at)].text());
}

// False when the call returned an error.
bool call(const Self& self, size_t number, const Call& what,
          absl::Duration timeout, Performer& performer) {
  self.page.entered_ns[number].store(Deadline::now_ns());
  const absl::Status status = performer.perform(what, number, timeout);
  if (!status.ok())
    tell(self.page, 0, status, static_cast<int>(number), Deadline::now_ns());
  return status.ok();
}

// Continues from the present place.
bool run(const Self& self, const std::vector<Call>& program,
         absl::Duration timeout, Performer& performer) {
  for (size_t i = self.page.rounds.load(); i < program.size(); ++i) {
    if (!call(self, i, program[i], timeout, performer)) return false;
    self.page.rounds.store(i + 1);
  }
  return true;
}

void rank(const Self& self) {
  const Plan plan(self.setting);
  const absl::StatusOr<Session> session = self.join();
  if (!session.ok()) return;
  Performer performer(session->world());
  const bool is_missing = plan.mistake == Mistake::kMissing;
  const absl::Duration timeout =
      is_missing ? deadline(self.setting) : absl::Seconds(600);
  const std::vector<Call>& program = plan.of(self.rank);
  bool goes_on = run(self, program, timeout, performer);
  if (is_missing && self.rank == plan.odd) {
    // Waits until the others have given up; then the rank comes.
    self.page.ready.store(true);
    self.wait_for_all_ready();
    // Data that others sent before may let these calls succeed.
    if (run(self, plan.program, timeout, performer) &&
        call(self, kMostCalls - 1, {}, timeout, performer))
      self.complain("the group works on without it");
    goes_on = false;
  }
  const Deadline patience = Deadline::after(absl::Seconds(10));
  while (goes_on && !plan.ends_at_once && !patience.passed()) {
    // The board remembers only the last calls.
    sleep_for(absl::Milliseconds(2));
    goes_on = call(self, kMostCalls - 1, {}, timeout, performer);
  }
  self.page.ready.store(true);
  // After the mistake, buffers are undefined until the rank gets the error.
  if (!performer.wrong().empty() &&
      performer.wrong_round() < static_cast<uint64_t>(plan.at))
    self.complain(performer.wrong());
  const int64_t closing = Deadline::now_ns();
  const absl::Status closed = destroy_process_group();
  if (closed.ok()) return;
  if (!goes_on)
    self.complain(absl::StrCat("told again by close: ", closed.ToString()));
  self.page.entered_ns[kMostCalls - 1].store(closing);
  tell(self.page, 0, closed, kMostCalls - 1, Deadline::now_ns());
}

// When rank `rank` could have known: the two different calls and its own were
// made by then.
int64_t known_ns(const Plan& plan, const Setting& setting, Job& job, int rank) {
  const auto entered = [&](int which, int call) {
    return job.page(which).entered_ns[call].load();
  };
  int64_t other = INT64_MAX;
  for (int which = 0; which < setting.ranks; ++which)
    if (which != plan.odd && entered(which, plan.at) != 0)
      other = std::min(other, entered(which, plan.at));
  return std::max({entered(plan.odd, plan.at), other,
                   entered(rank, job.page(rank).news[0].call)});
}

// The calls without their ranks: a rank that could not ask the store in time
// knows only the ranks that it has seen.
std::set<std::string> calls_in(const News& news) {
  std::set<std::string> calls;
  for (const std::string text : {news.expected, news.actual})
    calls.insert(text.substr(0, text.find(" (rank")));
  return calls;
}

void judge_mismatch(const Setting& setting, const Plan& plan, Job& job,
                    Findings& findings) {
  // Among ranks that end at once, those that left before the others made the
  // call are gone when the mistake can be known.
  int first_told = 0;
  while (first_told < setting.ranks && !job.page(first_told).news[0].is_there())
    ++first_told;
  if (first_told == setting.ranks)
    return findings.bad("nobody was told anything");
  const News& first = job.page(first_told).news[0];
  for (int rank = 0; rank < setting.ranks; ++rank) {
    const News& news = job.page(rank).news[0];
    if (!news.is_there()) {
      if (!plan.ends_at_once)
        findings.bad(absl::StrCat("rank ", rank, " was told nothing"));
      continue;
    }
    if (news.reason != Reason::kCallMismatch)
      findings.bad(absl::StrCat("rank ", rank, ": ", news.text));
    // Among equally many the lowest rank is right, so it may be named. A pair
    // is named together.
    const bool is_named =
        plan.mistake == Mistake::kPair
            ? news.culprits == (bit(plan.odd) | bit(plan.partner))
            : news.culprits == bit(plan.odd) ||
                  // Between hosts the engine may be the first to see it, in a
                  // message, of which it names both ranks.
                  (setting.hosts > 1 && (news.culprits & bit(plan.odd)) != 0) ||
                  absl::StrContains(news.expected,
                                    absl::StrCat("(rank ", plan.odd));
    if (!is_named)
      findings.bad(absl::StrCat("the odd one is not named: ", news.text));
    if (calls_in(news) != calls_in(first))
      findings.bad(absl::StrCat(
          "ranks were told different things: ", first.text, " / ", news.text));
    findings.took(0, news.heard_ns.load() - known_ns(plan, setting, job, rank));
  }
}

void judge_missing(const Setting& setting, const Plan& plan, Job& job,
                   Findings& findings) {
  for (int rank = 0; rank < setting.ranks; ++rank) {
    const RankPage& page = job.page(rank);
    const News& news = page.news[0];
    if (!news.is_there()) {
      findings.bad(absl::StrCat("rank ", rank, " was told nothing"));
      continue;
    }
    if (rank == plan.odd) continue;
    if (news.reason != Reason::kTimedOut && news.reason != Reason::kAborted)
      findings.bad(absl::StrCat("rank ", rank, ": ", news.text));
    // Other ranks may be behind as well: they wait for it in an earlier call.
    if ((news.culprits & bit(plan.odd)) == 0)
      findings.bad(
          absl::StrCat("rank ", rank, " is told of others: ", news.text));
    if (news.reason == Reason::kTimedOut)
      findings.took(1, news.heard_ns.load() -
                           page.entered_ns[news.call].load() -
                           absl::ToInt64Nanoseconds(deadline(setting)));
  }
}

void direct(const Setting& setting, Job& job, Findings& findings) {
  const Plan plan(setting);
  if (!job.wait_for_all()) return;
  if (plan.mistake == Mistake::kMissing)
    judge_missing(setting, plan, job, findings);
  else
    judge_mismatch(setting, plan, job, findings);
}

constexpr Measure kMeasures[] = {
    {"from the second of two calls that differ to the error of each rank",
     absl::Milliseconds(100), absl::Milliseconds(500)},
    {"from the deadline of who waits for a missing rank to its error",
     absl::Milliseconds(100), absl::Milliseconds(500)}};

}  // namespace

const Case kMutated = {.name = "F9",
                       .what = "one rank's program has a mistake",
                       .full = 10000,
                       .measures = kMeasures,
                       .plan = plan,
                       .rank = rank,
                       .direct = direct};

}  // namespace distwrap::chaos
