#include "store/server_thread.h"

#include "base/thread.h"
#include "store/relay.h"

#include <absl/strings/str_cat.h>
#include <uv.h>

#include <thread>
#include <utility>

namespace distwrap::store {

struct ServerThread::State {
  uv_loop_t loop = {};
  uv_async_t stop = {};
  // One of these.
  std::unique_ptr<Server> server;
  std::unique_ptr<Relay> agent;
  std::thread thread;
};

ServerThread::ServerThread(std::string address)
    : address_(std::move(address)), state_(std::make_unique<State>()) {
  uv_loop_init(&state_->loop);
  uv_async_init(&state_->loop, &state_->stop, [](uv_async_t* stop) {
    static_cast<State*>(stop->data)->server.reset();
    static_cast<State*>(stop->data)->agent.reset();
    uv_close(reinterpret_cast<uv_handle_t*>(stop), nullptr);
  });
  state_->stop.data = state_.get();
}

absl::StatusOr<std::unique_ptr<ServerThread>> ServerThread::start(
    const std::string& path, const ServerOptions& options,
    const std::optional<NetworkService>& network) {
  std::unique_ptr<ServerThread> result(
      new ServerThread(absl::StrCat("unix:", path)));
  State& state = *result->state_;
  absl::StatusOr<std::unique_ptr<Server>> server =
      Server::listen(&state.loop, path, options);
  if (!server.ok()) return server.status();
  state.server = *std::move(server);
  if (network.has_value())
    if (absl::Status status = state.server->listen_at(*network); !status.ok())
      return status;
  if (absl::Status status = result->run("dw-store"); !status.ok())
    return status;
  return result;
}

absl::StatusOr<std::unique_ptr<ServerThread>> ServerThread::start_agent(
    const std::string& path, const NetworkAddress& root, TlsPsk psk) {
  std::unique_ptr<ServerThread> result(
      new ServerThread(absl::StrCat("unix:", path)));
  State& state = *result->state_;
  absl::StatusOr<std::unique_ptr<Relay>> agent =
      Relay::listen(&state.loop, path, root, std::move(psk));
  if (!agent.ok()) return agent.status();
  state.agent = *std::move(agent);
  if (absl::Status status = result->run("dw-agent"); !status.ok())
    return status;
  return result;
}

absl::Status ServerThread::run(const char* thread) {
  // Without SIGPIPE, too: a write to a client that has gone is an error code.
  absl::StatusOr<std::thread> started = base::start_thread(
      thread, [state = state_.get()] { uv_run(&state->loop, UV_RUN_DEFAULT); });
  if (started.ok()) state_->thread = *std::move(started);
  return started.status();
}

const Server& ServerThread::server() const { return *state_->server; }

ServerThread::~ServerThread() {
  uv_async_send(&state_->stop);
  if (state_->thread.joinable())
    state_->thread.join();
  else
    uv_run(&state_->loop, UV_RUN_DEFAULT);
  uv_loop_close(&state_->loop);
}

}  // namespace distwrap::store
