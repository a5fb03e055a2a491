// Random calls on device memory, each compared with the same call on host
// memory, which shm answers.
#include "driver.h"
#include "world.h"

#include <gtest/gtest.h>

#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace distwrap::gpu_test {
namespace {

using Counts = std::vector<int64_t>;

// Elements in host memory and the same elements on the device.
class Twin {
 public:
  Twin(DType dtype, int64_t count)
      : dtype_(dtype),
        host_(static_cast<size_t>(count * dtype_size(dtype)), 0xa5),
        device_(gpu_test::device(), host_.size(), 0xa5) {}

  // Small whole numbers, whose sums and products are exact in every type.
  void fill(std::mt19937_64& random) {
    const int64_t count = this->count();
    const auto size = static_cast<size_t>(dtype_size(dtype_));
    for (int64_t i = 0; i < count; ++i) {
      const auto value = static_cast<unsigned>(random() % 4);
      unsigned char* const at = &host_[static_cast<size_t>(i) * size];
      store(at, dtype_ == DType::kBool ? value % 2 : value);
    }
    device_.upload(host_.data());
  }

  int64_t count() const {
    return static_cast<int64_t>(host_.size()) / dtype_size(dtype_);
  }
  TensorView view(bool on_gpu) const {
    return on_gpu ? on_device(device_, dtype_)
                  : TensorView(const_cast<unsigned char*>(host_.data()),
                               count(), dtype_);
  }
  // "" or where the two differ.
  std::string difference(const char* name) const {
    std::vector<unsigned char> read(host_.size());
    device_.download(read.data());
    for (size_t i = 0; i < read.size(); ++i)
      if (read[i] != host_[i])
        return std::string(name) + ": byte " + std::to_string(i) + " of " +
               std::to_string(read.size()) + " is " + std::to_string(read[i]) +
               ", not " + std::to_string(host_[i]);
    return "";
  }

 private:
  void store(unsigned char* at, unsigned value) const {
    const auto put = [&](auto typed) { std::memcpy(at, &typed, sizeof typed); };
    // 0, 1, 2 and 3 in the two 16-bit formats of floats.
    constexpr uint16_t kHalf[] = {0, 0x3c00, 0x4000, 0x4200};
    constexpr uint16_t kBrain[] = {0, 0x3f80, 0x4000, 0x4040};
    switch (dtype_) {
      case DType::kF16:
        return put(kHalf[value]);
      case DType::kBF16:
        return put(kBrain[value]);
      case DType::kF32:
        return put(static_cast<float>(value));
      case DType::kF64:
        return put(static_cast<double>(value));
      default:
        return put_integer(at, value);
    }
  }
  void put_integer(unsigned char* at, unsigned value) const {
    const uint64_t wide = value;  // little-endian
    std::memcpy(at, &wide, static_cast<size_t>(dtype_size(dtype_)));
  }

  const DType dtype_;
  std::vector<unsigned char> host_;
  DeviceBytes device_;
};

// One random call: its buffers, and the call on either memory.
class RandomCall {
 public:
  RandomCall(uint64_t seed, const Group& group)
      : random_(seed),
        group_(group),
        size_(group.size()),
        me_(group.rank()),
        stream_(gpu_test::device()) {
    kind_ = pick(16);
    dtype_ = static_cast<DType>(pick(13));
    const bool moved_only = dtype_ == DType::kI16 || dtype_ == DType::kU16;
    if (moved_only && reduces()) dtype_ = DType::kF32;
    constexpr ReduceOp::Kind kOps[] = {ReduceOp::kSum, ReduceOp::kMax,
                                       ReduceOp::kMin, ReduceOp::kProduct};
    op_ = kOps[pick(4)];
    constexpr int64_t kLengths[] = {0, 1, 7, 1000, 70000};
    n_ = kLengths[pick(5)];
    root_ = static_cast<int>(pick(static_cast<unsigned>(size_)));
    for (int i = 0; i < size_; ++i)
      counts_.push_back(n_ == 0 ? 0 : static_cast<int64_t>(random_() % 9));
    mode_ = pick(3);
    // Every rank has its own data.
    std::mt19937_64 own(seed * 64 + static_cast<uint64_t>(me_));
    prepare(own);
  }

