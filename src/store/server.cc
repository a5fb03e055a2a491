#include "store/server.h"

#include "base/child_closes.h"
#include "base/error.h"
#include "store/carrier.h"
#include "store/connection.h"
#include "store/socket.h"
#include "store/table.h"
#include "store/unix_stream.h"

#include <absl/strings/str_cat.h>
#include <uv.h>

#include <algorithm>
#include <atomic>
#include <errno.h>
#include <list>
#include <memory>
#include <new>
#include <set>
#include <sys/stat.h>
#include <utility>
#include <vector>

namespace distwrap::store {
namespace {

constexpr int kBacklog = 1024;

absl::Status cannot_listen(const std::string& path, absl::string_view cause) {
  return base::make_error(
      {.reason = Reason::kRunDirectory,
       .what = absl::StrCat("no store can be served at unix:", path),
       .op = "store listen",
       .cause = std::string(cause),
       .next_step = "set DISTWRAP_RUN_DIR to a short path of a folder of "
                    "yours"});
}

// A handle of libuv for either kind of socket.
union Listener {
  uv_stream_t stream;
  uv_pipe_t pipe;
  uv_tcp_t tcp = {};
};

// The address at which this host listens for others. Errors: kStoreUnreachable.
absl::StatusOr<NetworkAddress> own_address(const HostPort& place) {
  const absl::StatusOr<std::vector<NetworkAddress>> addresses = resolve(place);
  if (!addresses.ok()) return addresses.status();
  bool is_loopback = false;
  for (const NetworkAddress& address : *addresses) {
    if (address.is_loopback() && !says_loopback(place.host))
      is_loopback = true;
    else if (address.is_own())
      return address;
  }
  return base::make_error(
      {.reason = Reason::kStoreUnreachable,
       .what = is_loopback
                   ? absl::StrCat("'", place.host,
                                  "' means only this host itself here: it "
                                  "resolves to ",
                                  addresses->front().host())
                   : absl::StrCat("no interface of this host has the address ",
                                  addresses->front().host()),
       .op = "store listen",
       .next_step =
           is_loopback
               ? "give an address that other hosts reach, or correct /etc/hosts"
               : "give an address of the host on which rank 0 or `distwrap run "
                 "--node-rank 0` is started"});
}

absl::Status cannot_listen(const NetworkAddress& address, int error) {
  return base::make_error(
      {.reason = Reason::kStoreUnreachable,
       .what = absl::StrCat("no store can be served at ", address.text()),
       .op = "store listen",
       .cause = base::errno_text(error),
       .next_step =
           error == EADDRINUSE
               ? "another process listens there, perhaps of an earlier job: "
                 "end it, or choose another port"
               : "give an address of an interface of this host"});
}

}  // namespace

class Server::Impl {
 public:
  Impl(uv_loop_t* loop, const ServerOptions& options)
      : loop_(loop), options_(options), series_(loop, &table_) {
    uv_pipe_init(loop, &listener_, 0);
    listener_.data = this;
    ++open_handles_;  // the timer of `series_`
  }

  absl::Status listen(const std::string& path) {
    // libuv would truncate a longer path.
    if (!fits_socket_address(path))
      return cannot_listen(path, "the path is longer than 107 bytes");
    int error = uv_pipe_bind(&listener_, path.c_str());
    if (error == 0 && chmod(path.c_str(), 0600) != 0) error = -errno;
    if (error == 0)
      error =
          uv_listen(as_stream(&listener_), kBacklog,
                    [](uv_stream_t* listener, int status) {
                      if (status == 0)
                        static_cast<Impl*>(listener->data)->accept(listener);
                    });
    if (error != 0) return cannot_listen(path, base::errno_text(-error));
    base::ChildCloses::add(descriptor_of(*as_stream(&listener_)));
    return absl::OkStatus();
  }

  absl::Status listen_at(const NetworkService& network) {
    psk_ = network.psk;
    absl::Status status;
    for (const int port : network.ports) {
      const absl::StatusOr<NetworkAddress> address =
          own_address({network.host, port});
      if (!address.ok()) return address.status();
      status = listen_tls(*address);
      if (status.ok()) return status;
    }
    return status;
  }

