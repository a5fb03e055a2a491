// Compares calls through distwrap with the same calls of NCCL: times of the
// host, of the device, of a replay, and of making and ending a group. Both
// sides take turns, so that what disturbs the machine disturbs both.
//
//   gpu_figures [--json FILE]     one rank
//   distwrap run -n 2 gpu_figures  two, with a GPU each, or sharing one
#include "driver.h"
#include "world.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace distwrap::gpu_test {
namespace {

using Clock = std::chrono::steady_clock;

double microseconds(Clock::time_point begun) {
  return std::chrono::duration<double, std::micro>(Clock::now() - begun)
      .count();
}

[[noreturn]] void stop(const std::string& why) {
  std::fprintf(stderr, "gpu_figures: %s\n", why.c_str());
  std::exit(1);
}

void must(const absl::Status& status, const char* what) {
  if (!status.ok())
    stop(std::string(what) + ": " + std::string(status.message()));
}

struct UniqueId {
  char bytes[128];
};

// A communicator of NCCL as a program would use it without distwrap.
class Raw {
 public:
  explicit Raw(const Group& group) {
    const char* const file = std::getenv("TEST_NCCL");
    void* const library =
        dlopen(file != nullptr ? file : "libnccl.so.2", RTLD_NOW);
    if (library == nullptr) stop("libnccl.so.2 cannot be opened");
    load(library, "ncclGetUniqueId", &get_id);
    load(library, "ncclCommInitRank", &init);
    load(library, "ncclCommDestroy", &destroy);
    load(library, "ncclAllReduce", &all_reduce);
    load(library, "ncclCommGetAsyncError", &get_error);
    load(library, "ncclGetVersion", &get_version);
    size_ = group.size();
    rank_ = group.rank();
    comm_ = make();
  }
  ~Raw() { destroy(comm_); }
  Raw(const Raw&) = delete;
  Raw& operator=(const Raw&) = delete;

  void* make() const {
    UniqueId id = {};
    if (rank_ == 0) check(get_id(&id));
    must(broadcast(TensorView(id.bytes, 128, DType::kU8), Peer::group(0))
             .status(),
         "sharing the id");
    use_device(device());
    void* comm = nullptr;
    const int result = init(&comm, size_, id, rank_);
    finish(comm, result);
    return comm;
  }
  void end(void* comm) const { check(destroy(comm)); }
  void reduce(const DeviceBytes& out, const DeviceBytes& in,
              const GpuStream& stream) const {
    constexpr int kFloat = 7, kSum = 0;
    finish(comm_, all_reduce(in.data(), out.data(), in.size() / sizeof(float),
                             kFloat, kSum, comm_, stream.native()));
  }
  std::string version() const {
    int code = 0;
    check(get_version(&code));
    return std::to_string(code / 10000) + "." +
           std::to_string(code / 100 % 100) + "." + std::to_string(code % 100);
  }

 private:
  template <class F>
  void load(void* library, const char* name, F* function) {
    *function = reinterpret_cast<F>(dlsym(library, name));
    if (*function == nullptr) stop(std::string("NCCL has no ") + name);
  }
  // With NCCL_COMM_BLOCKING=0 in the environment NCCL goes on by itself.
  void finish(void* comm, int result) const {
    constexpr int kInProgress = 7;
    while (result == kInProgress) check(get_error(comm, &result));
    check(result);
  }
  static void check(int result) {
    if (result != 0) stop("NCCL's error " + std::to_string(result));
  }

