#include "store/tls_channel.h"

#include "base/error.h"

#include <climits>

#include <cstring>
#include <openssl/bio.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/ssl.h>

namespace distwrap::store {
namespace {

constexpr char kCipher[] = "TLS_AES_128_GCM_SHA256";
constexpr unsigned char kCipherNumber[] = {0x13, 0x01};
constexpr size_t kRecord = 16 << 10;

const TlsPsk& psk_of(const SSL* ssl) {
  return *static_cast<const TlsPsk*>(SSL_get_app_data(ssl));
}

// The session that stands for the pre-shared key; null without memory.
SSL_SESSION* session_of(SSL* ssl) {
  const TlsPsk& psk = psk_of(ssl);
  SSL_SESSION* const session = SSL_SESSION_new();
  const SSL_CIPHER* const cipher = SSL_CIPHER_find(ssl, kCipherNumber);
  if (session != nullptr && cipher != nullptr &&
      SSL_SESSION_set1_master_key(session, psk.secret.data(),
                                  psk.secret.size()) == 1 &&
      SSL_SESSION_set_cipher(session, cipher) == 1 &&
      SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION) == 1)
    return session;
  SSL_SESSION_free(session);
  return nullptr;
}

int find_session(SSL* ssl, const unsigned char* identity, size_t size,
                 SSL_SESSION** session) {
  const absl::string_view asked(reinterpret_cast<const char*>(identity), size);
  // Without a session the handshake goes on and fails: there are no
  // certificates.
  *session = asked == psk_of(ssl).identity ? session_of(ssl) : nullptr;
  return 1;
}

int use_session(SSL* ssl, const EVP_MD* digest, const unsigned char** identity,
                size_t* size, SSL_SESSION** session) {
  *session = nullptr;
  // The digest is known after a second hello; the key belongs to SHA-256.
  if (digest != nullptr && EVP_MD_is_a(digest, "SHA256") == 0) return 1;
  const TlsPsk& psk = psk_of(ssl);
  *session = session_of(ssl);
  if (*session == nullptr) return 0;
  *identity = reinterpret_cast<const unsigned char*>(psk.identity.data());
  *size = psk.identity.size();
  return 1;
}

SSL_CTX* make_context(bool is_server) {
  SSL_CTX* const context =
      SSL_CTX_new(is_server ? TLS_server_method() : TLS_client_method());
  if (context == nullptr) return nullptr;
  SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION);
  SSL_CTX_set_max_proto_version(context, TLS1_3_VERSION);
  SSL_CTX_set_options(context, SSL_OP_NO_TICKET | SSL_OP_NO_RENEGOTIATION);
  SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS);
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_num_tickets(context, 0);
  SSL_CTX_set_max_early_data(context, 0);
  // A stranger's certificate never counts: nobody is trusted to sign one.
  SSL_CTX_set_verify(context, is_server ? SSL_VERIFY_NONE : SSL_VERIFY_PEER,
                     nullptr);
  if (SSL_CTX_set_ciphersuites(context, kCipher) != 1 ||
      SSL_CTX_set1_groups_list(context, "X25519") != 1) {
    SSL_CTX_free(context);
    return nullptr;
  }
  if (is_server)
    SSL_CTX_set_psk_find_session_callback(context, find_session);
  else
    SSL_CTX_set_psk_use_session_callback(context, use_session);
  return context;
}

// Never freed: connections of other threads may outlive any owner.
SSL_CTX* context_of(bool is_server) {
  static SSL_CTX* const client = make_context(false);
  static SSL_CTX* const server = make_context(true);
  return is_server ? server : client;
}

std::string newest_error() {
  const unsigned long code = ERR_peek_last_error();
  ERR_clear_error();
  if (code == 0) return "the handshake was not completed";
  const char* const text = ERR_reason_error_string(code);
  return text == nullptr ? "an error of OpenSSL" : text;
}

}  // namespace

