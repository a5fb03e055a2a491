#include "store_under_test.h"

#include "store/job_key.h"
#include "store/network_address.h"
#include "store/run_directory.h"
#include "store/server_thread.h"
#include "store/store_place.h"

#include <arpa/inet.h>
#include <filesystem>
#include <fstream>
#include <linux/tcp.h>  // more of tcp_info than netinet/tcp.h
#include <netinet/in.h>
#include <optional>
#include <sstream>
#include <stdlib.h>
#include <sys/socket.h>
#include <utility>

namespace distwrap::store {

struct StoreTest::State {
  std::shared_ptr<Store> in_memory;
  std::optional<RunDirectory> directory;
  std::unique_ptr<ServerThread> server;
  std::unique_ptr<NetworkStore> network;
  std::unique_ptr<AgentThread> agent;
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

int NetworkStore::carriers() const {
  std::ifstream all("/proc/net/tcp");
  int open = 0;
  for (std::string line; std::getline(all, line);) {
    std::istringstream words(line);
    std::string slot, local, remote, state;
    words >> slot >> local >> remote >> state;
    const size_t colon = local.find(':');
    open += state == "01" && colon != std::string::npos &&
            std::stoi(local.substr(colon + 1), nullptr, 16) == port_;
  }
  return open;
}

// The store is in this process, and so are its ends of the connections.
NetworkStore::Traffic NetworkStore::traffic() const {
  Traffic all;
  for (const auto& entry :
       std::filesystem::directory_iterator("/proc/self/fd")) {
    const int fd = std::stoi(entry.path().filename());
    sockaddr_in here = {};
    socklen_t size = sizeof here;
    tcp_info info = {};
    socklen_t known = sizeof info;
    if (getsockname(fd, reinterpret_cast<sockaddr*>(&here), &size) != 0 ||
        here.sin_family != AF_INET || ntohs(here.sin_port) != port_ ||
        getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &known) != 0)
      continue;
    all.received += info.tcpi_bytes_received;
    all.sent += info.tcpi_bytes_sent;
  }
  return all;
}

std::unique_ptr<AgentThread> NetworkStore::make_agent() const {
  const auto key = JobKey::of_process();
  return std::make_unique<AgentThread>(
      state_->directory->path() + "/agent",
      resolve({"127.0.0.1", port_})->front(),
      TlsPsk{job_identity(""), (*key)->control()});
}

StoreTest::StoreTest() : state_(std::make_unique<State>()) {
  if (GetParam() == Kind::kInMemory) {
    state_->in_memory = Store::in_memory();
    return;
  }
  if (GetParam() == Kind::kNetwork || GetParam() == Kind::kAgent) {
    state_->network = std::make_unique<NetworkStore>();
    if (GetParam() == Kind::kAgent)
      state_->agent = state_->network->make_agent();
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
      Store::connect(state_->agent != nullptr     ? state_->agent->address()
                     : state_->network != nullptr ? state_->network->address()
                                                  : state_->server->address(),
                     soon());
  EXPECT_TRUE(store.ok()) << store.status();
  return *std::move(store);
}

std::string store_name(const ::testing::TestParamInfo<Kind>& info) {
  return info.param == Kind::kInMemory ? "InMemory"
         : info.param == Kind::kSocket ? "Socket"
         : info.param == Kind::kAgent  ? "Agent"
                                       : "Network";
}

}  // namespace distwrap::store