  int (*get_id)(UniqueId*) = nullptr;
  int (*init)(void**, int, UniqueId, int) = nullptr;
  int (*destroy)(void*) = nullptr;
  int (*all_reduce)(const void*, void*, size_t, int, int, void*,
                    void*) = nullptr;
  int (*get_error)(void*, int*) = nullptr;
  int (*get_version)(int*) = nullptr;
  int size_ = 0, rank_ = 0;
  void* comm_ = nullptr;
};

struct Row {
  std::string what;
  double raw, ours;  // medians in us
};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// Tries the two sides in turns; each function returns the time of one try.
Row compare(const std::string& what, int tries,
            const std::function<double()>& raw,
            const std::function<double()>& ours) {
  std::vector<double> raws, mine;
  for (int i = 0; i < tries; ++i) {
    raws.push_back(raw());
    mine.push_back(ours());
  }
  return {what, median(raws), median(mine)};
}

std::vector<Row> measure(const Group& group, const Raw& raw) {
  std::vector<Row> rows;
  GpuStream stream(device());
  const Stream native = handle(stream);
  const auto ours = [&](const DeviceBytes& out, const DeviceBytes& in) {
    absl::StatusOr<Work> work =
        all_reduce(on_device(out, DType::kF32), on_device(in, DType::kF32),
                   ReduceOp::kSum, {.group = group, .stream = native});
    must(work.status(), "all_reduce");
    return *std::move(work);
  };
  GpuTimer timer(device());

  {
    DeviceBytes in(device(), 8), out(device(), 8);
    constexpr int kCalls = 100;
    const auto many = [&](const auto& call) {
      call();
      stream.synchronize();
      const auto begun = Clock::now();
      for (int i = 0; i < kCalls; ++i) call();
      const double time = microseconds(begun) / kCalls;
      stream.synchronize();
      return time;
    };
    rows.push_back(compare(
        "host, enqueue 8 B", 50,
        [&] {
          return many([&] {
            raw.reduce(out, in, stream);
            timer.end(stream);
          });
        },
        [&] { return many([&] { ours(out, in); }); }));
    rows.push_back(compare(
        "host, 8 B to the end", 200,
        [&] {
          const auto begun = Clock::now();
          raw.reduce(out, in, stream);
          while (!stream.is_idle()) {
          }
          return microseconds(begun);
        },
        [&] {
          const auto begun = Clock::now();
          must(ours(out, in).wait(), "wait");
          return microseconds(begun);
        }));
    // From the end of other work of 5 ms, behind which the call is enqueued.
    const auto behind_work = [&](const auto& enqueue, const auto& wait) {
      Gate gate;
      stream.put(gate);
      enqueue();
      Clock::time_point opened;
      std::thread opens([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
        opened = Clock::now();
        gate.open();
      });
      wait();
      const auto back = Clock::now();
      opens.join();
      return std::chrono::duration<double, std::micro>(back - opened).count();
    };
    Work work;
    rows.push_back(compare(
        "host, 5 ms to the end", 100,
        [&] {
          return behind_work([&] { raw.reduce(out, in, stream); },
                             [&] {
                               while (!stream.is_idle()) {
                               }
                             });
        },
        [&] {
          return behind_work([&] { work = ours(out, in); },
                             [&] { must(work.wait(), "wait"); });
        }));
  }

  for (const size_t bytes :
       {size_t{1} << 20, size_t{16} << 20, size_t{256} << 20}) {
    DeviceBytes in(device(), bytes), out(device(), bytes);
    // Everything is enqueued before the device begins.
    const auto time = [&](const auto& call) {
      stream.synchronize();
      Gate gate;
      stream.put(gate);
      timer.begin(stream);
      call();
      timer.end(stream);
      gate.open();
      return timer.microseconds();
    };
    const std::string size = std::to_string(bytes >> 20) + " MiB";
    rows.push_back(compare(
        "device, " + size, 30,
        [&] { return time([&] { raw.reduce(out, in, stream); }); },
        [&] { return time([&] { ours(out, in); }); }));
    stream.begin_capture(CaptureMode::kRelaxed);
    raw.reduce(out, in, stream);
    std::unique_ptr<GpuGraph> raw_graph = stream.end_capture();
    stream.begin_capture(CaptureMode::kRelaxed);
    ours(out, in);
    std::unique_ptr<GpuGraph> our_graph = stream.end_capture();
    rows.push_back(compare(
        "replay, " + size, 30,
        [&] { return time([&] { raw_graph->launch(stream); }); },
        [&] { return time([&] { our_graph->launch(stream); }); }));
  }

  rows.push_back(compare(
      "making a group", 10,
      [&] {
        const auto begun = Clock::now();
        void* const comm = raw.make();
        const double time = microseconds(begun);
        raw.end(comm);
        return time;
      },
      [&] {
        const auto begun = Clock::now();
        const absl::StatusOr<Group> made = new_group({.backend = "cuda:nccl"});
        must(made.status(), "new_group");
        const double time = microseconds(begun);
        must(destroy_process_group(*made), "destroy_process_group");
        return time;
      }));
  rows.push_back(compare(
      "ending a group", 10,
      [&] {
        void* const comm = raw.make();
        const auto begun = Clock::now();
        raw.end(comm);
        return microseconds(begun);
      },
      [&] {
        const absl::StatusOr<Group> made = new_group({.backend = "cuda:nccl"});
        must(made.status(), "new_group");
        const auto begun = Clock::now();
        must(destroy_process_group(*made), "destroy_process_group");
        return microseconds(begun);
      }));
  return rows;
}

void write_json(const char* file, const std::vector<Row>& rows,
                const std::string& on) {
  FILE* const out = std::fopen(file, "w");
  if (out == nullptr) stop(std::string(file) + " cannot be written");
  std::fprintf(out, "{\"on\": \"%s\", \"rows\": [", on.c_str());
  for (size_t i = 0; i < rows.size(); ++i)
    std::fprintf(out,
                 "%s\n  {\"what\": \"%s\", \"nccl_us\": %.3f, "
                 "\"distwrap_us\": %.3f}",
                 i == 0 ? "" : ",", rows[i].what.c_str(), rows[i].raw,
                 rows[i].ours);
  std::fprintf(out, "\n]}\n");
  std::fclose(out);
}

int run(int argc, char** argv) {
  const char* json = nullptr;
  if (argc == 3 && std::strcmp(argv[1], "--json") == 0) json = argv[2];
  if (argc != 1 && json == nullptr) stop("usage: gpu_figures [--json FILE]");
  if (const std::string why = why_no_gpu(); !why.empty()) {
    std::printf("no figures of GPUs: %s\n", why.c_str());
    return 77;
  }
  InitOptions options = session_options();
  options.hints.erase("check_pointers");
  const absl::StatusOr<Session> session = Session::create(options);
  must(session.status(), "no session");
  bind_session(*session);
  {
    const Group group = session->world();
    const Raw raw(group);
    const std::vector<Row> rows = measure(group, raw);
    if (session->rank() == 0) {
      const std::string on = device_text(device()) + ", NCCL " + raw.version() +
                             ", " + std::to_string(group.size()) + " rank(s)";
      std::printf("%s\n%-22s %12s %12s %7s\n", on.c_str(), "medians in us",
                  "NCCL", "distwrap", "ratio");
      for (const Row& row : rows)
        std::printf("%-22s %12.2f %12.2f %7.2f\n", row.what.c_str(), row.raw,
                    row.ours, row.ours / row.raw);
      if (json != nullptr) write_json(json, rows, on);
    }
  }
  must(session->close(), "the end of the session");
  return 0;
}

}  // namespace
}  // namespace distwrap::gpu_test

int main(int argc, char** argv) { return distwrap::gpu_test::run(argc, argv); }
