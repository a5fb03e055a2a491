// Adapts a distwrap Store to Gloo's interface.
//
// Threads: one at a time. Errors are exceptions, as Gloo expects.
#ifndef DISTWRAP_TESTS_PEERS_GLOO_STORE_H_
#define DISTWRAP_TESTS_PEERS_GLOO_STORE_H_

#include "distwrap/store.h"

#include <absl/time/time.h>
#include <gloo/rendezvous/store.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

namespace distwrap::peers {

class GlooStore final : public gloo::rendezvous::Store {
 public:
  // All keys begin with `prefix`.
  GlooStore(std::shared_ptr<distwrap::Store> store, std::string prefix,
            absl::Duration timeout);

  void set(const std::string& key, const std::vector<char>& data) override;
  std::vector<char> get(const std::string& key) override;
  void wait(const std::vector<std::string>& keys) override;
  void wait(const std::vector<std::string>& keys,
            const std::chrono::milliseconds& timeout) override;

 private:
  std::shared_ptr<distwrap::Store> store_;
  std::string prefix_;
  absl::Duration timeout_;
};

}  // namespace distwrap::peers

#endif  // DISTWRAP_TESTS_PEERS_GLOO_STORE_H_
