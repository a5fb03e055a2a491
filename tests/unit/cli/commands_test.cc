// The commands that print something, as real processes without a terminal.
#include "distwrap/abi/note.h"
#include "process.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_split.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <stdlib.h>
#include <unistd.h>

namespace distwrap::cli {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

using Words = std::vector<std::string>;

class Commands : public ::testing::Test {
 protected:
  Commands() {
    char path[] = "/tmp/distwrap_test_XXXXXX";
    folder_ = mkdtemp(path);
    options_.env["DISTWRAP_RUN_DIR"] = folder_;
  }
  ~Commands() override { fs::remove_all(folder_); }

  // Returns the exit code; the output is in out_ and err_.
  int run(const Words& words) {
    Words argv = {DISTWRAP};
    argv.insert(argv.end(), words.begin(), words.end());
    return run_program(argv);
  }
  int run_program(const Words& argv) {
    Process process(argv, options_);
    const int code = process.wait();
    out_ = process.out();
    err_ = process.err();
    return code;
  }
  // Whether it is one JSON document, for an independent parser.
  bool is_json(const std::string& text) {
    options_.input = text;
    const int code =
        run_program({"/usr/bin/env", "python3", "-m", "json.tool"});
    options_.input.clear();
    return code == 0;
  }
  // The words that bash offers for the last of the words.
  Words completed(const Words& words) {
    std::string script = ". " + folder_ + "/completion\nCOMP_WORDS=(";
    for (const std::string& word : words)
      absl::StrAppend(&script, " '", word, "'");
    absl::StrAppend(&script, ")\nCOMP_CWORD=", words.size() - 1,
                    "\n_distwrap\nprintf '%s\\n' \"${COMPREPLY[@]}\"\n");
    EXPECT_EQ(run_program({"/bin/bash", "-c", script}), 0) << err_;
    EXPECT_EQ(err_, "");
    return absl::StrSplit(out_, '\n', absl::SkipEmpty());
  }
  // The words that zsh offers. Its own functions, which need a terminal, are
  // replaced by functions that print.
  Words completed_by_zsh(const Words& words) {
    std::string script = absl::StrCat(
        "compdef() { }\n_files() { print -r -- files }\n",
        "compadd() { local -a all; eval \"all=(\\\"\\${${@[-1]}[@]}\\\")\"; ",
        "print -rl -- ${(M)all:#${words[CURRENT]}*} }\n. ", folder_,
        "/_distwrap\nwords=(");
    for (const std::string& word : words)
      absl::StrAppend(&script, " '", word, "'");
    absl::StrAppend(&script, ")\nCURRENT=", words.size(), "\n_distwrap\n");
    EXPECT_EQ(run_program({"/usr/bin/env", "zsh", "-f", "-c", script}), 0)
        << err_;
    EXPECT_EQ(err_, "");
    return absl::StrSplit(out_, '\n', absl::SkipEmpty());
  }

