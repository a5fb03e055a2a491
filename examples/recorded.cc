// A rank that forgets a call, and the recordings that show it:
// docs/recording.md.
#include <distwrap/distwrap.h>

#include <absl/time/clock.h>

#include <cstdio>
#include <vector>

int main() {
  const auto session = distwrap::Session::create();
  if (!session.ok()) return std::puts(session.status().ToString().c_str()), 1;
  std::vector<float> x(1024, 1);
  auto reduce = [&](const char* label, absl::Duration timeout) {
    return distwrap::all_reduce(
        distwrap::TensorView(x), distwrap::ReduceOp::kSum,
        {.group = session->world(), .timeout = timeout, .label = label});
  };
  if (!reduce("first gradient", absl::Seconds(60)).ok()) return 1;
  // Rank 1 never makes the second call, so rank 0's group breaks, which saves
  // its recording. Rank 1 saves its own recording, and waits until then.
  if (session->rank() == 0)
    return reduce("second gradient", absl::Milliseconds(500)).ok() ? 1 : 0;
  if (!session->save_recording().ok()) return 1;
  absl::SleepFor(absl::Seconds(3));
  return 0;
}