  std::string text() const {
    return "call " + std::to_string(kind_) + " of " +
           std::string(dtype_name(dtype_)) + " x " + std::to_string(n_) +
           ", reduction " + std::to_string(op_) + ", root " +
           std::to_string(root_) + ", mode " + std::to_string(mode_);
  }

  // "" or what is wrong.
  std::string run() {
    const absl::StatusOr<Work> on_host = call(false, {.group = group_});
    OpOptions options = {.group = group_, .async = mode_ == 1};
    if (mode_ == 2) options.stream = handle(stream_);
    absl::StatusOr<Work> on_gpu = call(true, options);
    if (on_gpu.ok() && mode_ != 0)
      if (absl::Status status = on_gpu->wait(); !status.ok()) on_gpu = status;
    if (!on_host.ok())
      return "on the host: " + std::string(on_host.status().message());
    if (!on_gpu.ok())
      return "on the GPU: " + std::string(on_gpu.status().message());
    for (const Twin* const out : {out_.get(), in_.get()})
      if (std::string wrong =
              out->difference(out == out_.get() ? "output" : "input");
          !wrong.empty())
        return wrong;
    return "";
  }

 private:
  unsigned pick(unsigned n) { return static_cast<unsigned>(random_() % n); }
  bool reduces() const { return kind_ >= 1 && kind_ <= 5; }
  static int64_t sum(const Counts& counts) {
    return std::accumulate(counts.begin(), counts.end(), int64_t{0});
  }
  int64_t mine() const { return counts_[static_cast<size_t>(me_)]; }

  void prepare(std::mt19937_64& own) {
    int64_t in = n_, out = n_;
    switch (kind_) {
      case 3:
        in = n_ * size_;
        break;
      case 4:
      case 5:
        in = sum(counts_), out = mine();
        break;
      case 6:
      case 9:
      case 15:
        out = n_ * size_;
        break;
      case 7:
      case 8:
      case 10:
        in = mine(), out = sum(counts_);
        break;
      case 11:
        in = n_ * size_;
        break;
      case 12:
        in = sum(counts_), out = mine();
        break;
      case 13:
        in = out = n_ * size_;
        break;
      // Rank i sends counts[j] to j, so it receives counts[i] from everybody.
      case 14:
        in = sum(counts_), out = mine() * size_;
        break;
      default:
        break;
    }
    in_ = std::make_unique<Twin>(dtype_, in);
    out_ = std::make_unique<Twin>(dtype_, out);
    in_->fill(own);
  }

  std::vector<TensorView> parts(const Twin& twin, bool on_gpu) const {
    std::vector<TensorView> made;
    int64_t first = 0;
    for (const int64_t count : counts_) {
      made.push_back(twin.view(on_gpu).flat(first, count));
      first += count;
    }
    return made;
  }

  absl::StatusOr<Work> call(bool on_gpu, const OpOptions& options) {
    const TensorView in = in_->view(on_gpu), out = out_->view(on_gpu);
    const Peer root = Peer::group(root_);
    switch (kind_) {
      case 0:
        return broadcast(out, in, root, options);
      case 1:
        return all_reduce(out, in, op_, options);
      case 2:
        return reduce(out, in, root, op_, options);
      case 3:
        return reduce_scatter_tensor(out, in, op_, options);
      case 4:
        return reduce_scatter_v(out, in, counts_, op_, options);
      case 5:
        return reduce_scatter(out, parts(*in_, on_gpu), op_, options);
      case 6:
        return all_gather_into_tensor(out, in, options);
      case 7:
        return all_gather_v(out, in, counts_, options);
      case 8:
        return all_gather(parts(*out_, on_gpu), in, options);
      case 9:
        return gather_into_tensor(out, in, root, {}, options);
      case 10:
        return gather_into_tensor(out, in, root, counts_, options);
      case 11:
        return scatter_tensor(out, in, root, {}, options);
      case 12:
        return scatter_tensor(out, in, root, counts_, options);
      case 13:
        return all_to_all_single(out, in, {}, {}, options);
      case 14:
        return all_to_all_single(out, in,
                                 Counts(static_cast<size_t>(size_), mine()),
                                 counts_, options);
      default:
        return ring(on_gpu, options);
    }
  }

