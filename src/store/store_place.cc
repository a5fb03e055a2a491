#include "store/store_place.h"

#include "base/error.h"
#include "store/host_agent.h"
#include "store/interrupt.h"
#include "store/job_key.h"
#include "store/tls_socket.h"

#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_split.h>
#include <absl/strings/strip.h>

#include <algorithm>
#include <errno.h>
#include <optional>
#include <utility>

namespace distwrap::store {
namespace {

constexpr absl::Duration kFirstPause = absl::Milliseconds(5);
constexpr absl::Duration kLongestPause = absl::Milliseconds(100);
// The time for one address of a name, so that a dead one hides no other.
constexpr absl::Duration kOneAttempt = absl::Seconds(3);

absl::Status bad_address(absl::string_view address, absl::string_view what) {
  return base::make_error(
      {.reason = Reason::kInvalidArgument,
       .what = std::string(what),
       .op = "store connect",
       .expected = "unix:/absolute/path, the path at most 107 bytes, or "
                   "tls://host:port",
       .actual = absl::StrCat("'", address, "'")});
}

// Whether waiting does not help: the host itself says that there is no way.
bool is_final(int error) {
  return error == ENETUNREACH || error == EHOSTUNREACH || error == EACCES ||
         error == EPERM || error == EADDRNOTAVAIL;
}

std::string advice(const HostPort& place, const NetworkAddress& address,
                   int error) {
  if (address.is_loopback() && !says_loopback(place.host))
    return absl::StrCat("'", place.host,
                        "' means this host itself here: give an address that "
                        "other hosts reach, or correct /etc/hosts");
  if (is_final(error))
    return "check the address, and the network between the hosts";
  if (error == ETIMEDOUT)
    return "check the address, and whether a firewall lets the port through";
  return "check whether rank 0 or `distwrap run --node-rank 0`, which serves "
         "it, was started and still runs";
}

}  // namespace

std::vector<HostPort> parse_places(absl::string_view text) {
  std::vector<HostPort> places;
  const std::vector<absl::string_view> parts = absl::StrSplit(text, ',');
  const std::optional<HostPort> first = HostPort::parse(parts[0]);
  if (!first.has_value()) return places;
  places.push_back(*first);
  for (size_t i = 1; i < parts.size(); ++i) {
    int port = 0;
    if (!absl::SimpleAtoi(parts[i], &port) || port < 1 || port > 65535)
      return {};
    places.push_back({first->host, port});
  }
  return places;
}

std::string job_identity(absl::string_view job) {
  return absl::StrCat("dw1:", job);
}

absl::StatusOr<StorePlace> StorePlace::parse(absl::string_view address,
                                             absl::string_view job) {
  StorePlace place;
  place.address_ = std::string(address);
  place.job_ = std::string(job);
  absl::string_view rest = address;
  if (absl::ConsumePrefix(&rest, "tls://")) {
    place.network_ = parse_places(rest);
    if (place.network_.empty())
      return bad_address(address, "the store's address has no host and port");
    const absl::StatusOr<std::optional<JobKey>> key = JobKey::of_process();
    if (!key.ok()) return key.status();
    if (!key->has_value())
      return JobKey::missing("joining the job at", address);
    place.psk_ = {job_identity(job), (*key)->control()};
    return place;
  }
  if (!absl::ConsumePrefix(&rest, "unix:"))
    return bad_address(address, "the store's address has no known kind");
  if (rest.empty() || rest.front() != '/' ||
      rest.find('\0') != absl::string_view::npos)
    return bad_address(address, "the store's address has no absolute path");
  if (!fits_socket_address(rest))
    return bad_address(address, "the store's path is too long");
  place.path_ = std::string(rest);
  return place;
}

absl::StatusOr<std::unique_ptr<ByteStream>> StorePlace::dial(
    const Socket::ConnectOptions& options, bool* hopeless) const {
  *hopeless = false;
  if (agent_ != nullptr) return agent_->dial(options, hopeless);
  NetworkAddress found;
  if (is_remote()) return dial_network(options, hopeless, &found);
  absl::StatusOr<Socket> socket = Socket::connect(path_, options);
  if (!socket.ok()) return socket.status();
  return std::make_unique<Socket>(*std::move(socket));
}

absl::StatusOr<NetworkAddress> StorePlace::find(
    const Socket::ConnectOptions& options, bool* hopeless) const {
  NetworkAddress found;
  if (const auto stream = dial_network(options, hopeless, &found); !stream.ok())
    return stream.status();
  return found;
}

void StorePlace::go_through(std::shared_ptr<HostAgent> agent) {
  agent_ = std::move(agent);
}

// One attempt at each address. Null with the reason in `*why`.
std::unique_ptr<ByteStream> StorePlace::try_all(
    const std::vector<NetworkAddress>& addresses, Deadline deadline,
    absl::Status* why, bool* hopeless, NetworkAddress* found) const {
  *hopeless = true;
  for (const NetworkAddress& address : addresses) {
    int error = 0;
    absl::StatusOr<std::unique_ptr<TlsSocket>> socket = TlsSocket::connect(
        address, psk_,
        Deadline::earlier(deadline, Deadline::after(kOneAttempt)), &error);
    if (socket.ok()) {
      *found = address;
      return *std::move(socket);
    }
    const bool is_stranger =
        error_reason(socket.status()) == Reason::kAuthFailed;
    const bool is_mistake =
        address.is_loopback() && !says_loopback(network_[0].host);
    *why = socket.status();
    if (error_reason(*why) == Reason::kStoreUnreachable)
      *why = base::amend_error(*why, [&](ErrorInfo& info) {
        info.next_step = advice(network_[0], address, error);
      });
    else if (!is_stranger || network_.size() == 1 || error == EKEYREJECTED)
      return nullptr;
    // Where several ports are tried, another job may have one of them.
    if (is_stranger || (!is_final(error) && !is_mistake)) *hopeless = false;
  }
  return nullptr;
}

absl::StatusOr<std::unique_ptr<ByteStream>> StorePlace::dial_network(
    const Socket::ConnectOptions& options, bool* hopeless,
    NetworkAddress* found) const {
  std::vector<NetworkAddress> addresses;
  for (const HostPort& place : network_) {
    absl::StatusOr<std::vector<NetworkAddress>> named = resolve(place);
    if (!named.ok()) return named.status();
    addresses.insert(addresses.end(), named->begin(), named->end());
  }
  absl::Duration length = kFirstPause;
  for (int attempts = 1;; ++attempts) {
    absl::Status why;
    if (std::unique_ptr<ByteStream> stream =
            try_all(addresses, options.deadline, &why, hopeless, found))
      return stream;
    if (*hopeless || !options.wait_for_server || options.deadline.passed())
      return base::amend_error(why, [&](ErrorInfo& info) {
        if (network_.size() > 1 && info.reason == Reason::kStoreUnreachable) {
          absl::StrAppend(&info.what, " and at ", network_.size() - 1,
                          network_.size() == 2 ? " other port" : " other ports",
                          " of job ", job_);
          absl::StrAppend(&info.next_step,
                          ", and whether all ranks have the same job id");
        }
        absl::StrAppend(&info.what, ", after ", attempts,
                        attempts == 1 ? " attempt" : " attempts");
      });
    if (!Interrupt::sleep(
            Deadline::earlier(options.deadline, Deadline::after(length))))
      return Interrupt::error("store connect");
    length = std::min(length * 2, kLongestPause);
  }
}

}  // namespace distwrap::store
