#include "plugin/loader.h"

#include "base/log.h"
#include "scratch.h"

#include <gtest/gtest.h>

#include <dlfcn.h>
#include <elf.h>
#include <filesystem>
#include <fstream>
#include <string.h>
#include <thread>
#include <vector>

namespace distwrap::plugin {
namespace {

using ::testing::HasSubstr;

// Without a trial, so that the loader itself is tested.
ProbeOptions no_trial() { return {.helper = ""}; }

void expect_refused_unrun(const std::string& path, Refusal refusal) {
  SCOPED_TRACE(path);
  const Mark mark;
  expect_refused(load_plugin(path).status(), refusal);
  EXPECT_FALSE(mark.is_there()) << "its constructor ran";
}

TEST(Loader, LoadsAndRunsConstructors) {
  const Scratch scratch;
  // The tests of refusals rely on this: loading leaves the mark, in the trial
  // and in this process.
  for (bool trial : {true, false}) {
    const Mark mark;
    const auto backend =
        load_plugin(scratch.copy("echo_c", trial ? "a.so" : "b.so"),
                    trial ? ProbeOptions() : no_trial());
    ASSERT_TRUE(backend.ok()) << backend.status();
    EXPECT_TRUE(mark.is_there());
    EXPECT_EQ((*backend)->name(), "echo");
    EXPECT_EQ((*backend)->version(), "3.1");
    EXPECT_EQ((*backend)->origin(), scratch.path(trial ? "a.so" : "b.so"));
  }
}

TEST(Loader, NothingRunsOfAFileWithAWrongNote) {
  expect_refused_unrun(test_plugin("note_of_major_2"), Refusal::kWrongAbi);
  expect_refused_unrun(test_plugin("note_of_msan"), Refusal::kSanitizer);
  expect_refused_unrun(test_plugin("note_with_flags"), Refusal::kBadNote);
  const Mark mark;
  const absl::Status status = load_plugin(test_plugin("lacks_note")).status();
  // Linkers add notes of their own to most files.
  EXPECT_THAT(std::string(status.message()),
              ::testing::AnyOf(HasSubstr(": no note: "),
                               HasSubstr(": foreign note: ")));
  EXPECT_FALSE(mark.is_there());
}

TEST(Loader, NothingRunsOfAFileThatOthersMayChange) {
  const Scratch scratch;
  const std::string folder = scratch.folder("folder");
  const std::string file = scratch.copy("echo_c", "folder/x.so");
  ASSERT_EQ(chmod(file.c_str(), 0757), 0);
  expect_refused_unrun(file, Refusal::kWritableByOthers);
  ASSERT_EQ(chmod(file.c_str(), 0755), 0);
  ASSERT_EQ(chmod(folder.c_str(), 0777), 0);
  expect_refused_unrun(file, Refusal::kWritableByOthers);
  std::filesystem::create_symlink(file, scratch.path("link.so"));
  expect_refused_unrun(scratch.path("link.so"), Refusal::kWritableByOthers);
}

TEST(Loader, NothingRunsOfARelativePath) {
  const Scratch scratch;
  scratch.copy("echo_c", "x.so");
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(scratch.path());
  expect_refused_unrun("x.so", Refusal::kRelativePath);
  expect_refused_unrun("./x.so", Refusal::kRelativePath);
  std::filesystem::current_path(before);
}

TEST(Loader, NothingRunsOfAWrongFile) {
  const Scratch scratch;
  const std::string good = read_file(test_plugin("echo_c"));
  const auto patched = [&](size_t offset, char value) {
    std::string bytes = good;
    bytes[offset] = value;
    return scratch.write("patched.so", bytes);
  };
  expect_refused_unrun(patched(EI_CLASS, ELFCLASS32), Refusal::kWrongClass);
  expect_refused_unrun(patched(EI_DATA, ELFDATA2MSB), Refusal::kWrongByteOrder);
  expect_refused_unrun(patched(18, static_cast<char>(EM_S390)),
                       Refusal::kWrongMachine);
  expect_refused_unrun(patched(16, ET_EXEC), Refusal::kNotLibrary);
  expect_refused_unrun(scratch.write("empty.so", ""), Refusal::kEmpty);
  expect_refused_unrun(scratch.write("text.so", "INPUT(-lc)\n"),
                       Refusal::kNotElf);
  for (size_t i = 1; i <= 20; ++i)
    expect_refused_unrun(
        scratch.write("cut.so", good.substr(0, good.size() * i / 21)),
        Refusal::kTruncated);
}

TEST(Loader, MissingFile) {
  const absl::Status status = load_plugin("/nonexistent/x.so").status();
  EXPECT_EQ(error_reason(status), Reason::kPluginNotFound);
  EXPECT_THAT(std::string(status.message()), HasSubstr("/nonexistent/x.so"));
}

TEST(Loader, EntrySymbolIsThePluginsOwn) {
  expect_refused(load_plugin(test_plugin("lacks_entry")).status(),
                 Refusal::kNoEntry, DW_PLUGIN_QUERY_SYMBOL);
  // The dynamic linker finds an entry in a library that the plugin needs.
  expect_refused(load_plugin(test_plugin("borrower")).status(),
                 Refusal::kNoEntry, "lender");
}

TEST(Loader, TablesAreChecked) {
  expect_refused(load_plugin(test_plugin("gives_no_table")).status(),
                 Refusal::kNoTable);
  expect_refused(load_plugin(test_plugin("lacks_submit")).status(),
                 Refusal::kMissingSlot, "submit");
  expect_refused(load_plugin(test_plugin("no_name")).status(),
                 Refusal::kMissingSlot, "name");
  expect_refused(load_plugin(test_plugin("bad_name")).status(),
                 Refusal::kBadTable, "Echo!");
  expect_refused(load_plugin(test_plugin("short_table")).status(),
                 Refusal::kBadTable, "struct_size");
  expect_refused(load_plugin(test_plugin("table_of_major_2")).status(),
                 Refusal::kWrongAbi, "2.2");
  expect_refused(load_plugin(test_plugin("unknown_flag")).status(),
                 Refusal::kBadTable, "0x8000");
}

TEST(Loader, UndefinedSymbolsAreNamed) {
  for (const ProbeOptions& options : {ProbeOptions(), no_trial()})
    expect_refused(load_plugin(test_plugin("undefined"), options).status(),
                   Refusal::kNotLoadable, "dw_test_nobody_defines_this");
}

TEST(Loader, AnExceptionOfTheQueryIsCaught) {
  expect_refused(load_plugin(test_plugin("query_throws"), no_trial()).status(),
                 Refusal::kNoTable, "exception");
}

TEST(Loader, SymbolsStayLocal) {
  ASSERT_TRUE(load_plugin(test_plugin("echo_c")).ok());
  EXPECT_EQ(dlsym(RTLD_DEFAULT, DW_PLUGIN_QUERY_SYMBOL), nullptr);
}

TEST(Loader, SaysAtInfoWhatItLoads) {
  std::vector<std::string> lines;
  base::set_log_sink([&](base::LogLevel level, absl::string_view text) {
    EXPECT_EQ(level, base::LogLevel::kInfo) << text;
    lines.emplace_back(text);
  });
  base::set_log_level(base::LogLevel::kInfo);
  const bool ok = load_plugin(test_plugin("echo_v1_65535")).ok();
  base::set_log_level(base::LogLevel::kWarning);
  base::set_log_sink({});
  ASSERT_TRUE(ok);
  ASSERT_EQ(lines.size(), 1u);
  for (const char* part : {"/echo_v1_65535.so", "echo 3.1", "ABI 1.65535"})
    EXPECT_THAT(lines[0], HasSubstr(part));
}

TEST(Loader, FromManyThreads) {
  const Scratch scratch;
  const std::string path = scratch.copy("echo_cc", "x.so");
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i)
    threads.emplace_back([&] { EXPECT_TRUE(load_plugin(path).ok()); });
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace distwrap::plugin
