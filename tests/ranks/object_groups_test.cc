// Object calls in groups whose numbering is not the world's.
#include "distwrap/groups.h"
#include "distwrap/objects.h"
#include "ranks/facade_ranks.h"

#include <gmock/gmock.h>

namespace distwrap::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// The checks of a member of `group`: each root in either numbering, and none.
void roots_of(const Group& group, int me) {
  const OpOptions o{.group = group};
  const std::vector<int>& members = group.global_ranks();
  const auto all = all_gather_object(me, o);
  ASSERT_TRUE(all.ok()) << all.status();
  for (size_t r = 0; r < members.size(); ++r)
    EXPECT_EQ((*all)[r], Object(members[r]));
  for (int r = -1; r < group.size(); ++r) {
    const size_t root = r < 0 ? 0 : static_cast<size_t>(r);
    const bool mine = members[root] == me;
    for (const Peer peer : {Peer::group(r), Peer::global(members[root])}) {
      const Peer who = r < 0 ? Peer() : peer;
      const auto gathered = gather_object(me, who, o);
      ASSERT_TRUE(gathered.ok()) << gathered.status();
      EXPECT_EQ(gathered->size(), mine ? members.size() : 0);
      if (mine) {
        EXPECT_EQ(*gathered, *all);
      }
      std::vector<Object> list(2, mine ? Object(me) : Object());
      const absl::Status status =
          broadcast_object_list(absl::MakeSpan(list), who, o);
      ASSERT_TRUE(status.ok()) << status;
      EXPECT_THAT(list, ElementsAre(members[root], members[root]));
      const auto part =
          scatter_object_list(mine ? *all : std::vector<Object>(), who, o);
      ASSERT_TRUE(part.ok()) << part.status();
      EXPECT_EQ(*part, Object(me));
    }
  }
  // From the first to the last rank, in the world's numbering.
  std::vector<Object> list(1, me);
  if (members.front() == me) {
    EXPECT_TRUE(send_object_list(list, Peer::global(members.back()), o).ok());
  } else if (members.back() == me) {
    ASSERT_TRUE(
        recv_object_list(absl::MakeSpan(list), Peer::global(members.front()), o)
            .ok());
    EXPECT_EQ(list[0], Object(members.front()));
  }
}

// Place in the group, number in the parent and number in the world all differ.
TEST(ObjectGroups, RootsByEitherNumber) {
  run_bound(4, [](int me) {
    const auto pairs = split_group({.split_ranks = {{3, 1}, {2, 0}}});
    ASSERT_TRUE(pairs.ok()) << pairs.status();
    roots_of(*pairs, me);
    const auto three = split_group({.split_ranks = {{3, 1, 2}}});
    ASSERT_TRUE(three.ok()) << three.status();
    if (me == 0) return;
    roots_of(*three, me);
    const auto nested =
        split_group({.parent = *three, .split_ranks = {{2, 0}}});
    ASSERT_TRUE(nested.ok()) << nested.status();
    if (*nested) roots_of(*nested, me);
  });
}

TEST(ObjectGroups, ARootOfTheWorldOnlyFailsEveryMember) {
  run_bound(4, [](int me) {
    const auto pair = split_group({.split_ranks = {{3, 1}, {2, 0}}});
    ASSERT_TRUE(pair.ok()) << pair.status();
    if (me % 2 == 0) return;
    const bool bad = me == 1;
    const OpOptions o{.group = *pair, .label = "epoch"};
    std::vector<Object> list(2, "before");
    const Peer root = bad ? Peer::global(2) : Peer();
    for (const absl::Status& status :
         {gather_object(1, root, o).status(),
          broadcast_object_list(absl::MakeSpan(list), root, o),
          scatter_object_list(list, root, o).status()}) {
      expect_reason(status, bad ? Reason::kRankNotMember : Reason::kAborted,
                    "Global rank 2 is not in process group");
      EXPECT_THAT(std::string(status.message()), HasSubstr("[epoch]"));
      if (!bad) {
        EXPECT_THAT(error_info(status)->ranks, ElementsAre(1))
            << "a rank of the group";
      }
    }
    EXPECT_EQ(list[0], Object("before"));
    EXPECT_TRUE(all_gather_object(1, o).ok());
  });
}

}  // namespace
}  // namespace distwrap::testing