  // Everybody sends to the next rank, one alone to itself.
  absl::StatusOr<Work> ring(bool on_gpu, const OpOptions& options) {
    const TensorView out = out_->view(on_gpu).flat(0, n_);
    Batch batch;
    batch.recv(out, Peer::group((me_ + size_ - 1) % size_), 0, options);
    batch.send(in_->view(on_gpu), Peer::group((me_ + 1) % size_), 0, options);
    absl::StatusOr<Work> work = batch.submit();
    if (work.ok())
      if (absl::Status status = work->wait(); !status.ok()) return status;
    return work;
  }

  std::mt19937_64 random_;
  const Group group_;
  const int size_, me_;
  GpuStream stream_;
  unsigned kind_ = 0, mode_ = 0;
  DType dtype_ = DType::kF32;
  ReduceOp::Kind op_ = ReduceOp::kSum;
  int64_t n_ = 0;
  int root_ = 0;
  Counts counts_;
  std::unique_ptr<Twin> in_, out_;
};

TEST(GpuCalls, AgreeWithTheHost) {
  const Group group = new_world();
  for (uint64_t seed = 0; seed < 600; ++seed) {
    RandomCall call(seed, group);
    ASSERT_EQ(call.run(), "") << "seed " << seed << ": " << call.text();
  }
  EXPECT_TRUE(destroy_process_group(group).ok());
}

TEST(GpuCalls, InPlace) {
  const Group group = new_world();
  const int n = group.size(), me = group.rank();
  DeviceBytes x(device(), 4 * sizeof(float));
  std::vector<float> values(4, static_cast<float>(me + 1));
  x.upload(values.data());
  ASSERT_TRUE(
      all_reduce(on_device(x, DType::kF32), ReduceOp::kSum, {.group = group})
          .ok());
  x.download(values.data());
  EXPECT_EQ(values, std::vector<float>(4, static_cast<float>(n * (n + 1) / 2)));
  ASSERT_TRUE(all_reduce(on_device(x, DType::kF32), ReduceOp::premul_sum(0.5),
                         {.group = group})
                  .ok());
  ASSERT_TRUE(
      all_reduce(on_device(x, DType::kF32), ReduceOp::kAvg, {.group = group})
          .ok());
  x.download(values.data());
  EXPECT_EQ(values,
            std::vector<float>(4, static_cast<float>(n * n * (n + 1)) / 4));
  EXPECT_TRUE(destroy_process_group(group).ok());
}

// From 1 MiB on NCCL uses other protocols.
TEST(GpuCalls, LargeOnes) {
  const Group group = new_world();
  const size_t count = (size_t{48} << 20) / sizeof(float) + 5;
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i)
    values[i] = static_cast<float>((i * 2654435761U >> 7) % 1000);
  DeviceBytes in(device(), count * sizeof(float));
  DeviceBytes out(device(), count * sizeof(float), 0xff);
  in.upload(values.data());
  ASSERT_TRUE(all_reduce(on_device(out, DType::kF32),
                         on_device(in, DType::kF32), ReduceOp::kSum,
                         {.group = group})
                  .ok());
  std::vector<float> read(count);
  out.download(read.data());
  size_t wrong = 0;
  for (size_t i = 0; i < count; ++i)
    if (read[i] != values[i] * static_cast<float>(group.size())) ++wrong;
  EXPECT_EQ(wrong, 0U);
  EXPECT_TRUE(destroy_process_group(group).ok());
}

