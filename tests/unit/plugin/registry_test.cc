#include "plugin/registry.h"

#include "scratch.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <thread>
#include <vector>

namespace distwrap::plugin {
namespace {

using ::testing::HasSubstr;

// A linked-in backend called "echo", with the table of a plugin.
const dw_backend_api* linked_query(const dw_host_info*) {
  static const BackendPtr* const kBackend =
      new BackendPtr(*load_plugin(test_plugin("echo_c")));
  return &(*kBackend)->api();
}
constexpr LinkedIn kLinked[] = {{"echo", &linked_query}};

std::vector<std::string> texts(const Registry& registry) {
  std::vector<std::string> result;
  for (const Registry::Entry& e : registry.list())
    result.push_back(
        absl::StrCat(e.name, " ", e.origin, e.loaded ? " loaded" : ""));
  return result;
}

TEST(Registry, FindsByNameInFolders) {
  const Scratch scratch;
  const std::string one = scratch.folder("one"), two = scratch.folder("two");
  const std::string file = scratch.copy("echo_c", "two/libdistwrap_echo.so");
  Registry registry({one, two}, {});
  EXPECT_THAT(texts(registry), ::testing::ElementsAre("echo " + file));
  const absl::StatusOr<BackendPtr> backend = registry.find("echo");
  ASSERT_TRUE(backend.ok()) << backend.status();
  EXPECT_EQ((*backend)->origin(), file);
  EXPECT_EQ(*registry.find("echo"), *backend) << "the same object";
  EXPECT_THAT(texts(registry),
              ::testing::ElementsAre("echo " + file + " loaded"));
}

TEST(Registry, LinkedInComesFirst) {
  const Scratch scratch;
  const std::string file = scratch.copy("echo_cc", "libdistwrap_echo.so");
  Registry registry({scratch.path()}, kLinked);
  const absl::StatusOr<BackendPtr> backend = registry.find("echo");
  ASSERT_TRUE(backend.ok()) << backend.status();
  EXPECT_EQ((*backend)->origin(), "linked in");
  // The plugin of the same name is reached by its path.
  const absl::StatusOr<BackendPtr> plugin = registry.find(file);
  ASSERT_TRUE(plugin.ok()) << plugin.status();
  EXPECT_EQ((*plugin)->origin(), file);
  EXPECT_NE(*plugin, *backend);
  EXPECT_EQ(*registry.find("echo"), *backend);
  EXPECT_THAT(texts(registry),
              ::testing::ElementsAre("echo " + file + " loaded",
                                     "echo linked in loaded"));
}

TEST(Registry, UnknownNamesListWhatExists) {
  const Scratch scratch;
  scratch.copy("echo_c", "libdistwrap_other.so");
  Registry registry({scratch.path(), "relative/folder"}, kLinked);
  for (const char* name : {"gloop", "Gloo", "a b", "..", "x\n"}) {
    const absl::Status status = registry.find(name).status();
    EXPECT_EQ(error_reason(status), Reason::kBackendUnknown) << status;
    const std::string message(status.message());
    EXPECT_THAT(message, HasSubstr("echo, other"));
    EXPECT_THAT(message, HasSubstr(scratch.path()));
    EXPECT_THAT(message, HasSubstr("relative/folder (left out"));
    EXPECT_EQ(message.find('\n'), std::string::npos);
  }
  EXPECT_EQ(error_reason(registry.find("").status()), Reason::kBackendMissing);
  Registry none({}, {});
  EXPECT_THAT(std::string(none.find("x").status().message()),
              HasSubstr("no backend is there"));
}

TEST(Registry, RelativeFoldersAreNotSearched) {
  const Scratch scratch;
  scratch.copy("echo_c", "libdistwrap_echo.so");
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(scratch.path());
  Registry registry({".", ""}, {});
  EXPECT_EQ(error_reason(registry.find("echo").status()),
            Reason::kBackendUnknown);
  EXPECT_TRUE(registry.list().empty());
  std::filesystem::current_path(before);
}

TEST(Registry, Paths) {
  const Scratch scratch;
  const std::string file = scratch.copy("echo_c", "x.so");
  Registry registry({}, {});
  const absl::StatusOr<BackendPtr> backend = registry.find(file);
  ASSERT_TRUE(backend.ok()) << backend.status();
  EXPECT_EQ((*backend)->name(), "echo");
  EXPECT_EQ(*registry.find(scratch.path("./x.so")), *backend);
  EXPECT_EQ(error_reason(registry.find("echo").status()),
            Reason::kBackendUnknown)
      << "a path gives no name away";
  for (const char* path : {"./x.so", "x/y.so", "../x.so"})
    expect_refused(registry.find(path).status(), Refusal::kRelativePath);
  EXPECT_EQ(error_reason(registry.find("/nonexistent/x.so").status()),
            Reason::kPluginNotFound);
  // A loaded plugin is checked again at each call.
  ASSERT_EQ(chmod(file.c_str(), 0777), 0);
  expect_refused(registry.find(file).status(), Refusal::kWritableByOthers);
}

TEST(Registry, DuplicateNamesAreRefused) {
  const Scratch scratch;
  const std::string one = scratch.folder("one"), two = scratch.folder("two");
  const std::string first = scratch.copy("echo_c", "one/libdistwrap_echo.so");
  const std::string second = scratch.copy("echo_c", "two/libdistwrap_echo.so");
  Registry registry({one, two}, {});
  const Mark mark;
  const absl::Status status = registry.find("echo").status();
  expect_refused(status, Refusal::kDuplicateName, first);
  EXPECT_THAT(std::string(status.message()), HasSubstr(second));
  EXPECT_FALSE(mark.is_there());
  EXPECT_TRUE(registry.find(first).ok()) << "a full path is clear";
  EXPECT_TRUE(registry.find(second).ok());
  // A file with two paths is one plugin.
  std::filesystem::remove(second);
  std::filesystem::create_symlink(first, second);
  EXPECT_TRUE(registry.find("echo").ok());
}

TEST(Registry, NamesOfFileAndTableAgree) {
  const Scratch scratch;
  scratch.copy("echo_c", "libdistwrap_other.so");
  constexpr LinkedIn kWrong[] = {{"wrong", &linked_query}};
  Registry registry({scratch.path()}, kWrong);
  expect_refused(registry.find("other").status(), Refusal::kNameMismatch,
                 "'echo'");
  expect_refused(registry.find("wrong").status(), Refusal::kNameMismatch,
                 "'echo'");
}

TEST(Registry, AFailureIsNotKept) {
  const Scratch scratch;
  const std::string file = scratch.write("libdistwrap_echo.so", "");
  Registry registry({scratch.path()}, {});
  expect_refused(registry.find("echo").status(), Refusal::kEmpty);
  scratch.copy("echo_c", "libdistwrap_echo.so");
  EXPECT_TRUE(registry.find("echo").ok());
}

TEST(Registry, ListSkipsWhatIsNoPlugin) {
  const Scratch scratch;
  for (const char* name :
       {"libdistwrap_.so", "libdistwrap_Big.so", "libother.so",
        "libdistwrap_a.so.1", "libdistwrap_b.so", "libdistwrap_a.so"})
    scratch.write(name, "x");
  Registry registry({scratch.path(), "/nonexistent/folder"}, {});
  std::vector<std::string> names;
  for (const Registry::Entry& entry : registry.list()) {
    names.push_back(entry.name);
    EXPECT_FALSE(entry.loaded);
  }
  EXPECT_THAT(names, ::testing::ElementsAre("a", "b"));
}

TEST(Registry, LinkedInBackendsWork) {
  Registry registry({});
  for (const LinkedIn& row : linked_in()) {
    const absl::StatusOr<BackendPtr> backend = registry.find(row.name);
    ASSERT_TRUE(backend.ok()) << backend.status();
    EXPECT_EQ((*backend)->name(), row.name);
    EXPECT_EQ((*backend)->origin(), "linked in");
  }
  EXPECT_EQ(registry.list().size(), linked_in().size());
}

TEST(Registry, FromManyThreads) {
  const Scratch scratch;
  const std::string file = scratch.copy("echo_c", "libdistwrap_echo.so");
  Registry registry({scratch.path()}, {});
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i)
    threads.emplace_back([&, i] {
      EXPECT_TRUE(registry.find(i % 2 == 0 ? "echo" : file).ok());
      EXPECT_FALSE(registry.list().empty());
      EXPECT_FALSE(registry.find("nothing").ok());
    });
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace distwrap::plugin
