// Hooks in C: the structs that they see, their answers, and their end.
#include "base/log.h"
#include "unit/capi/session_of_one.h"

#include <gmock/gmock.h>

#include <stdexcept>
#include <string>
#include <vector>

namespace distwrap::capi {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

using HooksInC = SessionOfOne;

struct Diary {
  std::vector<std::string> lines;
  int32_t answer = DW_OK;
  distwrap_hook hook = nullptr;
};

std::string line_of(const char* when, const distwrap_hooked_call* call) {
  return std::string(when) + " " + call->op + " in " +
         std::to_string(call->inputs_count) + " reduction " +
         std::to_string(call->reduction) + " async " +
         std::to_string(call->is_async);
}

int32_t pre(void* user, const distwrap_hooked_call* call, const char** why) {
  auto& diary = *static_cast<Diary*>(user);
  diary.lines.push_back(line_of("pre", call));
  *why = "not today";
  return diary.answer;
}
void post(void* user, const distwrap_hooked_call* call, int32_t code,
          distwrap_error error) {
  auto& diary = *static_cast<Diary*>(user);
  diary.lines.push_back(line_of("post", call) + " code " +
                        std::to_string(code) + " " +
                        distwrap_error_text(error));
}
void end(void* user, const distwrap_hooked_call* call, int32_t code,
         distwrap_error) {
  static_cast<Diary*>(user)->lines.push_back(line_of("end", call) + " code " +
                                             std::to_string(code));
}

distwrap_hooks hooks_for(Diary& diary) {
  distwrap_hooks hooks = {};
  hooks.struct_size = sizeof hooks;
  hooks.user = &diary;
  hooks.pre = pre;
  hooks.post = post;
  hooks.completion = end;
  return hooks;
}

TEST_F(HooksInC, AreShownCallsAndTheirEnds) {
  Diary diary;
  const distwrap_hooks hooks = hooks_for(diary);
  distwrap_hook hook = nullptr;
  ASSERT_EQ(distwrap_add_hook(nullptr, &hooks, &hook, &error_), DW_OK)
      << text();
  EXPECT_EQ(distwrap_all_reduce(&tensor_, &tensor_, DW_REDUCE_SUM, nullptr,
                                nullptr, &error_),
            DW_OK);
  distwrap_work work = nullptr;
  EXPECT_EQ(distwrap_barrier(nullptr, &work, &error_), DW_OK);
  EXPECT_EQ(distwrap_work_wait(work, DW_FOREVER, nullptr), DW_OK);
  EXPECT_EQ(distwrap_work_free(work), DW_OK);
  EXPECT_THAT(diary.lines,
              ElementsAre("pre all_reduce in 1 reduction 1 async 0",
                          "post all_reduce in 1 reduction 1 async 0 code 0 ",
                          "pre barrier in 0 reduction 0 async 1",
                          "post barrier in 0 reduction 0 async 1 code 0 ",
                          "end barrier in 0 reduction 0 async 1 code 0"));
  EXPECT_EQ(distwrap_hook_free(hook), DW_OK);
  EXPECT_EQ(distwrap_hook_free(hook), DW_INVALID_ARGUMENT);
  EXPECT_EQ(distwrap_barrier(nullptr, nullptr, &error_), DW_OK);
  EXPECT_EQ(diary.lines.size(), 5u);
}

TEST_F(HooksInC, MayRefuse) {
  Diary diary;
  diary.answer = DW_RESOURCE_EXHAUSTED;
  const distwrap_hooks hooks = hooks_for(diary);
  distwrap_hook hook = nullptr;
  ASSERT_EQ(distwrap_add_hook(nullptr, &hooks, &hook, &error_), DW_OK);
  EXPECT_EQ(distwrap_barrier(nullptr, nullptr, &error_), DW_ABORTED);
  EXPECT_EQ(distwrap_error_reason(error_), DW_REASON_ABORTED);
  EXPECT_THAT(text(), HasSubstr("a hook refused the call: not today"));
  EXPECT_THAT(diary.lines.back(), HasSubstr("not today"));
  EXPECT_EQ(distwrap_hook_free(hook), DW_OK);
}

int32_t make_a_group(void*, const distwrap_hooked_call* call, const char**) {
  if (std::string(call->op) != "new_group") return DW_OK;
  const distwrap_group_options* const made = call->group_options;
  return made->ranks_count == 1 && made->ranks[0] == 0 &&
                 std::string(made->description) == "mine" &&
                 made->timeout == 5'000'000'000
             ? DW_OK
             : DW_INTERNAL;
}

TEST_F(HooksInC, SeeHowGroupsAreMade) {
  distwrap_hooks hooks = {};
  hooks.struct_size = sizeof hooks;
  hooks.pre = make_a_group;
  distwrap_hook hook = nullptr;
  ASSERT_EQ(distwrap_add_hook(nullptr, &hooks, &hook, &error_), DW_OK);
  const int32_t ranks[] = {0};
  distwrap_group_options options = {};
  options.struct_size = sizeof options;
  options.ranks = ranks;
  options.ranks_count = 1;
  options.description = "mine";
  options.timeout = 5'000'000'000;
  distwrap_group group = nullptr;
  EXPECT_EQ(distwrap_new_group(&options, &group, &error_), DW_OK) << text();
  EXPECT_EQ(distwrap_group_free(group), DW_OK);
  EXPECT_EQ(distwrap_hook_free(hook), DW_OK);
}

int32_t free_itself(void* user, const distwrap_hooked_call*, const char**) {
  auto& diary = *static_cast<Diary*>(user);
  diary.lines.emplace_back("pre");
  return distwrap_hook_free(diary.hook);
}

TEST_F(HooksInC, MayFreeThemselves) {
  Diary diary;
  distwrap_hooks hooks = hooks_for(diary);
  hooks.pre = free_itself;
  ASSERT_EQ(distwrap_add_hook(nullptr, &hooks, &diary.hook, &error_), DW_OK);
  EXPECT_EQ(distwrap_barrier(nullptr, nullptr, &error_), DW_OK);
  EXPECT_EQ(distwrap_barrier(nullptr, nullptr, &error_), DW_OK);
  EXPECT_THAT(diary.lines, ElementsAre("pre"));
}

int32_t throw_in_pre(void*, const distwrap_hooked_call*, const char**) {
  throw std::runtime_error("thrown in pre");
}

TEST_F(HooksInC, ThatThrowRefuse) {
  distwrap_hooks hooks = {};
  hooks.struct_size = sizeof hooks;
  hooks.pre = throw_in_pre;
  distwrap_hook hook = nullptr;
  ASSERT_EQ(distwrap_add_hook(nullptr, &hooks, &hook, &error_), DW_OK);
  EXPECT_EQ(distwrap_barrier(nullptr, nullptr, &error_), DW_ABORTED);
  EXPECT_THAT(text(), HasSubstr("thrown in pre"));
  EXPECT_EQ(distwrap_hook_free(hook), DW_OK);
}

TEST_F(HooksInC, BadInputIsNamed) {
  distwrap_hooks hooks = {};
  distwrap_hook hook = nullptr;
  EXPECT_EQ(distwrap_add_hook(nullptr, &hooks, &hook, &error_),
            DW_INVALID_ARGUMENT);
  EXPECT_THAT(text(), HasSubstr("struct_size is 0"));
  hooks.struct_size = sizeof hooks;
  EXPECT_EQ(distwrap_add_hook(nullptr, nullptr, &hook, &error_),
            DW_INVALID_ARGUMENT);
  EXPECT_THAT(text(), HasSubstr("hooks is NULL"));
  EXPECT_EQ(distwrap_add_hook(nullptr, &hooks, nullptr, &error_),
            DW_INVALID_ARGUMENT);
  EXPECT_THAT(text(), HasSubstr("hook is NULL"));
  const auto stale = reinterpret_cast<distwrap_group>(uint64_t{63} << 58);
  EXPECT_EQ(distwrap_add_hook(stale, &hooks, &hook, &error_),
            DW_INVALID_ARGUMENT);
  EXPECT_EQ(distwrap_hook_free(nullptr), DW_OK);
}

}  // namespace
}  // namespace distwrap::capi
