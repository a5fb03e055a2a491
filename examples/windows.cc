// A ring in which every rank writes to the next one's memory: docs/windows.md.
#include <distwrap/distwrap.h>

#include <cstdint>
#include <cstdio>
#include <vector>

int main() {
  const auto session = distwrap::init_process_group();
  if (!session.ok()) return 1;
  const int me = session->rank(), n = session->world_size();
  const auto next = distwrap::Peer::group((me + 1) % n);

  // Every rank gives 1024 floats and, as each window does, 64 signals.
  const auto window =
      distwrap::new_window({.count = 1024, .dtype = distwrap::DType::kF32});
  if (!window.ok()) return 1;
  double sum = 0;
  for (uint64_t step = 1; step <= 3; ++step) {
    std::vector<float> x(
        16, static_cast<float>(10 * me) + static_cast<float>(step));
    // Puts 16 floats, then sets signal 0 of the next rank to the step.
    const int64_t at = static_cast<int64_t>(step) * 16;
    if (!window
             ->put_signal(distwrap::TensorView(x), next, at, 0, step,
                          distwrap::SignalHow::kSet)
             .ok())
      return 1;
    // The floats of the previous rank have arrived.
    if (!window->wait_signal(0, distwrap::Compare::kGe, step).ok()) return 1;
    sum += window->memory_of<float>()[static_cast<size_t>(at)];
  }
  std::printf("%g\n", sum);

  // A counter on rank 0 from which every rank takes a number.
  const auto tickets = distwrap::new_window(
      {.count = me == 0 ? 1 : 0, .dtype = distwrap::DType::kU64});
  if (!tickets.ok()) return 1;
  const auto mine =
      tickets->fetch_add(uint64_t{1}, distwrap::Peer::group(0), 0);
  if (!mine.ok() || *mine >= static_cast<uint64_t>(n)) return 1;

  // All ranks call destroy; afterwards no rank writes to another.
  if (!tickets->destroy().ok() || !window->destroy().ok()) return 1;
  return distwrap::destroy_process_group().ok() ? 0 : 1;
}
