// The handshake between hosts, without a network: who has the key gets in, and
// nobody else does, whatever it sends.
#include "store/tls_channel.h"

#include "store/control_channel.h"
#include "store/wire.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstring>
#include <memory>
#include <openssl/ssl.h>
#include <random>
#include <string>
#include <utility>

namespace distwrap::store {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using Role = TlsChannel::Role;
using State = TlsChannel::State;

TlsPsk psk(uint8_t number, const std::string& job = "job") {
  TlsPsk made{.identity = "dw1:" + job};
  made.secret.fill(number);
  return made;
}

// The two ends of a connection, and what each has heard.
template <class Channel>
struct Pair {
  Pair(const TlsPsk& server_psk, const TlsPsk& client_psk)
      : server(*Channel::make(Channel::Role::kServer, server_psk)),
        client(*Channel::make(Channel::Role::kClient, client_psk)) {}

  // Carries bytes until both are silent.
  void carry() {
    for (;;) {
      const std::string up = client->take_output();
      if (!up.empty()) server->receive(up, &at_server);
      const std::string down = server->take_output();
      if (!down.empty()) client->receive(down, &at_client);
      if (up.empty() && down.empty()) return;
    }
  }

  std::unique_ptr<Channel> server, client;
  std::string at_server, at_client;
};

TEST(TlsChannel, TheKeyOpensIt) {
  Pair<TlsChannel> pair(psk(1), psk(1));
  pair.carry();
  ASSERT_EQ(pair.server->state(), State::kOpen) << pair.server->failure();
  ASSERT_EQ(pair.client->state(), State::kOpen) << pair.client->failure();
  const std::string large(3 << 20, 'x');
  EXPECT_TRUE(pair.client->send("to the server"));
  EXPECT_TRUE(pair.server->send(large));
  pair.carry();
  EXPECT_EQ(pair.at_server, "to the server");
  EXPECT_EQ(pair.at_client, large);
}

TEST(TlsChannel, WhatIsSentIsNotReadable) {
  Pair<TlsChannel> pair(psk(1), psk(1));
  pair.carry();
  ASSERT_TRUE(pair.client->send("the secret word"));
  EXPECT_THAT(pair.client->take_output(), Not(HasSubstr("secret")));
}

TEST(TlsChannel, AnotherKeyOrNameDoesNot) {
  for (const TlsPsk& other : {psk(2), psk(0), psk(1, "other")}) {
    Pair<TlsChannel> pair(psk(1), other);
    pair.carry();
    EXPECT_EQ(pair.server->state(), State::kFailed);
    EXPECT_EQ(pair.client->state(), State::kFailed);
    EXPECT_NE(pair.client->failure(), "");
    EXPECT_FALSE(pair.client->send("x"));
    EXPECT_EQ(pair.at_server, "");
  }
}

TEST(TlsChannel, OneOwnHelloReflectedDoesNot) {
  auto client = *TlsChannel::make(Role::kClient, psk(1));
  std::string plain;
  const std::string hello = client->take_output();
  EXPECT_EQ(client->receive(hello, &plain), State::kFailed);
}

// A handshake that was overheard proves nothing a second time.
TEST(TlsChannel, AReplayedHandshakeDoesNot) {
  auto server = *TlsChannel::make(Role::kServer, psk(1));
  auto client = *TlsChannel::make(Role::kClient, psk(1));
  std::string plain;
  const std::string hello = client->take_output();
  server->receive(hello, &plain);
  client->receive(server->take_output(), &plain);
  const std::string finished = client->take_output();
  ASSERT_EQ(server->receive(finished, &plain), State::kOpen);
  auto again = *TlsChannel::make(Role::kServer, psk(1));
  EXPECT_EQ(again->receive(hello, &plain), State::kHandshake);
  EXPECT_EQ(again->receive(finished, &plain), State::kFailed);
}

// Shows what a foreign client can do with the right key and another protocol,
// and with the right protocol and no key; returns whether it got in.
bool gets_in(int version, bool with_key) {
  SSL_CTX* const context = SSL_CTX_new(TLS_client_method());
  SSL_CTX_set_min_proto_version(context, version);
  SSL_CTX_set_max_proto_version(context, version);
  SSL_CTX_set_cipher_list(context, "ALL:@SECLEVEL=0");
  if (with_key)
    SSL_CTX_set_psk_client_callback(
        context,
        [](SSL*, const char*, char* identity, unsigned room,
           unsigned char* secret, unsigned) -> unsigned {
          std::snprintf(identity, room, "dw1:job");
          std::memset(secret, 1, 32);
          return 32;
        });
  SSL* const ssl = SSL_new(context);
  BIO* const in = BIO_new(BIO_s_mem());
  BIO* const out = BIO_new(BIO_s_mem());
  BIO_set_mem_eof_return(in, -1);
  SSL_set_bio(ssl, in, out);
  SSL_set_connect_state(ssl);
  auto server = *TlsChannel::make(Role::kServer, psk(1));
  std::string plain;
  for (int round = 0; round < 4; ++round) {
    SSL_do_handshake(ssl);
    char buffer[4096];
    for (int n; (n = BIO_read(out, buffer, sizeof buffer)) > 0;)
      server->receive({buffer, static_cast<size_t>(n)}, &plain);
    const std::string down = server->take_output();
    BIO_write(in, down.data(), static_cast<int>(down.size()));
  }
  SSL_free(ssl);
  SSL_CTX_free(context);
  return server->state() == State::kOpen;
}

TEST(TlsChannel, OlderProtocolsAndClientsWithoutAKeyDoNot) {
  EXPECT_TRUE(gets_in(TLS1_3_VERSION, true)) << "the test's client can";
  EXPECT_FALSE(gets_in(TLS1_2_VERSION, true));
  EXPECT_FALSE(gets_in(TLS1_3_VERSION, false));
}

TEST(TlsChannel, DamagedBytesAreNeverHeard) {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    Pair<TlsChannel> pair(psk(1), psk(1));
    if (round % 2 == 0) {
      pair.carry();
      ASSERT_TRUE(pair.client->send("some words"));
    }
    std::string bytes = pair.client->take_output();
    bytes[random() % bytes.size()] ^= static_cast<char>(1 << random() % 8);
    std::string plain;
    pair.server->receive(bytes, &plain);
    EXPECT_NE(plain, "some words") << round;
  }
}