// Floats of 8 bits move everywhere, and are reduced by NCCL 2.24.3 and later on
// devices of sm_90 and later.
TEST(GpuCalls, FloatsOfEightBits) {
  const Group group = new_world();
  const auto ranks = static_cast<size_t>(group.size());
  struct Format {
    DType dtype;
    unsigned char of[5];  // the codes of 0, 1, 2, 3 and 4
  };
  constexpr Format kFormats[] = {
      {DType::kF8E4M3FN, {0, 0x38, 0x40, 0x44, 0x48}},
      {DType::kF8E5M2, {0, 0x3c, 0x40, 0x42, 0x44}}};
  for (const Format& format : kFormats) {
    DeviceBytes x(device(), 3), all(device(), 3 * ranks, 0xa5);
    const unsigned char mine[] = {format.of[0], format.of[1], format.of[2]};
    x.upload(mine);
    ASSERT_TRUE(all_gather_into_tensor(on_device(all, format.dtype),
                                       on_device(x, format.dtype),
                                       {.group = group})
                    .ok());
    std::vector<unsigned char> gathered(3 * ranks);
    all.download(gathered.data());
    for (size_t i = 0; i < gathered.size(); ++i)
      EXPECT_EQ(gathered[i], mine[i % 3]) << i;
    const absl::StatusOr<Work> sum = all_reduce(
        on_device(x, format.dtype), ReduceOp::kSum, {.group = group});
    unsigned char result[3];
    x.download(result);
    if (!sum.ok()) {
      EXPECT_EQ(error_reason(sum.status()), Reason::kUnsupported);
      EXPECT_EQ(result[1], mine[1]);
      continue;
    }
    ASSERT_LE(ranks, 2u);
    EXPECT_EQ(result[0], format.of[0]);
    EXPECT_EQ(result[1], format.of[ranks]);
    EXPECT_EQ(result[2], format.of[2 * ranks]);
  }
  EXPECT_TRUE(destroy_process_group(group).ok());
}

// The factor is read from the device when the operation runs.
TEST(GpuCalls, AFactorInDeviceMemory) {
  const Group group = new_world();
  const auto ranks = static_cast<float>(group.size());
  DeviceBytes x(device(), 4), factor(device(), 4);
  const float values[] = {8, 0.25f};
  x.upload(&values[0]);
  factor.upload(&values[1]);
  const absl::StatusOr<Work> sum = all_reduce(
      on_device(x, DType::kF32),
      ReduceOp::premul_sum(on_device(factor, DType::kF32)), {.group = group});
  ASSERT_TRUE(sum.ok()) << sum.status();
  float result = 0;
  x.download(&result);
  EXPECT_EQ(result, 2 * ranks);
  EXPECT_TRUE(destroy_process_group(group).ok());
}

TEST(GpuCalls, ThoseThatCannotBeAreRefused) {
  const Group group = new_world();
  DeviceBytes x(device(), 8);
  const TensorView view = on_device(x, DType::kI64);
  const auto reason = [](const auto& result) {
    return error_reason(result.status());
  };
  EXPECT_EQ(reason(scan(view, view, ReduceOp::kSum, {.group = group})),
            Reason::kUnsupported);
  EXPECT_EQ(reason(all_reduce(view, ReduceOp::kBxor, {.group = group})),
            Reason::kUnsupported);
  int64_t on_host = 0;
  const auto host_pointer =
      all_reduce(TensorView(&on_host, 1, DType::kI64, cuda_device()),
                 ReduceOp::kSum, {.group = group});
  EXPECT_EQ(reason(host_pointer), Reason::kInvalidArgument);
  EXPECT_NE(host_pointer.status().message().find("not memory of a device"),
            absl::string_view::npos)
      << host_pointer.status();
  EXPECT_FALSE(
      all_reduce(TensorView(x.data(), 1, DType::kI64, Device{2, device() + 1}),
                 ReduceOp::kSum, {.group = group})
          .ok());
  EXPECT_FALSE(all_reduce(view, ReduceOp::kSum,
                          {.group = group,
                           .stream = {Device{2, device() + 1}, x.data()}})
                   .ok());
  // The group goes on.
  EXPECT_TRUE(all_reduce(view, ReduceOp::kSum, {.group = group}).ok());
  EXPECT_TRUE(destroy_process_group(group).ok());
}

}  // namespace
}  // namespace distwrap::gpu_test
