// Starts that fail because of a backend, a setting, a launcher, or other ranks.
#include "errors/fault.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

namespace distwrap::faults {
namespace {

namespace fs = std::filesystem;
constexpr absl::Duration kSoon = absl::Milliseconds(300);

class Variable {
 public:
  Variable(const char* name, const std::string& value) : name_(name) {
    setenv(name, value.c_str(), 1);
  }
  ~Variable() { unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* const name_;
};

// A folder that only this user can write to.
class Folder {
 public:
  Folder() {
    std::string pattern =
        (fs::temp_directory_path() / "faults_XXXXXX").string();
    path_ = fs::canonical(mkdtemp(pattern.data()));
  }
  ~Folder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  // A copy of a test plugin, cut after so many bytes.
  std::string plugin(const std::string& name, uintmax_t bytes = UINTMAX_MAX,
                     fs::perms mode = fs::perms(0755)) const {
    const fs::path to = path_ / ("libdistwrap_" + name + ".so");
    fs::copy_file(fs::path(DW_TEST_PLUGINS) / (name + ".so"), to,
                  fs::copy_options::overwrite_existing);
    fs::resize_file(to, std::min(bytes, fs::file_size(to)));
    fs::permissions(to, mode);
    return to;
  }
  std::string path(const std::string& name) const { return path_ / name; }

