// Measures the control plane of a job on several hosts, on one machine:
//
//   store_speed tls [TIMES]           a handshake, and small frames
//   store_speed clients [N] [unix]    N clients join, and pass a barrier
//
// `tls` runs both sides in one thread, without sockets, so a time is of both.
// `clients` serves the store in a process of its own, over TLS or a Unix
// socket, and tells how much memory that process needs for each client. The
// clients are threads of this process, each with a connection of its own, as
// ranks have without an agent.
#include "base/settings.h"
#include "distwrap/deadline.h"
#include "store/client.h"
#include "store/control_channel.h"
#include "store/exchange.h"
#include "store/job_key.h"
#include "store/round.h"
#include "store/run_directory.h"
#include "store/server.h"
#include "store/store_place.h"

#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>
#include <absl/time/clock.h>
#include <uv.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <signal.h>
#include <string>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace distwrap::store {
namespace {

template <class T>
T require(absl::StatusOr<T> result) {
  if (result.ok()) return *std::move(result);
  std::fprintf(stderr, "%s\n", result.status().ToString().c_str());
  std::_Exit(1);
}
void require(const absl::Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  std::_Exit(1);
}

double us(int64_t ns) { return static_cast<double>(ns) / 1e3; }

void print(const char* what, std::vector<int64_t> ns, double parts = 1) {
  std::sort(ns.begin(), ns.end());
  std::printf("%s: median %.2f us, p99 %.2f us\n", what,
              us(ns[ns.size() / 2]) / parts,
              us(ns[ns.size() * 99 / 100]) / parts);
}

int measure_tls(int times) {
  using State = ControlChannel::State;
  TlsPsk psk{.identity = job_identity("speed")};
  psk.secret.fill(7);
  std::vector<int64_t> handshakes, frames;
  for (int i = 0; i < times; ++i) {
    const int64_t began = Deadline::now_ns();
    const auto client = require(ControlChannel::make(Greeting::kClient, psk));
    const auto server = require(ControlChannel::make(Greeting::kServer, psk));
    std::string plain;
    while (client->state() == State::kHandshake ||
           server->state() == State::kHandshake) {
      server->receive(client->take_output(), &plain);
      client->receive(server->take_output(), &plain);
    }
    handshakes.push_back(Deadline::now_ns() - began);
    if (client->state() != State::kOpen || server->state() != State::kOpen)
      return 1;
    // A request as a rank sends it while it waits for news.
    const std::string frame =
        encode(Request{.op = Op::kGetAll, .keys = {"session/1/news/17"}});
    constexpr int kFrames = 100;
    const int64_t first = Deadline::now_ns();
    for (int n = 0; n < kFrames; ++n) {
      client->send(frame);
      plain.clear();
      server->receive(client->take_output(), &plain);
      if (plain.size() != frame.size()) return 1;
    }
    frames.push_back((Deadline::now_ns() - first) / kFrames);
  }
  print("TLS handshake with greetings, both sides", handshakes);
  print("a frame of 46 bytes, each side", frames, 2);
  return 0;
}

// The memory of a process that is its own, in KiB: now, or at most.
int64_t memory_of(pid_t pid, bool at_most) {
  std::ifstream in(
      absl::StrCat("/proc/", pid, at_most ? "/status" : "/smaps_rollup"));
  const std::string wanted = at_most ? "VmHWM:" : "Private_Dirty:";
  for (std::string word; in >> word;)
    if (word == wanted) {
      int64_t kib = 0;
      in >> kib;
      return kib;
    }
  return 0;
}

// The server's process: tells its port, and ends with this process's end.
[[noreturn]] void serve(const std::string& path, const TlsPsk& psk, int tell) {
  signal(SIGPIPE, SIG_IGN);
  uv_loop_t* const loop = uv_default_loop();
  const auto server = require(Server::listen(loop, path));
  require(server->listen_at({.host = "127.0.0.1", .ports = {0}, .psk = psk}));
  const std::string address = server->network_address();
  if (write(tell, address.data(), address.size()) < 0) std::_Exit(1);
  close(tell);
  uv_run(loop, UV_RUN_DEFAULT);
  std::_Exit(0);
}

int measure_clients(int clients, bool over_unix) {
  setenv("DISTWRAP_JOB_KEY", std::string(64, 'a').c_str(), 1);
  const auto key = require(JobKey::of_process());
  const RunDirectory directory =
      require(RunDirectory::make(base::Environment::of_process()));
  const std::string path = directory.path() + "/store";
  int told[2];
  if (pipe(told) != 0) return 1;
  const pid_t server = fork();
  if (server == 0) serve(path, {job_identity(""), key->control()}, told[1]);
  close(told[1]);
  char text[64] = {};
  if (read(told[0], text, sizeof text - 1) <= 0) return 1;
  const std::string address =
      over_unix ? absl::StrCat("unix:", path) : absl::StrCat("tls://", text);
  const int64_t at_first = memory_of(server, false);
  const int64_t most_first = memory_of(server, true);

  const Deadline deadline = Deadline::after(absl::Minutes(2));
  std::barrier<> together(clients + 1);
  std::atomic<int64_t> joined_ns{0}, passed_ns{0};
  const auto latest = [](std::atomic<int64_t>& most) {
    const int64_t now = Deadline::now_ns();
    for (int64_t known = most; known < now;)
      if (most.compare_exchange_weak(known, now)) break;
  };
  std::vector<std::thread> threads;
  const int64_t began = Deadline::now_ns();
  for (int rank = 0; rank < clients; ++rank)
    threads.emplace_back([&, rank] {
      bool hopeless = false;
      const std::shared_ptr<Store> store = require(
          connect_to(require(StorePlace::parse(address)), deadline, &hopeless));
      together.arrive_and_wait();  // all are connected, and wait to be counted
      together.arrive_and_wait();
      Round round = require(Round::enter(
          store,
          {.rank = rank, .size = clients, .terms = "distwrap, backend ucx"},
          deadline));
      require(round.agree(deadline));
      // As long as what a rank says of itself.
      require(exchange(*store, round.key("hello"), rank, clients,
                       std::string(110, 'h'), deadline)
                  .status());
      require(round.close(deadline));
      latest(joined_ns);
      require(
          exchange(*store, "barrier", rank, clients, "", deadline).status());
      latest(passed_ns);
      together.arrive_and_wait();  // all are through, and wait to be counted
      together.arrive_and_wait();
    });
  together.arrive_and_wait();
  const int64_t connected_ns = Deadline::now_ns();
  const int64_t connected = memory_of(server, false);
  together.arrive_and_wait();
  const int64_t counted_ns = Deadline::now_ns();
  together.arrive_and_wait();
  const int64_t after = memory_of(server, false);
  const int64_t most = memory_of(server, true);
  together.arrive_and_wait();
  for (std::thread& thread : threads) thread.join();
  kill(server, SIGKILL);
  waitpid(server, nullptr, 0);

  const auto seconds = [](int64_t ns) { return static_cast<double>(ns) / 1e9; };
  const int64_t counting = counted_ns - connected_ns;
  const auto each = [&](int64_t kib) {
    return static_cast<double>(kib) / clients;
  };
  std::printf(
      "%d clients over %s: connected after %.2f s, joined %.2f s, through the "
      "barrier %.2f s\n",
      clients, over_unix ? "a Unix socket" : "TLS",
      seconds(connected_ns - began), seconds(joined_ns - began - counting),
      seconds(passed_ns - began - counting));
  std::printf(
      "memory of the server for each: %.1f KiB connected, %.1f KiB at the end, "
      "%.1f KiB at most\n",
      each(connected - at_first), each(after - at_first),
      each(most - most_first));
  return 0;
}

int run(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  int number = what == "tls" ? 300 : 1000;
  const bool fits = argc < 3 || (absl::SimpleAtoi(argv[2], &number) &&
                                 number > 0 && number <= 1000);
  if (fits && what == "tls") return measure_tls(number);
  if (fits && what == "clients")
    return measure_clients(number, argc > 3 && std::string(argv[3]) == "unix");
  std::fprintf(stderr,
               "usage: store_speed tls [TIMES]\n"
               "       store_speed clients [N] [unix]\n");
  return 2;
}

}  // namespace
}  // namespace distwrap::store

int main(int argc, char** argv) { return distwrap::store::run(argc, argv); }
