#include "store/server.h"

#include "base/child_closes.h"
#include "base/error.h"
#include "store/connection.h"
#include "store/socket.h"
#include "store/table.h"

#include <absl/strings/str_cat.h>
#include <uv.h>

#include <new>
#include <set>
#include <sys/stat.h>
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

}  // namespace

class Server::Impl {
 public:
  Impl(uv_loop_t* loop, const ServerOptions& options)
      : loop_(loop), options_(options) {
    uv_pipe_init(loop, &listener_, 0);
    listener_.data = this;
  }

  absl::Status listen(const std::string& path) {
    // libuv would truncate a longer path.
    if (!fits_socket_address(path))
      return cannot_listen(path, "the path is longer than 107 bytes");
    int error = uv_pipe_bind(&listener_, path.c_str());
    if (error == 0 && chmod(path.c_str(), 0600) != 0) error = -errno;
    if (error == 0)
      error = uv_listen(reinterpret_cast<uv_stream_t*>(&listener_), kBacklog,
                        [](uv_stream_t* listener, int status) {
                          if (status == 0)
                            static_cast<Impl*>(listener->data)->accept();
                        });
    if (error != 0) return cannot_listen(path, base::errno_text(-error));
    base::ChildCloses::add(descriptor_of(listener_));
    return absl::OkStatus();
  }

  void close() {
    if (closing_) return;
    closing_ = true;
    const std::vector<Connection*> open(connections_.begin(),
                                        connections_.end());
    for (Connection* connection : open) connection->close();
    base::ChildCloses::remove(descriptor_of(listener_));
    uv_close(reinterpret_cast<uv_handle_t*>(&listener_),
             [](uv_handle_t* handle) {
               auto* const impl = static_cast<Impl*>(handle->data);
               impl->listener_closed_ = true;
               impl->free_when_closed();
             });
  }

  // The Server object has been destroyed; only its handles need this one now.
  void abandon() {
    abandoned_ = true;
    close();
    free_when_closed();
  }

  size_t connections() const { return connections_.size(); }

 private:
  void accept() {
    const bool full = connections_.size() >= options_.max_connections;
    std::set<Connection*> one;
    Connection* connection = nullptr;
    try {
      one.insert(nullptr);
      connection =
          new Connection(loop_, &table_, &arrivals_,
                         [this](Connection* closed) { forget(closed); });
    } catch (const std::bad_alloc&) {
      return turn_away();
    }
    auto node = one.extract(one.begin());
    node.value() = connection;
    connections_.insert(std::move(node));
    connection->accept(reinterpret_cast<uv_stream_t*>(&listener_));
    if (full) connection->close();
  }

  // Takes a client that there is no memory for and closes its connection: else
  // the loop would never take another one.
  void turn_away() {
    if (turning_away_) return;
    turning_away_ = true;
    uv_pipe_init(loop_, &turned_away_, 0);
    turned_away_.data = this;
    uv_accept(reinterpret_cast<uv_stream_t*>(&listener_),
              reinterpret_cast<uv_stream_t*>(&turned_away_));
    uv_close(reinterpret_cast<uv_handle_t*>(&turned_away_),
             [](uv_handle_t* handle) {
               auto* const impl = static_cast<Impl*>(handle->data);
               impl->turning_away_ = false;
               impl->free_when_closed();
             });
  }

  void forget(Connection* connection) {
    connections_.erase(connection);
    free_when_closed();
  }

  void free_when_closed() {
    if (abandoned_ && listener_closed_ && !turning_away_ &&
        connections_.empty())
      delete this;
  }

  uv_loop_t* const loop_;
  const ServerOptions options_;
  uv_pipe_t listener_ = {};
  Table table_;
  std::vector<char> arrivals_ = std::vector<char>(64 << 10);
  std::set<Connection*> connections_;
  uv_pipe_t turned_away_ = {};
  bool turning_away_ = false;
  bool closing_ = false, listener_closed_ = false, abandoned_ = false;
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

size_t Server::connections() const { return impl_->connections(); }

}  // namespace distwrap::store
