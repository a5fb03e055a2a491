// A host's agent, which `distwrap run` is otherwise, on a thread of a test.
//
// Threads: one. Ownership: the destructor ends all connections.
//
//   AgentThread agent(path, store_address, psk);
//   auto store = Store::connect(agent.address(), deadline);
#ifndef DISTWRAP_TESTS_UNIT_STORE_AGENT_THREAD_H_
#define DISTWRAP_TESTS_UNIT_STORE_AGENT_THREAD_H_

#include "store/network_address.h"
#include "store/relay.h"

#include <functional>
#include <memory>
#include <string>

namespace distwrap::store {

class AgentThread {
 public:
  // `work` runs the thread's body, for a test that gives the thread a network
  // of its own.
  using Body = std::function<void()>;
  AgentThread(
      const std::string& path, const NetworkAddress& store, const TlsPsk& psk,
      const std::function<void(const Body&)>& work = [](const Body& body) {
        body();
      });
  ~AgentThread();
  AgentThread(const AgentThread&) = delete;
  AgentThread& operator=(const AgentThread&) = delete;

  std::string address() const { return "unix:" + path_; }

 private:
  struct State;
  const std::string path_;
  std::unique_ptr<State> state_;
};

}  // namespace distwrap::store

#endif  // DISTWRAP_TESTS_UNIT_STORE_AGENT_THREAD_H_
