// The exchange of a mixture of experts as a program of MPI writes it: rows are
// packed by expert, MPI_Alltoallv moves them, and rows that come back are added
// by token. It knows nothing about distwrap.
//
//   mpirun -n 2 mpi_moe_openmpi EXPERTS-FILE TOKENS HIDDEN EXPERTS TOPK ROUNDS
//   OUT
//
// The file has a line of TOPK ids for each token, rank by rank. Rank 0 writes
// the median times of dispatch and combine in us to OUT.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
// Only MPI's C functions.
#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>
#include <vector>

namespace {

struct Layer {
  int rank = 0, ranks = 0;
  int tokens = 0, hidden = 0, experts = 0, topk = 0;
  std::vector<int> order;  // (token, slot) by expert
  std::vector<int> sends, receives, send_at, receive_at;  // elements
  std::vector<float> x, packed, received, out;

  bool read(const char* path);
  void lay_out(const std::vector<int>& ids);
  void dispatch();
  void combine();
};

size_t at(int i) { return static_cast<size_t>(i); }

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
  x.assign(at(tokens) * at(hidden), 1);
  out = x;
  packed.resize(order.size() * at(hidden));
  received.resize(at(receive_at.back() + receives.back()));
}

void Layer::dispatch() {
  float* to = packed.data();
  for (const int pair : order) {
    std::memcpy(to, &x[at(pair / topk) * at(hidden)],
                at(hidden) * sizeof(float));
    to += hidden;
  }
  MPI_Alltoallv(packed.data(), sends.data(), send_at.data(), MPI_FLOAT,
                received.data(), receives.data(), receive_at.data(), MPI_FLOAT,
                MPI_COMM_WORLD);
}

void Layer::combine() {
  MPI_Alltoallv(received.data(), receives.data(), receive_at.data(), MPI_FLOAT,
                packed.data(), sends.data(), send_at.data(), MPI_FLOAT,
                MPI_COMM_WORLD);
  std::fill(out.begin(), out.end(), 0.0f);
  const float* from = packed.data();
  for (const int pair : order) {
    float* const to = &out[at(pair / topk) * at(hidden)];
    for (int h = 0; h < hidden; ++h) to[h] += from[h];
    from += hidden;
  }
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
  bool good = argc == 8;
  if (good) {
    layer.tokens = std::atoi(argv[2]);
    layer.hidden = std::atoi(argv[3]);
    layer.experts = std::atoi(argv[4]);
    layer.topk = std::atoi(argv[5]);
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
    std::FILE* const file = std::fopen(argv[7], "w");
    if (file == nullptr) MPI_Abort(MPI_COMM_WORLD, 1);
    std::fprintf(file, "%f %f\n", there, back);
    std::fclose(file);
  }
  MPI_Finalize();
  return 0;
}