  std::string network_address() const {
    const auto address = NetworkAddress::here(descriptor_of(network_->stream));
    return address.has_value() ? address->text() : "";
  }

  void close() {
    if (closing_) return;
    closing_ = true;
    const std::vector<Connection*> open(connections_.begin(),
                                        connections_.end());
    for (Connection* const connection : open) connection->close();
    const std::vector<Carrier*> far(carriers_.begin(), carriers_.end());
    for (Carrier* const carrier : far) carrier->close();
    close_listener(as_stream(&listener_));
    if (network_ != nullptr) close_listener(&network_->stream);
    series_.close([this] { on_handle_closed(); });
  }

  // The Server object has been destroyed; only its handles need this one now.
  void abandon() {
    abandoned_ = true;
    close();
    free_when_closed();
  }

  size_t connections() const { return open_; }
  size_t turned_away() const { return turned_away_count_; }

 private:
  template <class Handle>
  static uv_stream_t* as_stream(Handle* handle) {
    return reinterpret_cast<uv_stream_t*>(handle);
  }

  void close_listener(uv_stream_t* listener) {
    if (const int fd = descriptor_of(*listener); fd >= 0)
      base::ChildCloses::remove(fd);
    uv_close(reinterpret_cast<uv_handle_t*>(listener), [](uv_handle_t* handle) {
      static_cast<Impl*>(handle->data)->on_handle_closed();
    });
  }

  void on_handle_closed() {
    --open_handles_;
    free_when_closed();
  }

  // A port that is taken leaves a handle behind, which has to be closed.
  absl::Status listen_tls(const NetworkAddress& address) {
    auto* const listener = new Listener;
    uv_tcp_init(loop_, &listener->tcp);
    listener->tcp.data = this;
    int error = uv_tcp_bind(&listener->tcp, address.get(), 0);
    if (error == 0)
      error = uv_listen(&listener->stream, kBacklog,
                        [](uv_stream_t* from, int status) {
                          if (status == 0)
                            static_cast<Impl*>(from->data)->accept(from);
                        });
    if (error != 0) {
      uv_close(reinterpret_cast<uv_handle_t*>(listener),
               [](uv_handle_t* handle) {
                 delete reinterpret_cast<Listener*>(handle);
               });
      return cannot_listen(address, -error);
    }
    network_.reset(listener);
    ++open_handles_;
    base::ChildCloses::add(descriptor_of(listener->stream));
    return absl::OkStatus();
  }

  // Makes an object that frees itself, and has memory for its place in a set
  // first.
  template <class T, class... Arguments>
  static T* add_to(std::set<T*>* all, Arguments&&... arguments) {
    std::set<T*> one = {nullptr};
    T* const added = new T(std::forward<Arguments>(arguments)...);
    auto node = one.extract(one.begin());
    node.value() = added;
    all->insert(std::move(node));
    return added;
  }

  void accept(uv_stream_t* listener) {
    try {
      if (listener == as_stream(&listener_))
        accept_here(listener);
      else
        accept_from_afar(listener);
    } catch (const std::bad_alloc&) {
      turn_away(listener);
    }
  }

  bool is_full() const {
    return connections_.size() >= options_.max_connections;
  }

  Connection* connect() {
    Connection* const connection =
        add_to(&connections_, loop_, &table_, &series_, &conversations_,
               [this](Connection* closed) { forget(closed); });
    count();
    return connection;
  }

  void accept_here(uv_stream_t* listener) {
    const bool full = is_full();
    Connection* const connection = connect();
    try {
      auto stream = std::make_unique<UnixStream>(loop_, &arrivals_,
                                                 connection->as_owner());
      UnixStream* const client = stream.get();
      connection->take(std::move(stream));
      client->accept(listener);
    } catch (const std::bad_alloc&) {
      connection->close();
      throw;
    }
    if (full) connection->close();
  }