 private:
  fs::path path_;
};

InitOptions alone(const std::string& backend) {
  return {.backend = backend,
          .rank = 0,
          .world_size = 1,
          .store = Store::in_memory()};
}

// The error of a start, which has to fail.
absl::Status no_start(const InitOptions& options) {
  absl::StatusOr<Session> session = Session::create(options);
  if (session.ok()) session->close().IgnoreError();
  return session.status();
}

void at_start(const std::string& fault, const InitOptions& options,
              Reason reason, std::vector<std::string> what,
              const std::string& next,
              const Where& where = {.op = "init", .group = ""}) {
  report(fault, no_start(options),
         {.reason = reason,
          .what = std::move(what),
          .where = where,
          .next = next});
}

void of_plugins(Choices& choices) {
  const Folder folder;
  const auto refused = [](const std::string& fault, const std::string& path,
                          std::vector<std::string> what,
                          const std::string& next) {
    what.push_back(path);
    at_start(fault, alone(path), Reason::kPluginRefused, std::move(what), next);
  };
  at_start("plugin_missing", alone(folder.path("none.so")),
           Reason::kPluginNotFound, {folder.path("none.so"), "errno 2"},
           "path");
  refused("plugin_of_another_abi", folder.plugin("note_of_major_2"),
          {"wrong ABI", "2", "1"}, "headers of this distwrap");
  refused(
      "plugin_cut_off",
      folder.plugin("echo_c", static_cast<uintmax_t>(64 + choices.below(900))),
      {"truncated"}, "build or copy the plugin again");
  refused("plugin_that_others_can_write",
          folder.plugin("echo_v1_0", UINTMAX_MAX, fs::perms(0757)),
          {"writable by others"}, "write permission");
  refused("plugin_that_crashes", folder.plugin("aborts"), {"crashes"},
          "author");
}

void of_settings(Choices& choices) {
  struct Bad {
    const char *name, *value, *expected;
  };
  const std::vector<Bad> bad = {{"DISTWRAP_TIMEOUT", "soon", "seconds"},
                                {"DISTWRAP_CHECK", "perhaps", "signature"},
                                {"DISTWRAP_LOG", "loud", "warning"},
                                {"DISTWRAP_STRAGGLER", "-4", "0"}};
  const Bad& setting = choices.of(bad);
  {
    const Variable variable(setting.name, setting.value);
    at_start("bad_setting", alone("loopback"), Reason::kInvalidArgument,
             {setting.name, setting.value, setting.expected}, setting.name);
  }
  {
    const Variable variable("DISTWRAP_HEARTBEAT", "0.01");
    at_start("heartbeat_too_short", alone("loopback"), Reason::kInvalidArgument,
             {"DISTWRAP_HEARTBEAT", "200ms", "10ms"}, "DISTWRAP_HEARTBEAT");
  }
  InitOptions hinted = alone("loopback");
  hinted.hints = {{"loopback.no_such_hint", "1"}};
  at_start("unknown_hint", hinted, Reason::kInvalidArgument,
           {"loopback.no_such_hint"}, "hint", {.op = "init"});
}

void of_launchers() {
  at_start("nobody_told_the_rank", {}, Reason::kLaunchMissing,
           {"DISTWRAP_RANK", "RANK"}, "distwrap run");
  {
    const Variable half("DISTWRAP_RANK", "0");
    at_start("half_a_launcher", {}, Reason::kLaunchMissing,
             {"DISTWRAP_RANK", "DISTWRAP_WORLD_SIZE"}, "set both");
  }
  {
    const Variable a("OMPI_COMM_WORLD_RANK", "1"),
        b("OMPI_COMM_WORLD_SIZE", "4"), c("PMI_RANK", "0"), d("PMI_SIZE", "2");
    at_start("two_launchers", {}, Reason::kLauncherConflict,
             {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "4"}, "DISTWRAP_LAUNCHER");
  }
  at_start("rank_beyond_the_world", {.rank = 3, .world_size = 2},
           Reason::kInvalidArgument, {"rank 3", "world size 2"}, "rank");
  at_start("two_stores",
           {.rank = 0,
            .world_size = 2,
            .store = Store::in_memory(),
            .init_method = "env://"},
           Reason::kStoreConflict, {"env://"}, "one");
  at_start("no_way_to_meet", {.rank = 0, .world_size = 2},
           Reason::kLaunchMissing, {"InitOptions::store"}, "store");
  {
    const Variable folder("DISTWRAP_RUN_DIR", "/proc");
    at_start("no_run_directory",
             {.rank = 0,
              .world_size = 2,
              .init_method = "file:///a/place",
              .init_timeout = absl::Seconds(5)},
             Reason::kRunDirectory, {"/proc"}, "DISTWRAP_RUN_DIR",
             {.op = "start", .group = ""});
  }
}

void of_meeting(Choices& choices) {
  const Folder folder;
  const InitOptions pair{
      .backend = "gloo", .world_size = 2, .init_timeout = kSoon};
  const int present = choices.below(2);
  InitOptions lonely = pair;
  lonely.rank = present;
  lonely.store = Store::in_memory();
  report("rank_that_never_comes", no_start(lonely),
         {.reason = Reason::kTimedOut,
          .what = {"1 of 2 ranks"},
          .where = Where{.op = "init", .rank = present},
          .who = Who{.ranks = {1 - present}},
          .how_long = HowLong{kSoon, "DISTWRAP_INIT_TIMEOUT"},
          .next = "output of the missing ranks"});
  InitOptions late = lonely;
  late.rank = 1 - present;
  report("rank_that_comes_too_late", no_start(late),
         {.reason = Reason::kRefused,
          .what = {"too late", "1 of 2 ranks"},
          .where = Where{.op = "init", .rank = 1 - present},
          .next = "DISTWRAP_INIT_TIMEOUT"});
  InitOptions astray = pair;
  astray.rank = 1;
  astray.init_method = "unix:" + folder.path("store");
  report("store_unreachable", no_start(astray),
         {.reason = Reason::kStoreUnreachable,
          .what = {folder.path("store"), "attempts", "errno 2"},
          .where = Where{.op = "store connect", .rank = 1},
          .how_long = HowLong{kSoon, "DISTWRAP_INIT_TIMEOUT"},
          .next = "rank 0"});
  // Two threads, one of them with different options.
  const std::shared_ptr<Store> store = Store::in_memory();
  const auto start = [&](int rank, int size, const char* backend) {
    return no_start({.backend = backend,
                     .rank = rank,
                     .world_size = size,
                     .store = store,
                     .init_timeout = absl::Seconds(20)});
  };
  const std::string mine = "process " + std::to_string(getpid());
  absl::Status other;
  std::thread second([&] { other = start(1, 3, "gloo"); });
  const absl::Status first = start(0, 2, "gloo");
  second.join();
  for (const auto& [status, rank] : {std::pair{first, 0}, {other, 1}})
    report("another_world_size", status,
           {.reason = Reason::kCallMismatch,
            .what = {"world size 2", "world size 3", mine},
            .where = Where{.op = "init", .rank = rank},
            .who = Who{.ranks = {1 - rank}},
            .next = "same options"});
}

}  // namespace

void of_backends(Choices& choices) {
  at_start("unknown_backend", alone("glo"), Reason::kBackendUnknown,
           {"'glo'", "gloo", "shm"}, "DISTWRAP_PLUGIN_PATH");
  at_start("backend_in_another_format", alone("cuda:0:nccl"),
           Reason::kBackendFormat, {"cuda:0:nccl", "2 colons"}, "cpu:gloo");
  at_start("unknown_device", alone("gpu:nccl"), Reason::kDeviceUnknown,
           {"'gpu'", "cuda"}, "before the colon");
  at_start("device_twice", alone("cpu:gloo,cpu:shm"), Reason::kDeviceDuplicate,
           {"'cpu'", "cpu:gloo,cpu:shm"}, "one backend");
  at_start("backend_of_another_device", alone("cuda:loopback"),
           Reason::kNoCommunicator, {"loopback", "cuda"}, "backend");
  InitOptions strict = alone("");
  strict.drop_in = true;
  at_start("no_backend_in_drop_in", strict, Reason::kBackendMissing,
           {"backend must be specified"}, "InitOptions::backend");
  of_plugins(choices);
}

void of_the_start(Choices& choices) {
  of_settings(choices);
  of_launchers();
  of_meeting(choices);
}

}  // namespace distwrap::faults
