// Callbacks may do anything, and throw.
#include "base/log.h"
#include "unit/capi/session_of_one.h"

#include <gmock/gmock.h>

#include <atomic>
#include <mutex>
#include <stdexcept>
#include <string>

namespace distwrap::capi {
namespace {

using ::testing::HasSubstr;

using Callbacks = SessionOfOne;

void throw_text(void*, int32_t, distwrap_error) {
  throw std::runtime_error("no room");
}
void throw_number(void*, int32_t, distwrap_error) { throw 7; }

distwrap_work ended(const distwrap_tensor& tensor) {
  distwrap_work work = nullptr;
  EXPECT_EQ(distwrap_all_reduce(&tensor, &tensor, DW_REDUCE_SUM, nullptr, &work,
                                nullptr),
            DW_OK);
  EXPECT_EQ(distwrap_work_wait(work, DW_FOREVER, nullptr), DW_OK);
  return work;
}

TEST_F(Callbacks, ThatThrowHereAreTheCallsError) {
  const distwrap_work work = ended(tensor_);
  EXPECT_EQ(distwrap_work_on_done(work, throw_text, nullptr, &error_),
            DW_INVALID_ARGUMENT);
  EXPECT_THAT(text(), HasSubstr("the callback threw: no room"));
  EXPECT_EQ(distwrap_work_on_done(work, throw_number, nullptr, &error_),
            DW_INVALID_ARGUMENT);
  EXPECT_THAT(text(), HasSubstr("the callback threw"));
  EXPECT_EQ(distwrap_work_free(work), DW_OK);
}

TEST_F(Callbacks, ThatThrowInTheirThreadAreLogged) {
  std::mutex mutex;
  std::string logged;
  base::set_log_sink([&](base::LogLevel, absl::string_view line) {
    const std::lock_guard<std::mutex> lock(mutex);
    logged += std::string(line) + "\n";
  });
  const distwrap_work work = pending();
  EXPECT_EQ(distwrap_work_on_done(work, throw_text, nullptr, &error_), DW_OK);
  let_go();
  EXPECT_EQ(distwrap_work_wait(work, DW_FOREVER, nullptr), DW_OK);
  EXPECT_EQ(distwrap_work_free(work), DW_OK);
  // Ending the session waits for callbacks.
  EXPECT_EQ(distwrap_destroy_process_group(nullptr, nullptr), DW_OK);
  base::set_log_sink({});
  EXPECT_THAT(logged, HasSubstr("the callback threw: no room"));
}

// Uses its own work, begins another operation, ends a batch, frees handles.
struct Again {
  distwrap_work work = nullptr;
  const distwrap_tensor* tensor = nullptr;
  std::atomic<int> calls{0};
  std::atomic<int32_t> worst{DW_OK};
  void keep(int32_t code) {
    if (code != DW_OK) worst = code;
  }
};

void call_again(void* user, int32_t code, distwrap_error error) {
  Again& again = *static_cast<Again*>(user);
  again.keep(code);
  again.keep(error == nullptr ? DW_OK : DW_INTERNAL);
  again.keep(distwrap_work_wait(again.work, DW_FOREVER, nullptr));
  again.keep(distwrap_barrier(nullptr, nullptr, nullptr));
  distwrap_work next = nullptr;
  again.keep(distwrap_all_reduce(again.tensor, again.tensor, DW_REDUCE_SUM,
                                 nullptr, &next, nullptr));
  again.keep(distwrap_work_wait(next, DW_FOREVER, nullptr));
  again.keep(distwrap_work_free(next));
  if (++again.calls == 1) {
    again.keep(distwrap_work_on_done(again.work, call_again, user, nullptr));
    return;
  }
  again.keep(distwrap_work_free(again.work));
  ++again.calls;  // last use of `again`
}

TEST_F(Callbacks, MayCallEverything) {
  for (const bool has_ended : {true, false}) {
    Again again;
    again.tensor = &other_tensor();
    again.work = has_ended ? ended(other_tensor()) : pending();
    const distwrap_work work = again.work;
    EXPECT_EQ(distwrap_work_on_done(work, call_again, &again, nullptr), DW_OK);
    if (!has_ended) let_go();
    while (again.calls < 3) {
    }
    EXPECT_NE(distwrap_work_status(work, nullptr), DW_OK);
    EXPECT_EQ(again.worst, DW_OK);
  }
}

void keep_text(void* user, int32_t code, distwrap_error error) {
  EXPECT_EQ(code, DW_ABORTED);
  *static_cast<std::string*>(user) = distwrap_error_text(error);
}

TEST_F(Callbacks, AreToldTheError) {
  std::string told;
  const distwrap_work work = pending();
  EXPECT_EQ(distwrap_work_on_done(work, keep_text, &told, nullptr), DW_OK);
  EXPECT_EQ(distwrap_abort(nullptr, nullptr), DW_OK);
  EXPECT_EQ(distwrap_work_wait(work, DW_FOREVER, nullptr), DW_ABORTED);
  EXPECT_EQ(distwrap_work_free(work), DW_OK);
  EXPECT_EQ(distwrap_destroy_process_group(nullptr, nullptr), DW_OK);
  EXPECT_THAT(told, HasSubstr("kAborted"));
}

}  // namespace
}  // namespace distwrap::capi
