// Stands for tls_channel.cc in a build without OpenSSL: no channel can be made.
#include "base/secrets.h"
#include "store/tls_channel.h"

namespace distwrap::store {

absl::StatusOr<std::unique_ptr<TlsChannel>> TlsChannel::make(Role,
                                                             const TlsPsk&) {
  return base::check_secrets();
}

TlsChannel::~TlsChannel() = default;

TlsChannel::State TlsChannel::receive(absl::string_view, std::string*) {
  return State::kFailed;
}

bool TlsChannel::send(absl::string_view) { return false; }

std::string TlsChannel::take_output() { return {}; }

}  // namespace distwrap::store
