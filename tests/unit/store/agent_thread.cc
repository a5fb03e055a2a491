#include "agent_thread.h"

#include "base/thread.h"

#include <uv.h>

#include <cstdio>
#include <cstdlib>
#include <thread>
#include <utility>

namespace distwrap::store {

struct AgentThread::State {
  uv_loop_t loop = {};
  uv_async_t stop = {};
  std::unique_ptr<Relay> relay;
  std::thread thread;
};

AgentThread::AgentThread(const std::string& path, const NetworkAddress& store,
                         const TlsPsk& psk,
                         const std::function<void(const Body&)>& work)
    : path_(path), state_(std::make_unique<State>()) {
  State& state = *state_;
  uv_loop_init(&state.loop);
  uv_async_init(&state.loop, &state.stop, [](uv_async_t* stop) {
    static_cast<State*>(stop->data)->relay.reset();
    uv_close(reinterpret_cast<uv_handle_t*>(stop), nullptr);
  });
  state.stop.data = &state;
  auto relay = Relay::listen(&state.loop, path, store, psk);
  if (!relay.ok()) {
    std::fprintf(stderr, "%s\n", relay.status().ToString().c_str());
    std::abort();
  }
  state.relay = *std::move(relay);
  // Without SIGPIPE: a write to a client that has gone is an error code.
  state.thread = *base::start_thread("agent", [&state, work] {
    work([&] { uv_run(&state.loop, UV_RUN_DEFAULT); });
  });
}

AgentThread::~AgentThread() {
  uv_async_send(&state_->stop);
  state_->thread.join();
  if (uv_loop_close(&state_->loop) == 0) return;
  std::fprintf(stderr, "an agent has left handles behind\n");
  std::abort();
}

}  // namespace distwrap::store