absl::StatusOr<std::unique_ptr<TlsChannel>> TlsChannel::make(
    Role role, const TlsPsk& psk) {
  const bool is_server = role == Role::kServer;
  std::unique_ptr<TlsChannel> channel(new TlsChannel(psk));
  SSL_CTX* const context = context_of(is_server);
  BIO* const in = BIO_new(BIO_s_mem());
  BIO* const out = BIO_new(BIO_s_mem());
  channel->ssl_ = context == nullptr ? nullptr : SSL_new(context);
  if (in == nullptr || out == nullptr || channel->ssl_ == nullptr) {
    BIO_free(in);
    BIO_free(out);
    ERR_clear_error();
    return base::make_error({.reason = Reason::kOutOfMemory,
                             .what = "no TLS connection can be made",
                             .op = "store connect"});
  }
  // An empty input means "not yet", not the end.
  BIO_set_mem_eof_return(in, -1);
  BIO_set_mem_eof_return(out, -1);
  SSL_set_bio(channel->ssl_, in, out);
  SSL_set_app_data(channel->ssl_, &channel->psk_);
  if (is_server) {
    SSL_set_accept_state(channel->ssl_);
  } else {
    SSL_set_connect_state(channel->ssl_);
    channel->shake_hands();
  }
  return channel;
}

TlsChannel::~TlsChannel() {
  SSL_free(ssl_);
  OPENSSL_cleanse(psk_.secret.data(), psk_.secret.size());
}

void TlsChannel::fail() {
  // RFC 8446, 4.2.11: the alert of a server that cannot verify the client's
  // binder. OpenSSL sends this one, and handshake_failure for another name.
  const int reason = ERR_GET_REASON(ERR_peek_last_error());
  key_differs_ = reason == SSL_R_SSLV3_ALERT_ILLEGAL_PARAMETER;
  failure_ = newest_error();
  state_ = State::kFailed;
}

TlsChannel::State TlsChannel::shake_hands() {
  ERR_clear_error();
  const int result = SSL_do_handshake(ssl_);
  if (result == 1) {
    // A handshake that used another means than the key is no proof.
    if (SSL_session_reused(ssl_) == 1)
      state_ = State::kOpen;
    else
      fail();
  } else if (SSL_get_error(ssl_, result) != SSL_ERROR_WANT_READ) {
    fail();
  }
  return state_;
}

TlsChannel::State TlsChannel::receive(absl::string_view bytes,
                                      std::string* plain) {
  if (state_ == State::kFailed || state_ == State::kEnded) return state_;
  if (bytes.size() > INT_MAX || BIO_write(SSL_get_rbio(ssl_), bytes.data(),
                                          static_cast<int>(bytes.size())) !=
                                    static_cast<int>(bytes.size())) {
    fail();
    return state_;
  }
  if (state_ == State::kHandshake && shake_hands() != State::kOpen)
    return state_;
  char buffer[kRecord];
  for (;;) {
    ERR_clear_error();
    size_t size = 0;
    if (SSL_read_ex(ssl_, buffer, sizeof buffer, &size) == 1) {
      plain->append(buffer, size);
      continue;
    }
    const int error = SSL_get_error(ssl_, 0);
    if (error == SSL_ERROR_WANT_READ) return state_;
    if (error == SSL_ERROR_ZERO_RETURN)
      state_ = State::kEnded;
    else
      fail();
    return state_;
  }
}

bool TlsChannel::send(absl::string_view plain) {
  if (state_ != State::kOpen) return false;
  if (plain.empty()) return true;
  ERR_clear_error();
  size_t written = 0;
  if (SSL_write_ex(ssl_, plain.data(), plain.size(), &written) == 1 &&
      written == plain.size())
    return true;
  fail();
  return false;
}

std::string TlsChannel::take_output() {
  BIO* const out = SSL_get_wbio(ssl_);
  const size_t size = BIO_ctrl_pending(out);
  std::string bytes(size, '\0');
  if (size != 0) BIO_read(out, bytes.data(), static_cast<int>(size));
  // The buffer of a long message would stay as long as the connection.
  if (size > kRecord) {
    if (BIO* const small = BIO_new(BIO_s_mem()); small != nullptr) {
      BIO_set_mem_eof_return(small, -1);
      SSL_set0_wbio(ssl_, small);
    }
  }
  return bytes;
}

}  // namespace distwrap::store
