#include "tensor/dispatch_cost.h"

#include "distwrap/autograd.h"
#include "distwrap/function.h"
#include "distwrap/ops.h"
#include "distwrap/registration.h"

#include <absl/strings/ascii.h>
#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <malloc.h>
#include <new>
#include <optional>
#include <random>
#include <time.h>
#include <vector>

namespace {

bool g_counting = false;
int g_allocations = 0;

}  // namespace

// The program counts what it and the libraries allocate.
void* operator new(size_t bytes) {
  if (g_counting) ++g_allocations;
  if (void* const block = std::malloc(bytes == 0 ? 1 : bytes)) return block;
  throw std::bad_alloc();
}
void operator delete(void* block) noexcept { std::free(block); }
void operator delete(void* block, size_t /*bytes*/) noexcept {
  std::free(block);
}

namespace distwrap::tools {
namespace {

using dispatch::find_op;
using dispatch::kernel;
using dispatch::KeySet;

using Pair = int64_t(const Tensor&, const Tensor&);

// Kernels without arithmetic.
int64_t nothing(const Tensor& /*a*/, const Tensor& /*b*/) { return 0; }
absl::StatusOr<Tensor> only_output(const Tensor& a, const Tensor& /*b*/) {
  return Tensor::empty(a.sizes(), a.dtype(), a.device());
}
absl::Status pass_on(const dispatch::OpHandle& op, KeySet set, Stack& stack) {
  return op.redispatch_boxed(set.below(dispatch::kUser1), stack);
}

using Output = Tensor(const Tensor&, const Tensor&);

struct NoteOnly : autograd::Formula<NoteOnly> {
  static constexpr char kName[] = "cost::output";
  static absl::StatusOr<Tensor> forward(autograd::Ctx& ctx, const Tensor& a,
                                        const Tensor& b) {
    static const auto op = find_op<Output>("cost::output");
    ctx.save_for_backward({a, b});
    return op.call(a, b);
  }
  static autograd::Grads backward(autograd::Ctx& /*ctx*/,
                                  absl::Span<const Tensor> grads) {
    return {grads[0], grads[0]};
  }
};

// The median of 101 blocks, in nanoseconds a call. A block is shorter than the
// time that the scheduler gives to a process on a machine that others use.
double median_ns(const std::function<void(int)>& block, int calls) {
  std::vector<double> times;
  block(calls);
  for (int i = 0; i < 101; ++i) {
    const auto start = std::chrono::steady_clock::now();
    block(calls);
    const std::chrono::duration<double, std::nano> spent =
        std::chrono::steady_clock::now() - start;
    times.push_back(spent.count() / calls);
  }
  std::nth_element(times.begin(), times.begin() + 50, times.end());
  return times[50];
}

// How often a call takes memory with operator new.
double allocations_of(const std::function<void()>& call) {
  call();
  g_allocations = 0;
  g_counting = true;
  call();
  g_counting = false;
  return g_allocations;
}

// The processor time of this thread, for work that is done once.
double thread_ms() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e3 +
         static_cast<double>(now.tv_nsec) / 1e6;
}

struct Row {
  std::string what;
  double value;
  std::optional<double> goal;
  const char* unit = "ns";
};

// PyTorch's a + b of two tensors of 2 x 2, in nanoseconds.
std::optional<double> torch_add(const std::string& python) {
  if (python.empty()) return std::nullopt;
  const std::string command =
      "'" + python +
      "' -c 'import torch, timeit; torch.set_num_threads(1); a = "
      "torch.ones(2, 2); b = torch.ones(2, 2); torch.set_grad_enabled(False); "
      "print(min(timeit.repeat(lambda: torch.add(a, b), number=20000, "
      "repeat=9)) / 20000 * 1e9)' 2>/dev/null";
  FILE* const pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return std::nullopt;
  char line[64] = "";
  const bool read = std::fgets(line, sizeof line, pipe) != nullptr;
  pclose(pipe);
  double ns = 0;
  if (!read || !absl::SimpleAtod(absl::StripAsciiWhitespace(line), &ns)) {
    return std::nullopt;
  }
  return ns;
}

std::vector<Row> measure(const std::string& python) {
  constexpr int kCalls = 2000;
  std::vector<absl::StatusOr<dispatch::Registration>> kept;
  const auto keep = [&](absl::StatusOr<dispatch::Registration> made) {
    kept.push_back(std::move(made));
  };
  const dispatch::Target cpu{dispatch::kDense, kCpu};
  keep(dispatch::define("cost::pair(Tensor a, Tensor b) -> int"));
  keep(dispatch::implement("cost::pair", cpu, kernel<&nothing>()));
  keep(dispatch::define("cost::output(Tensor a, Tensor b) -> Tensor"));
  keep(dispatch::implement("cost::output", cpu, kernel<&only_output>()));
  keep(dispatch::implement("cost::output", dispatch::kAutograd,
                           autograd::formula<NoteOnly, Output>()));
  keep(dispatch::fallback(dispatch::kUser1, dispatch::boxed(&pass_on)));
  const Tensor a = *Tensor::empty({2, 2}), b = *Tensor::empty({2, 2});
  const auto pair = find_op<Pair>("cost::pair");
  const auto output = find_op<Output>("cost::output");

  Pair* volatile direct_function = &nothing;
  const double direct = median_ns(
      [&](int calls) {
        for (int i = 0; i < calls; ++i) direct_function(a, b);
      },
      kCalls);
  const double typed = median_ns(
      [&](int calls) {
        for (int i = 0; i < calls; ++i) (void)pair.call(a, b);
      },
      kCalls);
  const double plain_output = median_ns(
      [&](int calls) {
        for (int i = 0; i < calls; ++i) (void)output.call(a, b);
      },
      kCalls);
  const double added = median_ns(
      [&](int calls) {
        for (int i = 0; i < calls; ++i) (void)ops::add(a, b);
      },
      kCalls);
  double boxed = 0, hop_allocations = 0;
  {
    const dispatch::IncludeGuard guard{KeySet(dispatch::kUser1)};
    hop_allocations = allocations_of([&] { (void)pair.call(a, b); });
    boxed = median_ns(
        [&](int calls) {
          for (int i = 0; i < calls; ++i) (void)pair.call(a, b);
        },
        kCalls);
  }
  const Tensor x = *Tensor::empty({2, 2});
  (void)x.set_requires_grad();
  // The layer is in the set, and the operator has nothing to do there.
  keep(dispatch::define("cost::idle(Tensor a, Tensor b) -> int"));
  keep(dispatch::implement("cost::idle", cpu, kernel<&nothing>()));
  keep(dispatch::implement("cost::idle", {dispatch::kAutograd, kCpu},
                           dispatch::fallthrough()));
  const auto idle = find_op<Pair>("cost::idle");
  const double without_layer = median_ns(
      [&](int calls) {
        for (int i = 0; i < calls; ++i) (void)idle.call(a, b);
      },
      kCalls);
  const double with_layer = median_ns(
      [&](int calls) {
        for (int i = 0; i < calls; ++i) (void)idle.call(x, b);
      },
      kCalls);
  const double noted = median_ns(
      [&](int calls) {
        for (int i = 0; i < calls; ++i) (void)output.call(x, b);
      },
      kCalls);

  // 1000 operators in random order.
  std::vector<dispatch::Op<Pair>> many;
  for (int i = 0; i < 1000; ++i) {
    const std::string name = absl::StrCat("cost::many", i);
    keep(dispatch::define(absl::StrCat(name, "(Tensor a, Tensor b) -> int")));
    keep(dispatch::implement(name, cpu, kernel<&nothing>()));
    many.push_back(find_op<Pair>(name));
  }
  std::mt19937 random(7);
  std::vector<size_t> order(kCalls);
  for (size_t& one : order) one = random() % 1000;
  const double scattered = median_ns(
      [&](int calls) {
        for (int i = 0; i < calls; ++i)
          (void)many[order[static_cast<size_t>(i)]].call(a, b);
      },
      kCalls);

  const size_t bytes_before = mallinfo2().uordblks;
  const double start = thread_ms();
  for (int i = 0; i < 2000; ++i) {
    const std::string name = absl::StrCat("cost::new", i);
    keep(dispatch::define(absl::StrCat(name, "(Tensor a, Tensor b) -> int")));
    keep(dispatch::implement(name, cpu, kernel<&nothing>()));
    keep(dispatch::implement(name, {dispatch::kDense, kMeta},
                             kernel<&nothing>()));
    keep(dispatch::implement(name, dispatch::kAutograd, kernel<&nothing>()));
  }
  const double registering = thread_ms() - start;
  const double bytes =
      static_cast<double>(mallinfo2().uordblks - bytes_before) / 2000;

  std::vector<Row> rows = {
      {"typed call of two tensors, above a direct call", typed - direct, 2},
      {"the same over 1000 operators in random order", scattered - direct, 12},
      {"the gradient's layer, with nothing to do", with_layer - without_layer,
       1},
      {"one boxed fallback", boxed - typed, 10},
      {"allocations of a boxed fallback", hop_allocations, 0, ""},
      {"one node of a gradient", noted - plain_output, 60},
      {"two tensors, output allocated, no arithmetic", plain_output, 100},
      {"dw::add of two tensors of 2 x 2", added, std::nullopt},
      {"registering 2000 operators with 3 kernels", registering, 20, "ms"},
      {"memory of an operator with 3 kernels", bytes, 1536, "bytes"}};
  if (const std::optional<double> torch = torch_add(python)) {
    rows.push_back(
        {"torch.add of the same, from Python", *torch, std::nullopt});
  }
  return rows;
}

}  // namespace

std::string dispatch_cost(Form form, const std::string& python) {
  const std::vector<Row> rows = measure(python);
  std::string text;
  if (form == Form::kJson) {
    text = "{\"schema\": 1, \"tool\": \"distwrap bench dispatch\", \"rows\": [";
    for (size_t i = 0; i < rows.size(); ++i) {
      absl::StrAppendFormat(
          &text, "%s\n  {\"what\": \"%s\", \"value\": %.3f, \"unit\": \"%s\"",
          i == 0 ? "" : ",", rows[i].what, rows[i].value, rows[i].unit);
      if (rows[i].goal.has_value()) {
        absl::StrAppendFormat(&text, ", \"goal\": %g", *rows[i].goal);
      }
      text += "}";
    }
    return text + "\n]}\n";
  }
  absl::StrAppendFormat(&text, "%-48s %10s %8s\n", "call", "median", "goal");
  for (const Row& row : rows) {
    absl::StrAppendFormat(
        &text, "%-48s %7.1f %s %8s\n", row.what, row.value, row.unit,
        row.goal.has_value() ? absl::StrFormat("%g %s", *row.goal, row.unit)
                             : "");
  }
  return text;
}

}  // namespace distwrap::tools
