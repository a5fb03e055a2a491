#include "team.h"

#include <thread>

namespace distwrap::conformance {

Meeting::Meeting(int size) : size_(size), texts_(static_cast<size_t>(size)) {}

void Meeting::meet() {
  std::unique_lock<std::mutex> lock(mutex_);
  const uint64_t round = round_;
  if (++here_ == size_) {
    here_ = 0;
    ++round_;
    swapped_ = texts_;
    all_here_.notify_all();
  }
  all_here_.wait(lock, [&] { return round_ != round; });
}

std::vector<std::string> Meeting::swap(int rank, std::string text) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    texts_[static_cast<size_t>(rank)] = std::move(text);
  }
  meet();
  std::unique_lock<std::mutex> lock(mutex_);
  std::vector<std::string> all = swapped_;
  lock.unlock();
  meet();  // no rank gives the next text before all have these
  return all;
}

std::string error_text(int32_t code, const dw_error& error) {
  return "code " + std::to_string(code) + ", reason " +
         std::to_string(error.reason) + ", peer " + std::to_string(error.peer) +
         ", '" + error.text + "'";
}

dw_open_info open_info() {
  dw_open_info info = {};
  info.struct_size = sizeof info;
  info.device_type = DW_DEVICE_CPU;
  return info;
}

// All ranks are threads or processes of this host.
constexpr int32_t kOneHost[1024] = {};

dw_setup_info setup_info(const Member& member, uint64_t uid) {
  dw_setup_info info = {};
  info.struct_size = sizeof info;
  info.flags = DW_SETUP_COMMUNICATOR;
  info.rank = member.rank;
  info.size = member.size;
  info.uid = uid;
  info.epoch = 1;
  info.host_of = kOneHost;
  info.deadline_ns =
      now_ns() + std::chrono::nanoseconds(member.limits.operation).count();
  return info;
}

void Member::aborts() const {
  const dw_error why = {DW_ABORTED, DW_REASON_ABORTED, -1, 0, 0, "a test"};
  std::lock_guard<std::mutex> lock(comms);
  for (dw_comm* const one : {comm, second})
    if (one != nullptr) api.comm_abort(one, &why);
}

bool Member::opens() {
  const dw_open_info info = open_info();
  dw_error error = {};
  const int32_t code = api.open(&host_table(), &info, &backend, &error);
  if (code != DW_OK) find("open: " + error_text(code, error));
  return code == DW_OK;
}

void Member::closes() {
  for (dw_comm* const one : {second, comm}) {
    if (one == nullptr) continue;
    dw_error error = {};
    const int32_t code = api.comm_destroy(
        one, now_ns() + std::chrono::nanoseconds(limits.operation).count(),
        &error);
    if (code != DW_OK) find("comm_destroy: " + error_text(code, error));
  }
  if (backend != nullptr) api.close(backend);
}

bool build_communicator(Member& member, uint64_t uid) {
  const dw_setup_info info = setup_info(member, uid);
  dw_setup* setup = nullptr;
  dw_blob out = {};
  dw_error error = {};
  dw_setup_result result = {};
  const auto takes = [&member](dw_comm* comm) {
    std::lock_guard<std::mutex> lock(member.comms);
    member.comm = comm;
  };
  int32_t code =
      member.api.setup_begin(member.backend, &info, &setup, &out, &error);
  // Before each round every rank tells its state: all continue, all are done,
  // or the setup has failed.
  for (int round = 0;; ++round) {
    const std::vector<std::string> states =
        member.meeting.swap(member.rank, std::to_string(code));
    if (code != DW_OK && code != DW_DONE)
      member.find("setup, round " + std::to_string(round) + ": " +
                  error_text(code, error));
    bool all_equal = true;
    for (const std::string& state : states)
      all_equal = all_equal && state == states[0];
    if (!all_equal) {
      if (code == DW_OK) member.api.setup_cancel(setup);
      if (code == DW_DONE) takes(result.comm);
      member.find("setup ended on some ranks only");
      return false;
    }
    if (code == DW_DONE) {
      takes(result.comm);
      return true;
    }
    if (code != DW_OK) return false;
    const std::vector<std::string> texts = member.meeting.swap(
        member.rank, std::string(static_cast<const char*>(out.data), out.size));
    std::vector<dw_blob> blobs;
    for (const std::string& text : texts)
      blobs.push_back({text.data(), text.size(), nullptr, 0});
    out = {};
    code = member.api.setup_step(setup, blobs.data(), blobs.size(), &out,
                                 &result, &error);
  }
}

namespace {

uint64_t next_uid() {
  static std::atomic<uint64_t> last = 0;
  return ++last;
}

// Aborts operations that do not end: one flag for all ranks, watched by one
// thread.
class Watch {
 public:
  Watch(std::vector<std::unique_ptr<Member>>& members, const Limits& limits,
        Findings& findings)
      : thread_([this, &members, limits, &findings] {
          std::unique_lock<std::mutex> lock(mutex_);
          if (over_.wait_for(lock, limits.body, [this] { return done_; }))
            return;
          findings.add("did not end within its limit");
          for (const auto& member : members) member->aborts();
        }) {}
  ~Watch() {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      done_ = true;
    }
    over_.notify_all();
    thread_.join();
  }

 private:
  std::mutex mutex_;
  std::condition_variable over_;
  bool done_ = false;
  std::thread thread_;
};

void on_all(std::vector<std::unique_ptr<Member>>& members,
            const std::function<void(Member&)>& body) {
  std::vector<std::thread> threads;
  for (const auto& member : members)
    threads.emplace_back([&body, &member] { body(*member); });
  for (std::thread& thread : threads) thread.join();
}

}  // namespace

void run_team(const dw_backend_api& api, int size, const Limits& limits,
              Findings& findings, const std::function<void(Member&)>& body) {
  Meeting meeting(size);
  std::vector<std::unique_ptr<Member>> members;
  for (int rank = 0; rank < size; ++rank)
    members.emplace_back(
        new Member{api, rank, size, limits, meeting, findings});
  const uint64_t uid = next_uid();
  std::atomic<bool> ready = true;
  on_all(members, [&](Member& member) {
    if (!member.opens() || !build_communicator(member, uid)) ready = false;
  });
  if (ready) {
    Watch watch(members, limits, findings);
    on_all(members, body);
  }
  on_all(members, [](Member& member) { member.closes(); });
}

}  // namespace distwrap::conformance