  void accept_from_afar(uv_stream_t* listener) {
    std::list<Carrier*> stranger = {nullptr};
    Carrier* const carrier =
        add_to(&carriers_, loop_, &psk_, &arrivals_,
               Carrier::Events{
                   .on_trusted =
                       [this](Carrier* known) {
                         strangers_.remove(known);
                         count();
                       },
                   .on_offer = [this](Carrier* from,
                                      uint32_t number) { serve(from, number); },
                   .on_closed = [this](Carrier* closed) { forget(closed); }},
               options_.handshake);
    stranger.front() = carrier;
    strangers_.splice(strangers_.end(), stranger);
    count();
    carrier->accept(listener);
    if (strangers_.size() <= options_.max_strangers) return;
    Carrier* const oldest = strangers_.front();
    strangers_.pop_front();
    ++turned_away_count_;
    oldest->close();
  }

  // A process of another host connects over a stream of `carrier`.
  void serve(Carrier* carrier, uint32_t number) {
    if (is_full()) return carrier->refuse(number);
    Connection* connection = nullptr;
    try {
      connection = connect();
      connection->take(carrier->take(number, connection->as_owner()));
    } catch (const std::bad_alloc&) {
      if (connection != nullptr) connection->close();
      carrier->refuse(number);
    }
  }

  // Takes a client that there is no memory for and closes its connection: else
  // the loop would never take another one.
  void turn_away(uv_stream_t* listener) {
    if (turning_away_) return;
    turning_away_ = true;
    uv_stream_t* const handle = &turned_away_.stream;
    if (listener == as_stream(&listener_))
      uv_pipe_init(loop_, &turned_away_.pipe, 0);
    else
      uv_tcp_init(loop_, &turned_away_.tcp);
    handle->data = this;
    uv_accept(listener, handle);
    uv_close(reinterpret_cast<uv_handle_t*>(handle), [](uv_handle_t* closed) {
      auto* const impl = static_cast<Impl*>(closed->data);
      impl->turning_away_ = false;
      impl->free_when_closed();
    });
  }

  void forget(Connection* connection) {
    connections_.erase(connection);
    count();
    free_when_closed();
  }

  void forget(Carrier* carrier) {
    carriers_.erase(carrier);
    const auto stranger =
        std::find(strangers_.begin(), strangers_.end(), carrier);
    if (stranger != strangers_.end()) {
      strangers_.erase(stranger);
      ++turned_away_count_;
    }
    count();
    free_when_closed();
  }

  void count() { open_ = connections_.size() + strangers_.size(); }

  void free_when_closed() {
    if (abandoned_ && open_handles_ == 0 && !turning_away_ &&
        connections_.empty() && carriers_.empty())
      delete this;
  }

  uv_loop_t* const loop_;
  const ServerOptions options_;
  uv_pipe_t listener_ = {};
  std::unique_ptr<Listener> network_;
  TlsPsk psk_;
  Table table_;
  SeriesWaits series_;
  Connection::Conversations conversations_;
  std::vector<char> arrivals_ = std::vector<char>(64 << 10);
  std::set<Connection*> connections_;
  std::set<Carrier*> carriers_;
  // Carriers that have not proved yet that they may join, the oldest first.
  std::list<Carrier*> strangers_;
  // Other threads may read these.
  std::atomic<size_t> open_{0}, turned_away_count_{0};
  Listener turned_away_ = {};
  int open_handles_ = 1;  // listeners and the like
  bool turning_away_ = false;
  bool closing_ = false, abandoned_ = false;
};

absl::StatusOr<std::unique_ptr<Server>> Server::listen(
    uv_loop_s* loop, const std::string& path, const ServerOptions& options) {
  std::unique_ptr<Server> server(new Server(new Impl(loop, options)));
  if (absl::Status status = server->impl_->listen(path); !status.ok())
    return status;
  return server;
}

Server::~Server() { impl_->abandon(); }

void Server::close() { impl_->close(); }

absl::Status Server::listen_at(const NetworkService& network) {
  return impl_->listen_at(network);
}

std::string Server::network_address() const { return impl_->network_address(); }

size_t Server::connections() const { return impl_->connections(); }

size_t Server::turned_away() const { return impl_->turned_away(); }

}  // namespace distwrap::store
