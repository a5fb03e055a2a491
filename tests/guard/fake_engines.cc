// Every guarded function, as engines would have it: each counts its calls and
// returns 77. Two are left out (missing in guard_test.cc), and one has all
// kinds of arguments.
#include <atomic>
#include <cerrno>

extern "C" {

std::atomic<int> fake_engine_calls{0};

#define ncclWaitSignal left_out_1
#define MPI_Psend_init left_out_2
#define ncclSignal left_out_3
#define DW_GUARDED(symbol, library, instead) \
  long symbol(long, long, long) {            \
    ++fake_engine_calls;                     \
    return 77;                               \
  }
#include "guard/guarded_calls.def"
#undef ncclWaitSignal
#undef MPI_Psend_init
#undef ncclSignal

// The engine's own calls of its functions pass.
long engine_calls_itself() {
  const long result = ncclSend(1, 2, 3);
  return result + 0;
}

// An engine's object, whose methods are found by no name.
struct Engine {
  virtual ~Engine() = default;
  virtual long send() {
    ++fake_engine_calls;
    return 77;
  }
};
Engine* engine_object() {
  static Engine engine;
  return &engine;
}

struct Large {
  long numbers[5];
};

// Ten integers, ten floating numbers and a struct by value: registers and
// stack.
double ncclSignal(long a, long b, long c, long d, long e, long f, long g,
                  long h, long i, long j, double k, double l, double m,
                  double n, double o, double p, double q, double r, double s,
                  double t, Large u, float v) {
  ++fake_engine_calls;
  const double whole = static_cast<double>(
      a + 2 * b + 3 * c + 4 * d + 5 * e + 6 * f + 7 * g + 8 * h + 9 * i +
      10 * j + u.numbers[0] + 2 * u.numbers[4]);
  return whole + k + 2 * l + 3 * m + 4 * n + 5 * o + 6 * p + 7 * q + 8 * r +
         9 * s + 10 * t + static_cast<double>(v) + errno;
}
}
