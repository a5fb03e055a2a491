// Sets of messages and collectives whose order differs from rank to rank.
#include "call.h"
#include "checks.h"
#include "message.h"
#include "promises.h"
#include "sample.h"

#include <algorithm>
#include <memory>
#include <random>
#include <utility>

namespace distwrap::conformance {
namespace {

constexpr int kRounds = 24;

// The operations of all ranks, equal on all of them, spread over two
// communicators.
struct Plan {
  std::vector<MessageSpec> messages;
  std::vector<Case> collectives;
  bool caller_waits = false;
};

Plan make_plan(const Promises& promises, const Member& member, uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto below = [&random](size_t n) {
    return static_cast<size_t>(random() % n);
  };
  Plan plan;
  plan.caller_waits = below(2) == 0;
  const Calling calling =
      plan.caller_waits ? Calling::kGroupWaits : Calling::kGroupAsync;
  const size_t size = static_cast<size_t>(member.size);
  const int dtype = message_dtype(promises, plan.caller_waits);
  for (size_t i = below(6 * size + 1); dtype >= 0 && i > 0; --i) {
    const int from = static_cast<int>(below(size));
    const int to = static_cast<int>(below(size));
    if (from == to && !member.limits.complete) continue;
    constexpr size_t kCounts[] = {0, 1, 64, 1000, 100000};
    plan.messages.push_back(
        {from, to, DW_TAG(below(2), i), dtype, kCounts[below(5)]});
  }
  const std::vector<Case> offered =
      one_of_each(promises, 1 + below(2000), calling);
  for (size_t i = below(5); !offered.empty() && i > 0; --i) {
    plan.collectives.push_back(offered[below(offered.size())]);
    plan.collectives.back().root = static_cast<int>(below(size));
    plan.collectives.back().salt = below(1000);
  }
  return plan;
}

// Collectives keep their order, and so do messages that have only that;
// everything else may be placed anywhere, and is.
std::vector<Operation*> shuffled(const std::vector<Operation*>& messages,
                                 const std::vector<Operation*>& collectives,
                                 bool tags, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<Operation*> moving(messages);
  if (tags) std::shuffle(moving.begin(), moving.end(), random);
  std::vector<const std::vector<Operation*>*> from(moving.size(), &moving);
  from.resize(moving.size() + collectives.size(), &collectives);
  std::shuffle(from.begin(), from.end(), random);
  std::vector<Operation*> order;
  auto message = moving.begin();
  auto collective = collectives.begin();
  for (const auto* const list : from)
    order.push_back(list == &moving ? *message++ : *collective++);
  return order;
}

struct Communicators {
  dw_comm* comms[2];
  uint64_t next_seq[2] = {1, 1};
};

void run_plan(Member& member, Communicators& both, const Plan& plan,
              uint64_t seed) {
  std::vector<std::unique_ptr<Message>> messages;
  std::vector<std::unique_ptr<Call>> calls;
  std::vector<std::unique_ptr<Operation>> operations;
  std::vector<Operation*> moving, collective;
  for (const MessageSpec& spec : plan.messages)
    for (const bool sends : {true, false})
      if ((sends ? spec.from : spec.to) == member.rank) {
        messages.push_back(
            std::make_unique<Message>(member, sends, spec, plan.caller_waits));
        moving.push_back(&messages.back()->operation());
      }
  for (const Case& c : plan.collectives) {
    calls.push_back(std::make_unique<Call>(c, member));
    dw_op op = calls.back()->op();
    const size_t which = c.salt % 2;
    op.seq = both.next_seq[which]++;
    operations.push_back(std::make_unique<Operation>(op, both.comms[which]));
    collective.push_back(operations.back().get());
  }
  const std::vector<Operation*> all =
      shuffled(moving, collective, member.limits.tags,
               seed * 31 + static_cast<uint64_t>(member.rank));
  if (all.empty()) return;
  const std::string name = "group of seed " + std::to_string(seed);
  std::string wrong = begin_group(member, all);
  if (!wrong.empty()) return member.find(name + ": " + wrong);
  for (const auto& message : messages) message->end();
  for (size_t i = 0; i < operations.size(); ++i) {
    wrong = operations[i]->end(member);
    if (wrong.empty()) wrong = calls[i]->wrong_result();
    if (!wrong.empty())
      member.find(name + ": " + plan.collectives[i].name() + ": " + wrong);
  }
}

}  // namespace

void check_groups(const dw_backend_api& api, int size, const Limits& limits,
                  Findings& findings) {
  if (api.submit_group == nullptr) return;
  run_team(api, size, limits, findings, [&](Member& member) {
    const Promises promises = promises_of(member);
    dw_comm* const first = member.comm;
    if (!build_communicator(member, (UINT64_C(1) << 40) + limits.seed)) return;
    {
      std::lock_guard<std::mutex> lock(member.comms);
      member.second = std::exchange(member.comm, first);
    }
    Communicators both = {{first, member.second}};
    for (uint64_t round = 0; round < kRounds; ++round) {
      const uint64_t seed = limits.seed * 1000 + round;
      run_plan(member, both, make_plan(promises, member, seed), seed);
    }
  });
}

}  // namespace distwrap::conformance
