// The exchange of a mixture of experts as a program of MPI writes it: rows are
// packed by expert, MPI_Alltoallv moves them, and rows that come back are added
// by token. It knows nothing about distwrap.
//
//   mpirun -n 2 mpi_moe_openmpi EXPERTS-FILE TOKENS HIDDEN EXPERTS TOPK ROUNDS
//   f32|bf16 OUT
//
// The file has a line of TOPK ids for each token, rank by rank. Rank 0 writes
// the median times of dispatch and combine in us to OUT.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
// Only MPI's C functions.
#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>
#include <vector>

namespace {

size_t at(int i) { return static_cast<size_t>(i); }

// A 16-bit float with the exponent of a 32-bit one.
struct Brain {
  uint16_t bits;
  explicit Brain(float value) {
    uint32_t wide;
    std::memcpy(&wide, &value, sizeof wide);
    bits = static_cast<uint16_t>((wide + 0x7fff + (wide >> 16 & 1)) >> 16);
  }
  explicit operator float() const {
    const uint32_t wide = uint32_t{bits} << 16;
    float value;
    std::memcpy(&value, &wide, sizeof value);
    return value;
  }
};

// Adds rows that came back, by token.
template <class Element>
void add_rows(const std::vector<int>& order, int topk, int hidden,
              const uint8_t* packed, float* sums) {
  const auto* from = reinterpret_cast<const Element*>(packed);
  for (const int pair : order) {
    float* const to = sums + at(pair / topk) * at(hidden);
    for (int h = 0; h < hidden; ++h) to[h] += static_cast<float>(from[h]);
    from += hidden;
  }
}

struct Layer {
  int rank = 0, ranks = 0;
  int tokens = 0, hidden = 0, experts = 0, topk = 0;
  bool wide = true;        // f32, else bf16
  std::vector<int> order;  // (token, slot) by expert
  std::vector<int> sends, receives, send_at, receive_at;  // elements
  std::vector<uint8_t> x, packed, received;
  std::vector<float> sums;
  std::vector<Brain> out;  // results in bf16

  size_t row_bytes() const {
    return at(hidden) * (wide ? sizeof(float) : sizeof(Brain));
  }
  MPI_Datatype element() const { return wide ? MPI_FLOAT : MPI_UINT16_T; }
  bool read(const char* path);
  void lay_out(const std::vector<int>& ids);
  void dispatch();
  void combine();
};

bool Layer::read(const char* path) {
  std::FILE* const file = std::fopen(path, "r");
  if (file == nullptr) return false;
  std::vector<int> ids;
  int id = 0;
  const size_t before = at(rank) * at(tokens) * at(topk);
  for (size_t i = 0; i < before + at(tokens) * at(topk); ++i) {
    if (std::fscanf(file, "%d", &id) != 1) break;
    if (i >= before) ids.push_back(id);
  }
  std::fclose(file);
  if (ids.size() != at(tokens) * at(topk)) return false;
  lay_out(ids);
  return true;
}

void Layer::lay_out(const std::vector<int>& ids) {
  std::vector<int> begin(at(experts) + 1, 0);
  for (const int one : ids)
    if (one >= 0) ++begin[at(one) + 1];
  for (size_t e = 0; e < at(experts); ++e) begin[e + 1] += begin[e];
  order.resize(at(begin.back()));
  sends.assign(at(ranks), 0);
  receives = send_at = receive_at = sends;
  const int each = experts / ranks;
  for (int r = 0; r < ranks; ++r)
    sends[at(r)] = (begin[at((r + 1) * each)] - begin[at(r * each)]) * hidden;
  for (size_t i = 0; i < ids.size(); ++i)
    if (ids[i] >= 0) order[at(begin[at(ids[i])]++)] = static_cast<int>(i);
  MPI_Alltoall(sends.data(), 1, MPI_INT, receives.data(), 1, MPI_INT,
               MPI_COMM_WORLD);
  for (size_t r = 1; r < at(ranks); ++r) {
    send_at[r] = send_at[r - 1] + sends[r - 1];
    receive_at[r] = receive_at[r - 1] + receives[r - 1];
  }
  // Ones, as elements.
  x.resize(at(tokens) * row_bytes());
  for (size_t i = 0; i < at(tokens) * at(hidden); ++i) {
    const float one = 1;
    const Brain brain(one);
    if (wide)
      std::memcpy(&x[i * sizeof one], &one, sizeof one);
    else
      std::memcpy(&x[i * sizeof brain], &brain, sizeof brain);
  }
  sums.resize(at(tokens) * at(hidden));
  if (!wide) out.assign(sums.size(), Brain(0));
  packed.resize(order.size() * row_bytes());
  received.resize(at(receive_at.back() + receives.back()) / at(hidden) *
                  row_bytes());
}

void Layer::dispatch() {
  uint8_t* to = packed.data();
  for (const int pair : order) {
    std::memcpy(to, &x[at(pair / topk) * row_bytes()], row_bytes());
    to += row_bytes();
  }
  MPI_Alltoallv(packed.data(), sends.data(), send_at.data(), element(),
                received.data(), receives.data(), receive_at.data(), element(),
                MPI_COMM_WORLD);
}

void Layer::combine() {
  MPI_Alltoallv(received.data(), receives.data(), receive_at.data(), element(),
                packed.data(), sends.data(), send_at.data(), element(),
                MPI_COMM_WORLD);
  std::fill(sums.begin(), sums.end(), 0.0f);
  if (wide) {
    add_rows<float>(order, topk, hidden, packed.data(), sums.data());
    return;
  }
  add_rows<Brain>(order, topk, hidden, packed.data(), sums.data());
  for (size_t i = 0; i < sums.size(); ++i) out[i] = Brain(sums[i]);
}

double median_us(int rounds, Layer& layer, void (Layer::*step)()) {
  std::vector<double> times;
  for (int i = -2; i < rounds; ++i) {
    MPI_Barrier(MPI_COMM_WORLD);
    const double start = MPI_Wtime();
    (layer.*step)();
    if (i >= 0) times.push_back((MPI_Wtime() - start) * 1e6);
  }
  std::nth_element(times.begin(), times.begin() + rounds / 2, times.end());
  return times[at(rounds / 2)];
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  Layer layer;
  MPI_Comm_rank(MPI_COMM_WORLD, &layer.rank);
  MPI_Comm_size(MPI_COMM_WORLD, &layer.ranks);
  bool good = argc == 9;
  if (good) {
    layer.tokens = std::atoi(argv[2]);
    layer.hidden = std::atoi(argv[3]);
    layer.experts = std::atoi(argv[4]);
    layer.topk = std::atoi(argv[5]);
    layer.wide = std::strcmp(argv[7], "f32") == 0;
    good = layer.read(argv[1]);
  }
  if (!good) {
    std::fprintf(stderr, "mpi_moe: the arguments cannot be used\n");
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  const int rounds = std::atoi(argv[6]);
  const double there = median_us(rounds, layer, &Layer::dispatch);
  const double back = median_us(rounds, layer, &Layer::combine);
  if (layer.rank == 0) {
    std::FILE* const file = std::fopen(argv[8], "w");
    if (file == nullptr) MPI_Abort(MPI_COMM_WORLD, 1);
    std::fprintf(file, "%f %f\n", there, back);
    std::fclose(file);
  }
  MPI_Finalize();
  return 0;
}