TEST(ControlChannel, GreetsAndCarries) {
  Pair<ControlChannel> pair(psk(1), psk(1));
  EXPECT_FALSE(pair.client->send("too early"));
  pair.carry();
  ASSERT_EQ(pair.server->state(), State::kOpen) << pair.server->failure();
  ASSERT_EQ(pair.client->state(), State::kOpen) << pair.client->failure();
  EXPECT_TRUE(pair.client->send("frame"));
  pair.carry();
  EXPECT_EQ(pair.at_server, "frame");
  EXPECT_EQ(pair.at_client, "");
}

// A side with the key, whose greeting is another.
State greeted_with(const std::string& greeting) {
  auto server = *ControlChannel::make(Greeting::kServer, psk(1));
  auto client = *TlsChannel::make(Role::kClient, psk(1));
  std::string plain;
  for (int round = 0; round < 3; ++round) {
    server->receive(client->take_output(), &plain);
    client->receive(server->take_output(), &plain);
  }
  client->send(greeting);
  plain.clear();
  const State state = server->receive(client->take_output(), &plain);
  EXPECT_EQ(plain, "");
  return state;
}

TEST(ControlChannel, RefusesOtherGreetings) {
  EXPECT_EQ(greeted_with(encode(Greeting{.job = "dw1:job"})), State::kOpen);
  EXPECT_EQ(greeted_with(encode(Greeting{.job = "dw1:other"})), State::kFailed);
  EXPECT_EQ(greeted_with(encode(Greeting{.version = 1, .job = "dw1:job"})),
            State::kFailed);
  // A mirror has the server's own role.
  EXPECT_EQ(greeted_with(
                encode(Greeting{.role = Greeting::kServer, .job = "dw1:job"})),
            State::kFailed);
  EXPECT_EQ(greeted_with(std::string("\x00\x10\x00\x00", 4)), State::kFailed);
  EXPECT_EQ(greeted_with(std::string("\x04\x00\x00\x00junk", 8)),
            State::kFailed);
  EXPECT_EQ(greeted_with("\x04"), State::kHandshake) << "it is not complete";
}

}  // namespace
}  // namespace distwrap::store
