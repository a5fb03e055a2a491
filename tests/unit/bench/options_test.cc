#include "bench/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <fstream>
#include <functional>
#include <stdlib.h>
#include <unistd.h>

namespace distwrap::bench {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

// The error for words that are bad in one way.
std::string refusal(const std::function<void(Words&)>& spoil) {
  Words words;
  spoil(words);
  return std::string(check(words).status().message());
}

TEST(Options, TheOverheadIsThatOfOneRankAlone) {
  const auto with = [](const std::function<void(Words&)>& more) {
    return refusal([&](Words& words) {
      words.overhead = true;
      words.ranks = 1;
      more(words);
    });
  };
  EXPECT_EQ(with([](Words&) {}), "");
  EXPECT_THAT(with([](Words& words) { words.ranks = 2; }),
              HasSubstr("--overhead: measures one rank, not 2"));
  for (const auto& more : std::vector<std::function<void(Words&)>>{
           [](Words& words) { words.vs = "memcpy"; },
           [](Words& words) { words.control = true; },
           [](Words& words) { words.nccl = true; }}) {
    EXPECT_THAT(with(more), HasSubstr("--overhead: cannot be combined"));
  }
}

TEST(Options, TheDefaultsAreGood) {
  const auto options = check(Words{});
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->ops, all_operations());
  EXPECT_EQ(options->ranks, 2);
  EXPECT_THAT(options->backends, ElementsAre("shm"));
  EXPECT_THAT(options->sizes,
              ElementsAre(8, 64, 512, 4096, 32768, 262144, 2097152, 16777216));
  EXPECT_TRUE(options->plan.check);
  EXPECT_EQ(options->plan.iterations, 0);
  EXPECT_EQ(options->plan.rounds, 0);
  EXPECT_DOUBLE_EQ(options->plan.precision, 0.02);
  EXPECT_EQ(options->pattern.name(), "linear");
  EXPECT_DOUBLE_EQ(options->threshold, 0.05);
  EXPECT_FALSE(options->quiet());
}

TEST(Options, OperationsMayBeListedAndRepeated) {
  Words words;
  words.ops = {"all_reduce,barrier", "all_reduce"};
  EXPECT_THAT(check(words)->ops,
              ElementsAre(Operation::kAllReduce, Operation::kBarrier));
  words.ops = {"barrier", "all"};
  EXPECT_THAT(check(words)->ops, SizeIs(all_operations().size()));
}

TEST(Options, AnUnknownOperationNamesTheNearest) {
  EXPECT_THAT(refusal([](Words& words) { words.ops = {"allreduce"}; }),
              HasSubstr("did you mean all_reduce?"));
}

TEST(Options, OperationsOfOtherProgramsPrintNothingInTheProtocol) {
  Words words;
  words.ops = {"memcpy"};
  EXPECT_FALSE(check(words).ok());
  words.json = true;
  const auto options = check(words);
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_TRUE(options->ops.empty());
  EXPECT_THAT(options->left_out, ElementsAre("memcpy"));
}

TEST(Options, SizesWinOverTheRange) {
  Words words;
  words.sizes = "8,4K,1M";
  EXPECT_THAT(check(words)->sizes, ElementsAre(8, 4096, 1 << 20));
}

TEST(Options, RangeByFactorAndStep) {
  Words words;
  words.min = "8";
  words.max = "100";
  words.factor = 2;
  EXPECT_THAT(check(words)->sizes, ElementsAre(8, 16, 32, 64));
  words.step = "40";
  EXPECT_THAT(check(words)->sizes, ElementsAre(8, 48, 88));
}

TEST(Options, ZeroIterationsMeasureNothing) {
  EXPECT_THAT(refusal([](Words& words) { words.iterations = 0; }),
              HasSubstr("--iters"));
}

