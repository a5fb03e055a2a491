#include "store_under_test.h"

#include "store/run_directory.h"
#include "store/server_thread.h"

#include <optional>

namespace distwrap::store {

struct StoreTest::State {
  std::shared_ptr<Store> in_memory;
  std::optional<RunDirectory> directory;
  std::unique_ptr<ServerThread> server;
};

StoreTest::StoreTest() : state_(std::make_unique<State>()) {
  if (GetParam() == Kind::kInMemory) {
    state_->in_memory = Store::in_memory();
    return;
  }
  auto directory = RunDirectory::make(base::Environment::of_process());
  EXPECT_TRUE(directory.ok()) << directory.status();
  state_->directory.emplace(*std::move(directory));
  auto server = ServerThread::start(state_->directory->path() + "/store");
  EXPECT_TRUE(server.ok()) << server.status();
  state_->server = *std::move(server);
}

StoreTest::~StoreTest() = default;

std::shared_ptr<Store> StoreTest::connect() {
  if (GetParam() == Kind::kInMemory) return state_->in_memory;
  auto store = Store::connect(state_->server->address(), soon());
  EXPECT_TRUE(store.ok()) << store.status();
  return *std::move(store);
}

std::string store_name(const ::testing::TestParamInfo<Kind>& info) {
  return info.param == Kind::kInMemory ? "InMemory" : "Socket";
}

}  // namespace distwrap::store
