// A store whose answers come too late: only ranks that it reported missing are
// named, and deadlines hold.
#include "base/mutex.h"
#include "distwrap/status.h"
#include "store/exchange.h"
#include "store/run_directory.h"
#include "store/table.h"
#include "store/wire.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <sys/socket.h>
#include <sys/un.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace distwrap::store {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Serves as the real server does, but answers only so many unfinished waits of
// each connection.
class SlowServer {
 public:
  SlowServer(const std::string& path, int answers_to_waits)
      : answers_(answers_to_waits), listener_(socket(AF_UNIX, SOCK_STREAM, 0)) {
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof address.sun_path - 1);
    EXPECT_EQ(
        bind(listener_, reinterpret_cast<sockaddr*>(&address), sizeof address),
        0);
    EXPECT_EQ(listen(listener_, 16), 0);
    acceptor_ = std::thread([this] {
      for (;;) {
        const int fd = accept(listener_, nullptr, nullptr);
        if (fd < 0) return;
        clients_.emplace_back([this, fd] { serve(fd); });
      }
    });
  }
  // All clients have gone by then.
  ~SlowServer() {
    shutdown(listener_, SHUT_RDWR);
    acceptor_.join();
    for (std::thread& client : clients_) client.join();
    close(listener_);
  }

 private:
  static bool read_all(int fd, char* bytes, size_t size) {
    return recv(fd, bytes, size, MSG_WAITALL) == static_cast<ssize_t>(size);
  }

  void serve(int fd) {
    int left = answers_;
    char header[kHeaderBytes];
    while (read_all(fd, header, sizeof header)) {
      std::string body(*decode_header({header, sizeof header}), '\0');
      if (!read_all(fd, body.data(), body.size())) break;
      Reply reply = answer(*decode_request(body));
      if (reply.answer == Answer::kTimedOut && left-- <= 0) continue;
      const std::string frame = encode(reply);
      send(fd, frame.data(), frame.size(), MSG_NOSIGNAL);
    }
    close(fd);
  }

  Reply answer(const Request& request) {
    base::MutexLock lock(mutex_);
    const std::string key = request.keys.empty() ? "" : request.keys[0];
    Reply reply;
    switch (request.op) {
      case Op::kSet:
        table_.set(key, request.value);
        break;
      case Op::kAdd:
        reply.number = *table_.add(key, request.number);
        break;
      case Op::kCompareSet:
        reply.texts = {
            table_.compare_set(key, request.expected, request.value)};
        break;
      case Op::kAppend:
      case Op::kWill:
      case Op::kResume:
      case Op::kDelete:
        reply.number = table_.erase(key) ? 1 : 0;
        break;
      case Op::kWait:
      case Op::kGetAll:
        for (uint32_t i = 0; const std::string& one : keys_of(request)) {
          const std::string* const value = table_.find(one);
          if (value == nullptr)
            reply.indices.push_back(i);
          else
            reply.texts.push_back(*value);
          ++i;
        }
        if (!reply.indices.empty()) reply.answer = Answer::kTimedOut;
    }
    return reply;
  }

  const int answers_;
  const int listener_;
  base::Mutex mutex_;
  Table table_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::thread> clients_;  // used by the acceptor until it has ended
  std::thread acceptor_;
};

class SlowStore : public ::testing::Test {
 protected:
  void serve(int answers_to_waits) {
    auto directory = RunDirectory::make(base::Environment::of_process());
    ASSERT_TRUE(directory.ok()) << directory.status();
    directory_.emplace(*std::move(directory));
    const std::string path = directory_->path() + "/store";
    server_ = std::make_unique<SlowServer>(path, answers_to_waits);
    auto store = Store::connect("unix:" + path, after_seconds(20));
    ASSERT_TRUE(store.ok()) << store.status();
    store_ = *std::move(store);
  }
  void TearDown() override {
    store_.reset();
    server_.reset();
  }
  static Deadline after_seconds(double seconds) {
    return Deadline::after(absl::Seconds(seconds));
  }

  std::optional<RunDirectory> directory_;
  std::unique_ptr<SlowServer> server_;
  std::shared_ptr<Store> store_;
};

TEST_F(SlowStore, OnlyRanksThatAreAbsentAreNamed) {
  serve(1);
  ASSERT_TRUE(store_->set("key/2", "here", after_seconds(20)).ok());
  const absl::Status status =
      exchange(*store_, "key", 0, 3, "me", after_seconds(0.5)).status();
  const std::optional<ErrorInfo> info = error_info(status);
  ASSERT_TRUE(info.has_value()) << status;
  EXPECT_EQ(info->reason, Reason::kTimedOut);
  EXPECT_THAT(info->ranks, ElementsAre(1)) << status;
  EXPECT_THAT(info->what, HasSubstr("1 of 3 ranks did not come"));
  EXPECT_THAT(info->cause, HasSubstr("answered last"));
}

TEST_F(SlowStore, NobodyIsNamedWhenItNeverAnswered) {
  serve(0);
  ASSERT_TRUE(store_->set("key/2", "here", after_seconds(20)).ok());
  const absl::Status status =
      exchange(*store_, "key", 0, 3, "me", after_seconds(0.3)).status();
  const std::optional<ErrorInfo> info = error_info(status);
  ASSERT_TRUE(info.has_value()) << status;
  EXPECT_EQ(info->reason, Reason::kTimedOut);
  EXPECT_THAT(info->ranks, IsEmpty());
  EXPECT_THAT(info->what, HasSubstr("did not tell which of 3 ranks"));
  EXPECT_THAT(info->cause, HasSubstr("did not answer"));
}

// An earlier report is better than none.
TEST_F(SlowStore, AnEarlierReportCounts) {
  serve(2);
  const absl::Status status =
      exchange(*store_, "key", 1, 2, "me", after_seconds(0.6),
               absl::Milliseconds(1))
          .status();
  const std::optional<ErrorInfo> info = error_info(status);
  ASSERT_TRUE(info.has_value()) << status;
  EXPECT_THAT(info->ranks, ElementsAre(0)) << status;
}

TEST_F(SlowStore, WaitsEndByTheirDeadline) {
  serve(0);
  for (const bool values : {false, true}) {
    const Deadline deadline = after_seconds(0.2);
    const absl::Status status = values ? store_->get("none", deadline).status()
                                       : store_->wait({"none"}, deadline);
    EXPECT_TRUE(deadline.passed());
    EXPECT_LT(Deadline::now_ns() - deadline.ns(), 5'000'000'000);
    const std::optional<ErrorInfo> info = error_info(status);
    ASSERT_TRUE(info.has_value()) << status;
    EXPECT_EQ(info->reason, Reason::kTimedOut);
    EXPECT_EQ(info->expected, "") << "it may exist";
    EXPECT_THAT(info->cause, HasSubstr("did not answer"));
  }
}

TEST_F(SlowStore, APassedDeadlineTellsNothingOfKeys) {
  serve(0);
  const absl::Status status = store_->wait({"none"}, after_seconds(-1));
  EXPECT_EQ(error_info(status)->expected, "") << status;
}

}  // namespace
}  // namespace distwrap::store
