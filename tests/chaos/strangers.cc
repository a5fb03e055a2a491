// While a job starts, strangers on one of its hosts call at the store's port:
// some say bytes of their own, some nothing, and some look at the other ports.
// The job starts in time and works, and nothing of them stays.
#include "chaos/cases.h"
#include "store/network_address.h"

#include <absl/strings/str_cat.h>

#include <array>
#include <atomic>
#include <sys/resource.h>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace distwrap::chaos {
namespace {

constexpr int kLoud = 10'000, kSilent = 1000, kPorts = 1000;
constexpr int kRounds = 20;

struct Plan {
  explicit Plan(const Setting& setting) {
    Draw draw(setting);
    host = 1 + draw.below(setting.hosts - 1);
    for (char& byte : bytes) byte = static_cast<char>(draw.below(256));
    begins_as_tls = draw.coin();
  }
  int host;
  bool begins_as_tls;  // the first byte is that of a handshake's record
  std::array<char, 4096> bytes;
};

std::string plan(const Setting& setting) {
  return absl::StrCat(kLoud, " strangers with random bytes, ", kSilent,
                      " silent ones and a look at ", kPorts,
                      " ports from host ", Plan(setting).host);
}

void rank(const Self& self) {
  const int64_t began = Deadline::now_ns();
  const absl::StatusOr<Session> session = self.join();
  if (!session.ok()) return;
  self.page.took_ns[0].store(Deadline::now_ns() - began);
  for (int round = 0; round < kRounds; ++round) {
    int64_t one = 1;
    const absl::Status done =
        all_reduce(TensorView(&one, 1), ReduceOp::kSum).status();
    if (!done.ok() || one != self.setting.ranks)
      self.complain(absl::StrCat("a sum of ", one, ": ", done.ToString()));
    sleep_for(absl::Milliseconds(5));
  }
  if (const absl::Status closed = destroy_process_group(); !closed.ok())
    self.complain(absl::StrCat("close: ", closed.ToString()));
}

// A connection to a port of the first host; -1 when it is refused.
int call(int port) {
  const auto address =
      store::resolve({hosts_test::Hosts::address(0), port})->front();
  const int fd =
      socket(address.get()->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd >= 0 && connect(fd, address.get(), address.size()) == 0) return fd;
  if (fd >= 0) close(fd);
  return -1;
}

void crowd(const Plan& plan, const hosts_test::Hosts& hosts,
           const std::atomic<bool>& over) {
  const hosts_test::Hosts::Visit visit(hosts, plan.host);
  std::vector<int> silent;
  std::array<char, 4096> bytes = plan.bytes;
  constexpr char kHandshake = 22;
  for (int i = 0; i < kLoud && !over.load(); ++i) {
    if (i % (kLoud / kSilent) == 0) silent.push_back(call(Job::kStorePort));
    if (i % (kLoud / kPorts) == 0) {
      const int port = Job::kStorePort + 1 + i / (kLoud / kPorts);
      if (const int fd = call(port); fd >= 0) close(fd);
    }
    const int fd = call(Job::kStorePort);
    if (fd < 0) continue;
    if (plan.begins_as_tls) bytes[0] = kHandshake;
    ::send(fd, bytes.data(), 1 + static_cast<size_t>(i) % bytes.size(),
           MSG_NOSIGNAL | MSG_DONTWAIT);
    close(fd);
  }
  while (!over.load()) sleep_for(absl::Milliseconds(1));
  for (const int fd : silent)
    if (fd >= 0) close(fd);
}

void direct(const Setting& setting, Job& job, Findings& findings) {
  const Plan plan(setting);
  rlimit files = {};
  getrlimit(RLIMIT_NOFILE, &files);
  if (files.rlim_max < 4 * kSilent)
    return findings.skip("this process may have too few descriptors");
  files.rlim_cur = files.rlim_max;
  setrlimit(RLIMIT_NOFILE, &files);
  std::atomic<bool> over{false};
  std::thread strangers([&] { crowd(plan, job.hosts(), over); });
  const bool ended = job.wait_for_all();
  over.store(true);
  strangers.join();
  if (!ended) return;
  for (int rank = 0; rank < setting.ranks; ++rank)
    findings.took(0, job.page(rank).took_ns[0].load());
  const Deadline deadline = Deadline::after(absl::Seconds(10));
  while (job.clients_of_store() > 0 && !deadline.passed())
    sleep_for(absl::Milliseconds(10));
  if (job.clients_of_store() > 0)
    findings.bad(
        absl::StrCat("the store keeps ", job.clients_of_store(), " clients"));
}

constexpr Measure kMeasures[] = {
    {"joining, among strangers", absl::Seconds(1), absl::Seconds(2)}};

}  // namespace

const Case kStrangers = {.name = "F15",
                         .what = "strangers call while a job starts",
                         .full = 100,
                         .on_hosts = true,
                         .measures = kMeasures,
                         .plan = plan,
                         .rank = rank,
                         .direct = direct};

}  // namespace distwrap::chaos
