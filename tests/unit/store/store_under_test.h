// The kinds of stores that one test body runs over.
//
//   class MyTest : public StoreTest {};
//   TEST_P(MyTest, Works) { auto store = connect(); ... }
//   INSTANTIATE_TEST_SUITE_P(Stores, MyTest, every_store(), store_name);
#ifndef DISTWRAP_TESTS_UNIT_STORE_STORE_UNDER_TEST_H_
#define DISTWRAP_TESTS_UNIT_STORE_STORE_UNDER_TEST_H_

#include "agent_thread.h"
#include "distwrap/store.h"
#include "store/server.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>

namespace distwrap::store {

enum class Kind { kInMemory, kSocket, kNetwork, kAgent };

class StoreTest : public ::testing::TestWithParam<Kind> {
 public:
  StoreTest();
  ~StoreTest() override;

 protected:
  // The store of one rank: the shared store itself, or a client of its own.
  std::shared_ptr<Store> connect();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

inline auto every_store() {
  return ::testing::Values(Kind::kInMemory, Kind::kSocket, Kind::kNetwork,
                           Kind::kAgent);
}
std::string store_name(const ::testing::TestParamInfo<Kind>& info);

// Gives this process a job's key, and serves a store at a free port of the
// loopback interface.
class NetworkStore {
 public:
  explicit NetworkStore(const ServerOptions& options = {});
  ~NetworkStore();
  // "tls://127.0.0.1:<port>".
  std::string address() const;
  int port() const { return port_; }
  // The agent of another host. The store may end before it does.
  std::unique_ptr<AgentThread> make_agent() const;
  // How many control connections are open.
  int carriers() const;
  // The bytes that these have brought to the store, and from it.
  struct Traffic {
    uint64_t received = 0, sent = 0;
  };
  Traffic traffic() const;
  const Server& server() const;
  static void set_key(const std::string& key);

 private:
  struct State;
  std::unique_ptr<State> state_;
  int port_ = 0;
};

// A deadline that no passing test reaches.
inline Deadline soon() { return Deadline::after(absl::Seconds(20)); }

}  // namespace distwrap::store

#endif  // DISTWRAP_TESTS_UNIT_STORE_STORE_UNDER_TEST_H_
