// Listeners that take packets of one host only. The loopback interface has many
// addresses, which stand for hosts here.
#include "strangers.h"

#include <gtest/gtest.h>

#include <arpa/inet.h>
#include <cerrno>
#include <cstring>
#include <netinet/in.h>
#include <poll.h>
#include <string>
#include <sys/socket.h>
#include <unistd.h>
#include <vector>

namespace gloo_backend {
namespace {

sockaddr_in at(const char* address, uint16_t port) {
  sockaddr_in v4 = {};
  v4.sin_family = AF_INET;
  v4.sin_port = port;
  inet_pton(AF_INET, address, &v4.sin_addr);
  return v4;
}

HostAddress host(const char* address) {
  HostAddress made;
  made.bytes_used = 4;
  const sockaddr_in v4 = at(address, 0);
  std::memcpy(made.bytes.data(), &v4.sin_addr, 4);
  return made;
}

class Strangers : public ::testing::Test {
 protected:
  Strangers() : listener_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in here = at("127.0.0.1", 0);
    EXPECT_EQ(bind(listener_, reinterpret_cast<sockaddr*>(&here), sizeof here),
              0);
    EXPECT_EQ(listen(listener_, 8), 0);
    socklen_t size = sizeof here;
    getsockname(listener_, reinterpret_cast<sockaddr*>(&here), &size);
    port_ = here.sin_port;
  }
  ~Strangers() override { close(listener_); }

  // Whether a caller with this address is connected within a moment.
  bool gets_in(const char* from, int wait_ms) {
    const int caller =
        socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    sockaddr_in own = at(from, 0), to = at("127.0.0.1", port_);
    EXPECT_EQ(bind(caller, reinterpret_cast<sockaddr*>(&own), sizeof own), 0);
    connect(caller, reinterpret_cast<sockaddr*>(&to), sizeof to);
    pollfd ready = {caller, POLLOUT, 0};
    const bool connected = poll(&ready, 1, wait_ms) == 1 &&
                           (ready.revents & (POLLERR | POLLHUP)) == 0;
    close(caller);
    return connected;
  }

  const int listener_;
  uint16_t port_ = 0;
};

TEST_F(Strangers, OnlyTheGroupsHostsGetIn) {
  const std::vector<HostAddress> from = {host("10.1.2.3"), host("127.0.0.2"),
                                         host("127.0.0.4")};
  ASSERT_TRUE(gets_in("127.0.0.3", 10'000)) << "without a filter";
  ASSERT_TRUE(keep_strangers_out({{Address::here(listener_), &from}}))
      << std::strerror(errno);
  EXPECT_TRUE(gets_in("127.0.0.2", 10'000));
  EXPECT_TRUE(gets_in("127.0.0.4", 10'000));
  EXPECT_FALSE(gets_in("127.0.0.3", 200));
  EXPECT_FALSE(gets_in("127.0.0.1", 200));
}

TEST_F(Strangers, AListenerThatIsNotThereIsAnError) {
  const std::vector<HostAddress> from = {host("127.0.0.2")};
  const int other = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in here = at("127.0.0.9", 0);
  ASSERT_EQ(bind(other, reinterpret_cast<sockaddr*>(&here), sizeof here), 0);
  const Address gone = Address::here(other);
  close(other);
  EXPECT_FALSE(keep_strangers_out({{gone, &from}}));
}

TEST(HostAddresses, TravelAsBytes) {
  const std::vector<HostAddress> own = dw_sdk::own_addresses();
  ASSERT_FALSE(own.empty());
  std::vector<HostAddress> heard;
  ASSERT_TRUE(dw_sdk::decode_addresses(dw_sdk::encode_addresses(own), &heard));
  ASSERT_EQ(heard.size(), own.size());
  EXPECT_EQ(heard[0].bytes, own[0].bytes);
  EXPECT_FALSE(dw_sdk::decode_addresses("", &heard));
  EXPECT_FALSE(dw_sdk::decode_addresses("x", &heard));
  EXPECT_FALSE(dw_sdk::decode_addresses(std::string(17, '\x05'), &heard));
  EXPECT_FALSE(dw_sdk::decode_addresses(std::string(17 * 25, '\x04'), &heard));
  EXPECT_TRUE(dw_sdk::decode_addresses(std::string(17, '\x04'), &heard));
}

}  // namespace
}  // namespace gloo_backend
