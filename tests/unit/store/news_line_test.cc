// The line on which processes of several hosts hear of each other.
#include "store/news_line.h"

#include "base/mutex.h"
#include "store/client.h"
#include "store/table.h"
#include "store_under_test.h"

#include <absl/time/clock.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

namespace distwrap::store {
namespace {

using ::testing::ElementsAre;

class Heard final : public NewsLine::Listener {
 public:
  void on_news(absl::string_view text) override {
    base::MutexLock lock(mutex_);
    entries_.emplace_back(text);
    changed_.notify_all();
  }
  void on_line_lost(absl::string_view cause, bool) override {
    base::MutexLock lock(mutex_);
    entries_.push_back("line lost");
    lost_ = std::string(cause);
    changed_.notify_all();
  }
  // The first entries, when there are so many.
  std::vector<std::string> wait_for(size_t number) {
    base::MutexLock lock(mutex_);
    const Deadline deadline = soon();
    while (entries_.size() < number && changed_.wait_until(mutex_, deadline)) {
    }
    return entries_;
  }

 private:
  base::Mutex mutex_;
  base::CondVar changed_;
  std::vector<std::string> entries_ ABSL_GUARDED_BY(mutex_);
  std::string lost_ ABSL_GUARDED_BY(mutex_);
};

class NewsLineTest : public ::testing::Test {
 protected:
  StorePlace place() { return *StorePlace::parse(store_->address()); }
  std::unique_ptr<NewsLine> open(const std::string& will, Heard& heard,
                                 absl::Duration silence = absl::Seconds(20)) {
    auto line = NewsLine::open({place(), "news", will, silence}, heard, soon());
    EXPECT_TRUE(line.ok()) << line.status();
    return *std::move(line);
  }
  std::shared_ptr<ClientStore> client() {
    bool hopeless = false;
    return *connect_to(place(), soon(), &hopeless);
  }

  std::unique_ptr<NetworkStore> store_ = std::make_unique<NetworkStore>();
};

TEST_F(NewsLineTest, AllHearAllEntriesInOneOrder) {
  Heard first, second;
  const auto one = open("lost 1", first);
  const auto writer = client();
  EXPECT_EQ(*writer->append("news", "a", soon()), 1);
  EXPECT_EQ(*writer->append("news", "b", soon()), 2);
  // A line that comes later hears what was before.
  const auto two = open("lost 2", second);
  EXPECT_EQ(*writer->append("news", "c", soon()), 3);
  EXPECT_THAT(first.wait_for(3), ElementsAre("a", "b", "c"));
  EXPECT_THAT(second.wait_for(3), ElementsAre("a", "b", "c"));
}

// The log of a job that runs for months stays small.
TEST_F(NewsLineTest, ALineThatIsFarBehindIsLost) {
  const auto writer = client();
  for (int64_t n = 1; n <= Table::kKeptOfLog + 1; ++n)
    ASSERT_EQ(*writer->append("news", "a", soon()), n);
  EXPECT_FALSE(
      writer->get("news/1", Deadline::after(absl::Milliseconds(10))).ok());
  EXPECT_EQ(*writer->get("news/2", soon()), "a");
  Heard heard;
  const auto line = open("lost 1", heard, absl::Seconds(2));
  EXPECT_THAT(heard.wait_for(1), ElementsAre("line lost"));
}

TEST_F(NewsLineTest, TheEndOfALineIsAnEntry) {
  Heard first, second;
  const auto one = open("lost 1", first);
  auto two = open("lost 2", second);
  two.reset();
  EXPECT_THAT(first.wait_for(1), ElementsAre("lost 2"));
}

// A process that does not run sends nothing, though its connection stays.
TEST_F(NewsLineTest, ASilentProcessIsAnEntry) {
  Heard heard;
  const auto one = open("lost 1", heard);
  bool hopeless = false;
  const auto stream = place().dial({.deadline = soon()}, &hopeless);
  ASSERT_TRUE(stream.ok()) << stream.status();
  const std::string will = encode(
      Request{.op = Op::kWill,
              .timeout_ns = absl::ToInt64Nanoseconds(absl::Milliseconds(200)),
              .keys = {"news"},
              .value = "lost 2"});
  ASSERT_EQ((*stream)->send(will, soon()).kind, Io::kDone);
  EXPECT_THAT(heard.wait_for(1), ElementsAre("lost 2"));
}

// Beats stand for a process that a debugger holds, while its request waits for
// a reply.
TEST_F(NewsLineTest, BeatsKeepALineThatAsksNothing) {
  Heard heard;
  const auto one = open("lost 1", heard);
  bool hopeless = false;
  const auto stream = place().dial({.deadline = soon()}, &hopeless);
  ASSERT_TRUE(stream.ok()) << stream.status();
  const std::string will = encode(
      Request{.op = Op::kWill,
              .timeout_ns = absl::ToInt64Nanoseconds(absl::Milliseconds(400)),
              .keys = {"news"},
              .value = "lost 2"});
  const std::string parked =
      encode(Request{.op = Op::kWait, .keys = {"never"}});
  ASSERT_EQ((*stream)->send(will, soon()).kind, Io::kDone);
  char reply[kHeaderBytes];
  ASSERT_EQ((*stream)->receive(reply, sizeof reply, soon()).kind, Io::kDone);
  ASSERT_EQ((*stream)->send(parked, soon()).kind, Io::kDone);
  for (int i = 0; i < 40; ++i) {
    // In two pieces, as the network may bring it.
    ASSERT_EQ((*stream)->send(kBeat.substr(0, 3), soon()).kind, Io::kDone);
    ASSERT_EQ((*stream)->send(kBeat.substr(3), soon()).kind, Io::kDone);
    absl::SleepFor(absl::Milliseconds(50));
  }
  EXPECT_EQ(*client()->append("news", "still here", soon()), 1);
  EXPECT_THAT(heard.wait_for(2), ElementsAre("still here", "lost 2"));
}

// A process that runs and has nothing to say is not silent.
TEST_F(NewsLineTest, AnIdleProcessStays) {
  Heard first, second;
  const auto one = open("lost 1", first);
  const auto two = open("lost 2", second, absl::Milliseconds(400));
  absl::SleepFor(absl::Seconds(2));
  EXPECT_EQ(*client()->append("news", "still here", soon()), 1);
  EXPECT_THAT(first.wait_for(1), ElementsAre("still here"));
}

TEST_F(NewsLineTest, TheEndOfTheStoreIsHeard) {
  Heard heard;
  const auto one = open("lost 1", heard);
  store_.reset();
  EXPECT_THAT(heard.wait_for(1), ElementsAre("line lost"));
}

}  // namespace
}  // namespace distwrap::store