TEST(Options, EveryBadValueIsRefusedByName) {
  using Spoil = std::function<void(Words&)>;
  const std::vector<std::pair<const char*, Spoil>> bad = {
      {"--iters", [](Words& w) { w.iterations = -5; }},
      {"--warmup", [](Words& w) { w.warmup = -2; }},
      {"--check", [](Words& w) { w.check = 2; }},
      {"--seconds", [](Words& w) { w.seconds = 0; }},
      {"--seconds", [](Words& w) { w.seconds = std::nan(""); }},
      {"--rounds", [](Words& w) { w.rounds = 0; }},
      {"--ranks", [](Words& w) { w.ranks = 0; }},
      {"--ranks", [](Words& w) { w.ranks = 100000; }},
      {"--root", [](Words& w) { w.root = 2; }},
      {"--root", [](Words& w) { w.root = -1; }},
      {"--depth", [](Words& w) { w.depth = 0; }},
      {"--depth", [](Words& w) { w.depth = 65; }},
      {"--pin", [](Words& w) { w.pin = 3; }},
      {"--timeout", [](Words& w) { w.timeout = 0; }},
      {"--dtype", [](Words& w) { w.dtype = "f33"; }},
      {"--dtype", [](Words& w) { w.dtype = "bool"; }},
      {"--reduce", [](Words& w) { w.reduce = "plus"; }},
      {"--reduce", [](Words& w) { w.reduce = "avg"; }},
      {"--sizes", [](Words& w) { w.sizes = "8,4Q"; }},
      {"--min", [](Words& w) { w.min = "x"; }},
      {"--min", [](Words& w) { w.min = "0"; }},
      {"--max", [](Words& w) { w.max = ""; }},
      {"--max", [](Words& w) { w.max = "4"; }},
      {"--step", [](Words& w) { w.step = "-1"; }},
      {"--factor", [](Words& w) { w.factor = 1; }},
      {"--hint", [](Words& w) { w.hints = {"novalue"}; }},
      {"--hint", [](Words& w) { w.hints = {"=1"}; }},
      {"--backend", [](Words& w) { w.backends = ""; }},
      {"--backend", [](Words& w) { w.backends = "none"; }},
      {"--rounds", [](Words& w) { w.rounds = -2; }},
      {"--precision", [](Words& w) { w.precision = 0; }},
      {"--precision", [](Words& w) { w.precision = 101; }},
      {"--precision", [](Words& w) { w.precision = std::nan(""); }},
      {"--precision",
       [](Words& w) {
         w.precision = 5;
         w.rounds = 3;
       }},
      {"--threshold", [](Words& w) { w.threshold = -1; }},
      {"--threshold", [](Words& w) { w.threshold = std::nan(""); }},
      {"--pattern", [](Words& w) { w.pattern = "zipff"; }},
      {"--pattern", [](Words& w) { w.pattern = "one-hot:2"; }},
      {"--pattern",
       [](Words& w) {
         w.ops = {"all_reduce"};
         w.pattern = "uniform";
       }},
      {"--csv",
       [](Words& w) {
         w.json = true;
         w.csv = "-";
       }},
      {"--nccl",
       [](Words& w) {
         w.nccl = true;
         w.json_file = "-";
       }},
  };
  for (const auto& [option, spoil] : bad) {
    EXPECT_THAT(refusal(spoil), HasSubstr(option));
  }
}

TEST(Options, NamesOfElementTypesInBothSpellings) {
  EXPECT_EQ(*parse_dtype("f32"), DType::kF32);
  EXPECT_EQ(*parse_dtype("float"), DType::kF32);
  EXPECT_EQ(*parse_dtype("int64"), DType::kI64);
  EXPECT_EQ(*parse_dtype("u8"), DType::kU8);
  EXPECT_THAT(std::string(parse_dtype("f3").status().message()),
              HasSubstr("did you mean f32?"));
  EXPECT_EQ(*parse_reduce("prod"), ReduceOp::kProduct);
  EXPECT_EQ(*parse_reduce("max"), ReduceOp::kMax);
}

TEST(Options, OnlyAllToAllVFollowsLinesThatDiffer) {
  char path[] = "/tmp/distwrap_matrix_XXXXXX";
  const int fd = mkstemp(path);
  ASSERT_GE(fd, 0);
  close(fd);
  std::ofstream(path) << "1 2\n3 4\n";
  Words words;
  words.pattern = path;
  words.ops = {"all_to_all_v"};
  EXPECT_TRUE(check(words).ok());
  words.ops = {"all_to_all_v", "gather_v"};
  EXPECT_THAT(std::string(check(words).status().message()),
              HasSubstr("gather_v has one list"));
  std::remove(path);
}

TEST(Options, RoundsByNumberOrByPrecision) {
  Words words;
  words.rounds = 21;
  const Plan counted = check(words)->plan;
  EXPECT_EQ(counted.least_rounds(), 21);
  EXPECT_EQ(counted.most_rounds(), 21);
  words.rounds = -1;
  words.precision = 5;
  const Plan timed = check(words)->plan;
  EXPECT_DOUBLE_EQ(timed.precision, 0.05);
  EXPECT_LT(timed.least_rounds(), timed.most_rounds());
  EXPECT_DOUBLE_EQ(timed.block_seconds() * timed.most_rounds(), timed.seconds);
}

TEST(Options, PeersMayBeMeasuredAlone) {
  Words words;
  words.backends = "none";
  words.vs = "other,another";
  const auto options = check(words);
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_TRUE(options->backends.empty());
  EXPECT_THAT(options->vs, ElementsAre("other", "another"));
}

TEST(Options, HintsAreKeysAndValues) {
  Words words;
  words.hints = {"interface=lo", "filter=a=b", "empty="};
  const auto options = check(words);
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->hints.at("interface"), "lo");
  EXPECT_EQ(options->hints.at("filter"), "a=b");
  EXPECT_EQ(options->hints.at("empty"), "");
}

TEST(Options, ValuesThatMayBeLeftOut) {
  EXPECT_THAT(spell_out({"--pin", "all_reduce"}),
              ElementsAre("--pin=1", "all_reduce"));
  EXPECT_THAT(spell_out({"--pin", "0", "--csv"}),
              ElementsAre("--pin=0", "--csv=-"));
  EXPECT_THAT(spell_out({"--csv", "x.csv", "--pin"}),
              ElementsAre("--csv=x.csv", "--pin=1"));
  EXPECT_THAT(spell_out({"--csv", "--ranks", "2"}),
              ElementsAre("--csv=-", "--ranks", "2"));
  EXPECT_THAT(spell_out({"--csv", "all", "--csv", "-"}),
              ElementsAre("--csv=-", "all", "--csv=-"));
  EXPECT_THAT(spell_out({"--plot", "--plot", "x.svg"}),
              ElementsAre("--plot=-", "--plot=x.svg"));
}

}  // namespace
}  // namespace distwrap::bench
