// Meshes, layouts and plans through the C API: every bad argument is refused.
#include "unit/capi/session_of_one.h"

#include <gmock/gmock.h>

#include <functional>
#include <string>
#include <vector>

namespace distwrap::capi {
namespace {

using ::testing::HasSubstr;

class Plans : public SessionOfOne {
 protected:
  Plans() {
    mesh_options_.struct_size = sizeof mesh_options_;
    mesh_options_.axes = 1;
    mesh_options_.sizes = &one_;
    EXPECT_EQ(distwrap_mesh_create(&mesh_options_, &mesh_, nullptr), DW_OK);
    plan_options_.struct_size = sizeof plan_options_;
  }
  ~Plans() override { EXPECT_EQ(distwrap_mesh_free(mesh_), DW_OK); }

  int32_t plan(const distwrap_layout* from, const distwrap_layout* to) {
    return distwrap_plan_create(from, to, &count_, 1, 4, &plan_options_, &plan_,
                                &error_);
  }
  int32_t move(const distwrap_tensor* out, const char* to) {
    return distwrap_redistribute(mesh_, out, to, &tensor_, "R", &count_, 1,
                                 &plan_options_, &error_);
  }

  const int64_t one_ = 1, two_ = 2;
  const distwrap_layout rows_ = {&two_, 1, "S(0)"}, whole_ = {&two_, 1, "R"};
  distwrap_mesh_options mesh_options_ = {};
  distwrap_plan_options plan_options_ = {};
  distwrap_mesh mesh_ = nullptr;
  distwrap_plan plan_ = nullptr;
};

TEST_F(Plans, Null) {
  const distwrap_layout no_text = {&two_, 1, nullptr};
  const distwrap_layout no_sizes = {nullptr, 1, "R"};
  distwrap_mesh_options bare = {};
  bare.struct_size = sizeof bare;
  distwrap_mesh_options no_ranks = mesh_options_;
  no_ranks.ranks_count = 1;
  const char* const no_name[] = {nullptr};
  distwrap_mesh_options nameless = mesh_options_;
  nameless.names = no_name;
  distwrap_mesh made = nullptr;
  const std::vector<std::function<int32_t()>> calls = {
      [&] { return distwrap_mesh_create(&mesh_options_, nullptr, &error_); },
      [&] { return distwrap_mesh_create(&bare, &made, &error_); },
      [&] { return distwrap_mesh_create(&no_ranks, &made, &error_); },
      [&] { return distwrap_mesh_create(&nameless, &made, &error_); },
      [&] { return distwrap_mesh_read(mesh_, nullptr, &error_); },
      [&] { return distwrap_mesh_read(nullptr, nullptr, &error_); },
      [&] { return distwrap_mesh_along(mesh_, nullptr, 1, &made, &error_); },
      [&] { return distwrap_mesh_along(mesh_, nullptr, 0, nullptr, &error_); },
      [&] { return distwrap_mesh_group(mesh_, nullptr, 0, nullptr, &error_); },
      [&] { return plan(nullptr, &whole_); },
      [&] { return plan(&rows_, nullptr); },
      [&] { return plan(&rows_, &no_text); },
      [&] { return plan(&no_sizes, &rows_); },
      [&] {
        return distwrap_plan_create(&rows_, &whole_, nullptr, 1, 4, nullptr,
                                    &plan_, &error_);
      },
      [&] {
        return distwrap_plan_create(&rows_, &whole_, &count_, 1, 4, nullptr,
                                    nullptr, &error_);
      },
      [&] { return distwrap_plan_text(nullptr, nullptr, &error_); },
      [&] { return move(nullptr, "R"); },
      [&] { return move(&tensor_, nullptr); },
      [&] {
        return distwrap_redistribute_async(mesh_, &tensor_, "R", &tensor_, "R",
                                           &count_, 1, nullptr, nullptr,
                                           &error_);
      },
      [&] {
        return distwrap_redistribute_many(mesh_, nullptr, "R", nullptr, "R",
                                          nullptr, nullptr, 1, nullptr,
                                          &error_);
      },
      [&] {
        const int64_t* const shape = &count_;
        const int32_t dims = 1;
        return distwrap_redistribute_many(mesh_, nullptr, "R", nullptr, "R",
                                          &shape, &dims, 1, nullptr, &error_);
      },
      [&] {
        return distwrap_redistribute_between(mesh_, nullptr, "R", nullptr,
                                             &tensor_, "R", &count_, 1, nullptr,
                                             &error_);
      },
      [&] {
        return distwrap_redistribute_between(mesh_, nullptr, "R", mesh_,
                                             &tensor_, "R", &count_, 1, nullptr,
                                             &error_);
      },
  };
  for (size_t i = 0; i < calls.size(); ++i) {
    EXPECT_EQ(calls[i](), DW_INVALID_ARGUMENT) << i;
    EXPECT_THAT(text(), HasSubstr("NULL")) << i;
  }
}

TEST_F(Plans, ManyTensorsTwoMeshesAndWithoutWaiting) {
  std::vector<float> in(static_cast<size_t>(count_)), out(in.size()),
      more(in.size());
  for (size_t i = 0; i < in.size(); ++i) in[i] = static_cast<float>(i) + 1;
  const auto of = [&](std::vector<float>& values) {
    distwrap_tensor tensor = tensor_;
    tensor.data = values.data();
    tensor.dtype = distwrap_dtype(DW_DTYPE_F32);
    return tensor;
  };
  const distwrap_tensor from = of(in), to = of(out), also = of(more);
  const distwrap_tensor* const outs[] = {&to, &also};
  const distwrap_tensor* const ins[] = {&from, &from};
  const int64_t* const shapes[] = {&count_, &count_};
  const int32_t dims[] = {1, 1};
  EXPECT_EQ(distwrap_redistribute_many(mesh_, outs, "S(0)", ins, "R", shapes,
                                       dims, 2, nullptr, &error_),
            DW_OK)
      << text();
  EXPECT_EQ(out, in);
  EXPECT_EQ(more, in);
  out.assign(out.size(), 0);
  EXPECT_EQ(distwrap_redistribute_between(mesh_, &to, "S(0)", mesh_, &from, "R",
                                          &count_, 1, nullptr, &error_),
            DW_OK)
      << text();
  EXPECT_EQ(out, in);
  out.assign(out.size(), 0);
  distwrap_work work = nullptr;
  ASSERT_EQ(distwrap_redistribute_async(mesh_, &to, "S(0)", &from, "R", &count_,
                                        1, nullptr, &work, &error_),
            DW_OK)
      << text();
  EXPECT_EQ(distwrap_work_wait(work, DW_FOREVER, &error_), DW_OK) << text();
  EXPECT_EQ(out, in);
  EXPECT_EQ(distwrap_work_free(work), DW_OK);
}

TEST_F(Plans, WhatIsImpossible) {
  const auto refused = [&](int32_t code, const char* says) {
    EXPECT_EQ(code, DW_INVALID_ARGUMENT);
    EXPECT_THAT(text(), HasSubstr(says));
  };
  distwrap_mesh made = nullptr;
  mesh_options_.sizes = &two_;
  refused(distwrap_mesh_create(&mesh_options_, &made, &error_), "kMeshShape");
  EXPECT_EQ(made, nullptr);
  const int32_t twice[] = {0, 0}, beyond = 1;
  refused(distwrap_mesh_along(mesh_, twice, 2, &made, &error_), "kPlacement");
  distwrap_group group = nullptr;
  refused(distwrap_mesh_group(mesh_, &beyond, 1, &group, &error_),
          "kPlacement");
  const distwrap_layout bad = {&two_, 1, "S(0"};
  refused(plan(&bad, &whole_), "kPlacement");
  const distwrap_layout other = {&one_, 1, "R"};
  refused(plan(&rows_, &other), "kMeshMismatch");
  refused(
      distwrap_layout_part(&rows_, &count_, -1, 0, nullptr, nullptr, &error_),
      "-1 dimensions");
  refused(
      distwrap_layout_part(&rows_, &count_, 1, 2, nullptr, nullptr, &error_),
      "kInvalidArgument");
  plan_options_.mode = 3;
  refused(plan(&rows_, &whole_), "the mode 3 is unknown");
  plan_options_.mode = DW_PLAN_PYTORCH;
  plan_options_.cap_bytes = -1;
  refused(plan(&rows_, &whole_), "kInvalidArgument");
  plan_options_.cap_bytes = 0;
  refused(move(&tensor_, "R"), "overlap");
  refused(move(&other_tensor(), "R,R"), "kPlacement");
  EXPECT_EQ(move(&other_tensor(), "S(0)"), DW_OK);
  EXPECT_EQ(y_[3], 4);
}

TEST_F(Plans, OfTheGradient) {
  const auto planned = [&](const char* from, const char* to) {
    const distwrap_layout source = {&two_, 1, from}, target = {&two_, 1, to};
    EXPECT_EQ(plan(&source, &target), DW_OK) << text();
    return plan_;
  };
  const auto text_of = [&](distwrap_plan of) {
    distwrap_list list = nullptr;
    EXPECT_EQ(distwrap_plan_text(of, &list, &error_), DW_OK) << text();
    distwrap_bytes bytes = {};
    EXPECT_EQ(distwrap_list_item(list, 0, &bytes, nullptr), DW_OK);
    std::string copy(static_cast<const char*>(bytes.data), bytes.size);
    EXPECT_EQ(distwrap_list_free(list), DW_OK);
    return copy;
  };
  plan_options_.mode = DW_PLAN_FEWEST_BYTES;
  const distwrap_plan forward = planned("R^", "S(0)");
  distwrap_plan backward = nullptr;
  EXPECT_EQ(distwrap_plan_backward(forward, nullptr, &error_),
            DW_INVALID_ARGUMENT);
  EXPECT_THAT(text(), HasSubstr("backward is NULL"));
  ASSERT_EQ(distwrap_plan_backward(forward, &backward, &error_), DW_OK)
      << text();
  EXPECT_THAT(text_of(backward), HasSubstr("src=(S(0)) dst=(P(sum))"));
  EXPECT_THAT(text_of(backward), HasSubstr("mode=fewest_bytes"));
  EXPECT_EQ(distwrap_plan_free(forward), DW_OK);
  EXPECT_EQ(distwrap_plan_free(backward), DW_OK);
  EXPECT_EQ(distwrap_plan_backward(forward, &backward, &error_),
            DW_INVALID_ARGUMENT);
  EXPECT_EQ(backward, nullptr);
  EXPECT_THAT(text(), HasSubstr("the plan handle is stale"));
  // A maximum has no gradient here.
  const distwrap_plan largest = planned("P(max)", "R");
  EXPECT_EQ(distwrap_plan_backward(largest, &backward, &error_),
            DW_INVALID_ARGUMENT);
  EXPECT_EQ(distwrap_error_reason(error_), DW_REASON_PARTIAL_STATE);
  EXPECT_THAT(text(), HasSubstr("P(max)"));
  EXPECT_EQ(distwrap_plan_free(largest), DW_OK);
}

TEST_F(Plans, StaleHandles) {
  ASSERT_EQ(plan(&rows_, &whole_), DW_OK);
  EXPECT_EQ(distwrap_plan_free(plan_), DW_OK);
  distwrap_list list = nullptr;
  EXPECT_EQ(distwrap_plan_text(plan_, &list, &error_), DW_INVALID_ARGUMENT);
  EXPECT_THAT(text(), HasSubstr("the plan handle is stale"));
  distwrap_mesh made = nullptr;
  ASSERT_EQ(distwrap_mesh_create(&mesh_options_, &made, nullptr), DW_OK);
  EXPECT_EQ(distwrap_mesh_free(made), DW_OK);
  distwrap_mesh_info info = {};
  EXPECT_EQ(distwrap_mesh_read(made, &info, &error_), DW_INVALID_ARGUMENT);
  EXPECT_THAT(text(), HasSubstr("the mesh handle is stale"));
}

}  // namespace
}  // namespace distwrap::capi
