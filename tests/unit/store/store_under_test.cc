#include "store_under_test.h"

#include "store/job_key.h"
#include "store/network_address.h"
#include "store/run_directory.h"
#include "store/server_thread.h"
#include "store/store_place.h"

#include <optional>
#include <stdlib.h>
#include <utility>

namespace distwrap::store {

struct StoreTest::State {
  std::shared_ptr<Store> in_memory;
  std::optional<RunDirectory> directory;
  std::unique_ptr<ServerThread> server;
  std::unique_ptr<NetworkStore> network;
};

struct NetworkStore::State {
  std::optional<RunDirectory> directory;
  std::unique_ptr<ServerThread> server;
};

void NetworkStore::set_key(const std::string& key) {
  setenv("DISTWRAP_JOB_KEY", key.c_str(), 1);
}

NetworkStore::NetworkStore(const ServerOptions& options)
    : state_(std::make_unique<State>()) {
  set_key(std::string(64, 'a'));
  const auto key = JobKey::of_process();
  EXPECT_TRUE(key.ok() && key->has_value()) << key.status();
  auto directory = RunDirectory::make(base::Environment::of_process());
  EXPECT_TRUE(directory.ok()) << directory.status();
  state_->directory.emplace(*std::move(directory));
  // Port 0 lets the system choose.
  auto server = ServerThread::start(
      state_->directory->path() + "/store", options,
      NetworkService{.host = "127.0.0.1",
                     .ports = {0},
                     .psk = {job_identity(""), (*key)->control()}});
  EXPECT_TRUE(server.ok()) << server.status();
  state_->server = *std::move(server);
  port_ = HostPort::parse(state_->server->server().network_address())->port;
}

NetworkStore::~NetworkStore() = default;

std::string NetworkStore::address() const {
  return "tls://127.0.0.1:" + std::to_string(port_);
}

const Server& NetworkStore::server() const { return state_->server->server(); }

StoreTest::StoreTest() : state_(std::make_unique<State>()) {
  if (GetParam() == Kind::kInMemory) {
    state_->in_memory = Store::in_memory();
    return;
  }
  if (GetParam() == Kind::kNetwork) {
    state_->network = std::make_unique<NetworkStore>();
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
  auto store =
      Store::connect(GetParam() == Kind::kNetwork ? state_->network->address()
                                                  : state_->server->address(),
                     soon());
  EXPECT_TRUE(store.ok()) << store.status();
  return *std::move(store);
}

std::string store_name(const ::testing::TestParamInfo<Kind>& info) {
  return info.param == Kind::kInMemory ? "InMemory"
         : info.param == Kind::kSocket ? "Socket"
                                       : "Network";
}

}  // namespace distwrap::store