  std::string folder_, out_, err_;
  Process::Options options_;
};

TEST_F(Commands, InfoShowsBuildBackendsSettingsAndLauncher) {
  options_.env["DISTWRAP_TIMEOUT"] = "7.5";
  options_.env["DISTWRAP_TIMEOUTS"] = "7.5";
  ASSERT_EQ(run({"info"}), 0) << err_;
  EXPECT_THAT(out_, AllOf(HasSubstr(DISTWRAP_VERSION), HasSubstr("loopback"),
                          HasSubstr("linked in"), HasSubstr("7.5")));
  EXPECT_THAT(out_, HasSubstr("nearest is DISTWRAP_TIMEOUT"));
  ASSERT_EQ(run({"info", "--json"}), 0) << err_;
  EXPECT_THAT(out_, HasSubstr("\"unknown_settings\""));
  EXPECT_TRUE(is_json(out_));
}

TEST_F(Commands, InfoShowsWhatABackendServes) {
  ASSERT_EQ(run({"info", "--backend", "gloo"}), 0) << err_;
  EXPECT_THAT(out_, AllOf(HasSubstr("all_reduce"), HasSubstr("native")));
  ASSERT_EQ(run({"info", "--backend", "gloo", "--markdown"}), 0) << err_;
  EXPECT_THAT(out_, HasSubstr("| --- | --- |"));
  ASSERT_EQ(run({"info", "--backend=loopback", "--json"}), 0) << err_;
  EXPECT_TRUE(is_json(out_));
}

TEST_F(Commands, InfoShowsTheTables) {
  for (const char* table : {"--errors", "--guarded", "--settings"}) {
    ASSERT_EQ(run({"info", table}), 0) << err_;
    EXPECT_THAT(out_, Not(IsEmpty()));
    ASSERT_EQ(run({"info", table, "--markdown"}), 0) << err_;
    EXPECT_THAT(out_, HasSubstr("| --- |"));
    ASSERT_EQ(run({"info", table, "--json"}), 0) << err_;
    EXPECT_TRUE(is_json(out_));
  }
}

TEST_F(Commands, InfoRefusesWhatItCannotShow) {
  EXPECT_EQ(run({"info", "--backend", "nobody"}), 1);
  EXPECT_THAT(err_, HasSubstr("kBackendUnknown"));
  EXPECT_EQ(run({"info", "--backend", "relative/x.so"}), 1);
  EXPECT_THAT(err_, HasSubstr("not absolute"));
  EXPECT_EQ(run({"info", "--backend", ""}), 1);
  EXPECT_THAT(err_, HasSubstr("kBackendMissing"));
  for (const Words& bad : {Words{"--markdown"}, Words{"--errors", "--settings"},
                           Words{"--errors", "--json", "--markdown"},
                           Words{"--backend", "gloo", "--errors"},
                           Words{"--backend"}, Words{"more"}, Words{"--jsn"}}) {
    Words words = {"info"};
    words.insert(words.end(), bad.begin(), bad.end());
    EXPECT_EQ(run(words), 2) << bad[0];
    EXPECT_THAT(out_, IsEmpty());
    EXPECT_THAT(err_, HasSubstr("distwrap info: "));
  }
}

TEST_F(Commands, InfoShowsAPluginThatIsRefused) {
  const std::string plugin = folder_ + "/libdistwrap_broken.so";
  std::ofstream(plugin) << "no library";
  options_.env["DISTWRAP_PLUGIN_PATH"] = folder_;
  ASSERT_EQ(run({"info"}), 0) << err_;
  EXPECT_THAT(out_, AllOf(HasSubstr("broken"), HasSubstr("refused"),
                          HasSubstr("not ELF")));
  ASSERT_EQ(run({"doctor", "--quiet"}), 0) << out_;
  EXPECT_THAT(out_, HasSubstr("not ELF"));
}

TEST_F(Commands, DoctorFindsThisHostFitForJobs) {
  EXPECT_EQ(run({"doctor"}), 0) << out_;
  EXPECT_THAT(out_, AllOf(HasSubstr("ok    store"), HasSubstr(" 0 fail\n")));
  EXPECT_EQ(run({"doctor", "--json"}), 0);
  EXPECT_THAT(out_, HasSubstr("\"findings\""));
  EXPECT_TRUE(is_json(out_));
  EXPECT_TRUE(fs::is_empty(folder_));
}

TEST_F(Commands, DoctorFailsWhereJobsWould) {
  options_.env["DISTWRAP_LOG"] = "loud";
  EXPECT_EQ(run({"doctor", "-q"}), 1);
  EXPECT_THAT(out_, AllOf(HasSubstr("fail  settings"), HasSubstr("'loud'"),
                          HasSubstr("fix: ")));
  options_.env["DISTWRAP_LOG"] = "error";
  options_.env["DISTWRAP_RANK"] = "0";
  EXPECT_EQ(run({"doctor", "-q"}), 1);
  EXPECT_THAT(out_, HasSubstr("fail  launcher"));
  options_.env.erase("DISTWRAP_RANK");
  options_.env["DISTWRAP_RUN_DIR"] = "/proc/nowhere";
  EXPECT_EQ(run({"doctor", "--json"}), 1);
  EXPECT_THAT(out_, HasSubstr("\"health\": \"fail\""));
}

TEST_F(Commands, BenchRedistributeComparesWithCallsByHand) {
  const Words words = {"bench",   "redistribute", "--ranks",  "2",
                       "--sizes", "4K",           "--rounds", "1"};
  ASSERT_EQ(run(words), 0) << err_;
  EXPECT_THAT(out_, AllOf(HasSubstr("S(0) to S(1)"), HasSubstr("all_reduce"),
                          Not(HasSubstr("OTHER ELEMENTS"))));
  Words as_json = words;
  as_json.push_back("--json");
  ASSERT_EQ(run(as_json), 0) << err_;
  EXPECT_TRUE(is_json(out_));
  EXPECT_EQ(run({"bench", "redistribute", "--sizes", "4X"}), 2);
  EXPECT_THAT(err_, HasSubstr("--sizes"));
}

// In place of a Python with PyTorch: a program that is given the same words.
TEST_F(Commands, BenchRedistributeShowsTheTimesOfDTensor) {
  const std::string python = folder_ + "/python";
  std::ofstream(python) << "#!/bin/sh\n"
                           "printf 'S(0)\\tR\\t8464\\t1e6\\n' > \"$5\"\n";
  std::filesystem::permissions(python, std::filesystem::perms::owner_all);
  const Words words = {"bench", "redistribute", "--sizes", "4K", "--rounds",
                       "1",     "--python",     python};
  ASSERT_EQ(run(words), 0) << err_;
  EXPECT_THAT(out_, AllOf(HasSubstr("plan / DTensor"), HasSubstr("1000000")));
  std::ofstream(python) << "#!/bin/sh\necho nothing > \"$5\"\n";
  EXPECT_EQ(run(words), 1);
  EXPECT_THAT(err_, HasSubstr("PyTorch reported no times"));
}

TEST_F(Commands, BenchMoeComparesWithCallsByHand) {
  for (const char* layout : {"expert_major", "rank_major"}) {
    const Words words = {
        "bench",    "moe", "--ranks",   "2", "--tokens", "32",
        "--topk",   "3",   "--experts", "8", "--skew",   "1",
        "--hidden", "16",  "--rounds",  "1", "--layout", layout};
    ASSERT_EQ(run(words), 0) << err_ << out_;
    EXPECT_THAT(out_, AllOf(HasSubstr("dispatch"), HasSubstr("combine"),
                            Not(HasSubstr("DIFFER"))));
    Words as_json = words;
    as_json.push_back("--json");
    ASSERT_EQ(run(as_json), 0) << err_;
    EXPECT_TRUE(is_json(out_));
  }
  EXPECT_EQ(run({"bench", "moe", "--experts", "7", "--topk", "3"}), 2);
  EXPECT_THAT(err_, HasSubstr("a multiple of 2 ranks"));
}

// Every rank sends token 0 nowhere, and to expert 3 once although its slots
// name it twice.
TEST_F(Commands, BenchMoeTellsBytesByLinkAndDrops) {
  const std::string path = std::filesystem::temp_directory_path() /
                           ("distwrap_experts_" + std::to_string(getpid()));
  std::ofstream(path) << "-1 -1\n3 3\n0 2\n"
                      << "-1 -1\n3 3\n0 2\n";
  Words words = {"bench",     "moe",     "--ranks",  "2",        "--tokens",
                 "3",         "--topk",  "2",        "--hidden", "8",
                 "--experts", "4",       "--rounds", "1",        "--router",
                 path,        "--dtype", "bf16",     "--json"};
  ASSERT_EQ(run(words), 0) << err_ << out_;
  // Rank 0 sends tokens 1 and 2 to rank 1, and token 2 to itself.
  for (const char* said :
       {R"("dtype": "bf16")", R"("bytes_inter": 0)", R"("bytes_intra": 32)",
        R"("bytes_local": 16)", R"("dropped": 0)", R"("equal": true)",
        R"("limit_us")", R"("hand_rows": 3)"})
    EXPECT_THAT(out_, HasSubstr(said));
  words.pop_back();
  words.insert(words.end(), {"--capacity", "1"});
  ASSERT_EQ(run(words), 0) << err_ << out_;
  EXPECT_THAT(out_, AllOf(HasSubstr("3 pairs dropped"), HasSubstr("bf16"),
                          HasSubstr("/ limit")));
  std::filesystem::remove(path);
  EXPECT_EQ(run({"bench", "moe", "--dtype", "i32"}), 2);
  EXPECT_THAT(err_, HasSubstr("is not f32 or bf16"));
}

TEST_F(Commands, PlanShowsAWayWithoutRanks) {
  const Words way = {"plan",   "--mesh", "dp=2,tp=4", "--shape",  "8,6",
                     "--from", "P,S(0)", "--to",      "S(0),S(0)"};
  ASSERT_EQ(run(way), 0) << err_;
  EXPECT_THAT(out_, AllOf(HasSubstr("reduce_scatter g=[0] op=sum d=[0]"),
                          HasSubstr("PyTorch's"), HasSubstr("collectives")));
  Words as_json = way;
  as_json.push_back("--json");
  ASSERT_EQ(run(as_json), 0) << err_;
  EXPECT_THAT(out_, HasSubstr("\"floor_bytes\": null"));
  EXPECT_TRUE(is_json(out_));
  // The gradient takes the way back.
  Words of_gradient = way;
  of_gradient.push_back("--backward");
  ASSERT_EQ(run(of_gradient), 0) << err_;
  EXPECT_THAT(out_, AllOf(HasSubstr("src=(S(0),S(0)) dst=(R^,S(0))"),
                          HasSubstr("exchange g=[0,1] kind=fetch"),
                          HasSubstr("PyTorch's")));
  of_gradient.push_back("--json");
  ASSERT_EQ(run(of_gradient), 0) << err_;
  EXPECT_THAT(
      out_, AllOf(HasSubstr("\"backward\": true"), HasSubstr("dst=(R^,S(0))")));
  EXPECT_TRUE(is_json(out_));
  // By other prices: two collectives and next to nothing besides.
  Words dear = way;
  dear.insert(dear.end(), {"--prices", "900000,1,1,1"});
  ASSERT_EQ(run(dear), 0) << err_;
  EXPECT_THAT(out_, HasSubstr("1800.0 us"));
  // A mesh far beyond this host.
  ASSERT_EQ(run({"plan", "--mesh", "8x8", "--hosts", "8x8", "--shape",
                 "4096,4096", "--from", "S(0),S(1)", "--to", "R,S(0)"}),
            0)
      << err_;
  EXPECT_THAT(out_, AllOf(HasSubstr("from other hosts"), HasSubstr("floor: ")));
}

TEST_F(Commands, RunPreloadsTheDoorOfTheGuard) {
  if constexpr (DW_SANITIZER != DW_SANITIZER_NONE)
    GTEST_SKIP() << "the sanitizer's runtime has to be loaded first";
  const Words shell = {"/bin/sh", "-c", "echo $LD_PRELOAD $DISTWRAP_GUARD"};
  Words words = {"run", "-n", "1", "--guard", "--output", "raw"};
  words.insert(words.end(), shell.begin(), shell.end());
  ASSERT_EQ(run(words), 0) << err_;
  EXPECT_THAT(out_, HasSubstr("libdistwrap_guard.so block\n"));
  options_.env["DISTWRAP_GUARD"] = "warn";
  ASSERT_EQ(run(words), 0) << err_;
  EXPECT_THAT(out_, HasSubstr("libdistwrap_guard.so warn\n"));
}

TEST_F(Commands, PlanRefusesWhatItCannotRead) {
  const std::vector<std::pair<Words, std::string>> bad = {
      {{"--mesh", "2xx4"}, "'2xx4'"},
      {{"--mesh", "0x4"}, "'0x4'"},
      {{"--mesh", "dp=2,tp"}, "'tp' is not NAME=SIZE"},
      {{"--mesh", "99999999x99999999x99999999"}, "kMeshShape"},
      {{"--shape", "8,-6"}, "'8,-6'"},
      {{"--from", "P,S(0)x"}, "kPlacement"},
      {{"--to", "S(0)"}, "--to: "},
      {{"--item", "0"}, "'0' is not 1 to 16 bytes"},
      {{"--mode", "quick"}, "'quick'"},
      {{"--hosts", "2"}, "HOSTSxRANKS"},
      {{"--hosts", "4x4"}, "8 ranks"},
      {{"--cap", "much"}, "'much'"},
      {{"--prices", "1,2,3"}, "'1,2,3'"},
  };
  for (const auto& [wrong, said] : bad) {
    std::map<std::string, std::string> options = {{"--mesh", "2x4"},
                                                  {"--shape", "8,6"},
                                                  {"--from", "P,S(0)"},
                                                  {"--to", "S(0),S(0)"}};
    options[wrong[0]] = wrong[1];
    Words words = {"plan"};
    for (const auto& [option, value] : options) {
      words.push_back(option);
      words.push_back(value);
    }
    EXPECT_EQ(run(words), 2) << said;
    EXPECT_THAT(out_, IsEmpty());
    EXPECT_THAT(err_, HasSubstr(said));
  }
  EXPECT_EQ(run({"plan", "--shape", "8"}), 2);
  EXPECT_THAT(err_, HasSubstr("--mesh: is missing"));
  EXPECT_EQ(run({"plan", "--mesh", "2", "--shape", "8", "--from", "P(max)",
                 "--to", "P"}),
            1);
  EXPECT_THAT(err_, HasSubstr("kPartialTarget"));
  EXPECT_EQ(run({"plan", "--mesh", "2", "--shape", "8", "--from", "P(max)",
                 "--to", "R", "--backward"}),
            1);
  EXPECT_THAT(err_, HasSubstr("kPartialState"));
}

TEST_F(Commands, ASessionTellsOfUnknownSettingsOnce) {
  options_.env["DISTWRAP_BACKENDS"] = "gloo";
  ASSERT_EQ(run({"bench", "barrier", "--ranks", "1", "--backend", "loopback",
                 "-n", "1", "--rounds", "1", "--json"}),
            0)
      << err_;
  const std::string said = "DISTWRAP_BACKENDS is not a setting";
  const size_t first = err_.find(said);
  ASSERT_NE(first, std::string::npos) << err_;
  EXPECT_EQ(err_.find(said, first + 1), std::string::npos) << err_;
  EXPECT_THAT(err_, HasSubstr("the nearest is DISTWRAP_BACKEND\n"));
}

TEST_F(Commands, UnknownOnesNameTheNearest) {
  const std::vector<std::pair<Words, std::string>> bad = {
      {{"benhc"}, "'bench'"},
      {{"doc"}, "'doctor'"},
      {{""}, "unknown command"},
      {{"--vers"}, "'--version'"},
      {{"doctor", "--quite"}, "did you mean --quiet?"},
      {{"bench", "--jsn"}, "did you mean --json?"},
      {{"run", "--rank", "2", "x"}, "did you mean --ranks?"},
      {{"man", "run"}, "too much"},
      {{"completion", "tcsh"}, "there is none for 'tcsh'"},
  };
  for (const auto& [words, said] : bad) {
    EXPECT_EQ(run(words), 2) << said;
    EXPECT_THAT(out_, IsEmpty());
    EXPECT_THAT(err_, HasSubstr(said));
  }
  EXPECT_EQ(run({}), 2);
  EXPECT_THAT(err_, HasSubstr("Usage"));
}

TEST_F(Commands, EachHasHelpAndAPlaceInTheManual) {
  ASSERT_EQ(run({"man"}), 0);
  const std::string manual = out_;
  ASSERT_EQ(run({"--help"}), 0);
  const std::string help = out_;
  for (const char* name :
       {"bench", "completion", "doctor", "info", "man", "plan", "run"}) {
    EXPECT_THAT(help, HasSubstr(name));
    EXPECT_THAT(manual, HasSubstr(absl::StrCat(".SS distwrap ", name)));
    EXPECT_EQ(run({name, "--help"}), 0);
    EXPECT_THAT(out_, HasSubstr("--help"));
    EXPECT_EQ(run({"help", name}), 0);
  }
  EXPECT_THAT(manual,
              AllOf(HasSubstr("\\-\\-json\\-file"), HasSubstr("\\-\\-grace"),
                    HasSubstr("\\-\\-markdown")));
}

TEST_F(Commands, BashCompletesThem) {
  ASSERT_EQ(run({"completion", "bash"}), 0);
  std::ofstream(folder_ + "/completion") << out_;
  EXPECT_EQ(completed({"distwrap", "d"}), Words{"doctor"});
  EXPECT_EQ(completed({"distwrap", "--v"}), Words{"--version"});
  EXPECT_EQ(completed({"distwrap", "help", "inf"}), Words{"info"});
  EXPECT_EQ(completed({"distwrap", "info", "--back"}), Words{"--backend"});
  EXPECT_EQ(completed({"distwrap", "run", "--gr"}), Words{"--grace"});
  EXPECT_EQ(completed({"distwrap", "bench", "gr"}), Words{"groups"});
  EXPECT_EQ(completed({"distwrap", "bench", "groups", "--py"}),
            Words{"--python"});
  EXPECT_EQ(completed({"distwrap", "completion", ""}), (Words{"bash", "zsh"}));
  EXPECT_EQ(completed({"distwrap", "run", "./pro"}), Words{});
  EXPECT_EQ(completed({"distwrap", "nonsense", "--x"}), Words{});
}

TEST_F(Commands, ZshCompletesThem) {
  ASSERT_EQ(run({"completion", "zsh"}), 0);
  std::ofstream(folder_ + "/_distwrap") << out_;
  if (run_program({"/bin/sh", "-c", "command -v zsh"}) != 0)
    GTEST_SKIP() << "zsh is not installed";
  EXPECT_EQ(completed_by_zsh({"distwrap", "d"}), Words{"doctor"});
  EXPECT_EQ(completed_by_zsh({"distwrap", "--v"}), Words{"--version"});
  EXPECT_EQ(completed_by_zsh({"distwrap", "help", "inf"}), Words{"info"});
  EXPECT_EQ(completed_by_zsh({"distwrap", "info", "--back"}),
            Words{"--backend"});
  EXPECT_EQ(completed_by_zsh({"distwrap", "bench", "--pin", ""}),
            (Words{"0", "1"}));
  EXPECT_EQ(completed_by_zsh({"distwrap", "bench", "--csv", ""}),
            Words{"files"});
  EXPECT_EQ(completed_by_zsh({"distwrap", "completion", ""}),
            (Words{"bash", "zsh"}));
  EXPECT_EQ(completed_by_zsh({"distwrap", "run", "./pro"}), Words{"files"});
  EXPECT_EQ(completed_by_zsh({"distwrap", "nonsense", "--x"}), Words{"files"});
}

}  // namespace
}  // namespace distwrap::cli
