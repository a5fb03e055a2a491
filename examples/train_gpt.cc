// A small GPT that learns text byte by byte: embedding, attention with rotary
// positions, RMS norms, a gated MLP, dropout, cross entropy, clipping, AdamW.
//
//   train_gpt [NAME=VALUE...] FILE...
//   distwrap run -n 2 train_gpt steps=300 docs/*.md   # both average gradients
//
// Names: steps, width, layers, heads, context, batch, seed, dropout, lr, f64
// (1: 64-bit floats), save (a file that gets the parameters as doubles).
#include <distwrap/autograd.h>
#include <distwrap/distwrap.h>
#include <distwrap/throwing.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <vector>

namespace dw = distwrap;
using namespace dw::throwing;  // operators and their signs
using dw::Scalar;
using dw::Tensor;

struct Config {
  int64_t steps = 300, width = 64, layers = 2, heads = 4, context = 64,
          batch = 16, seed = 1;
  double dropout = 0.1, lr = 3e-3;
  dw::DType dtype = dw::DType::kF32;
  std::string save = {};
};

class Gpt {
 public:
  explicit Gpt(const Config& config) : c_(config) {
    const int64_t w = c_.width, hidden = 2 * w, head = w / c_.heads;
    embed_ = make({256, w}, 0.02);
    for (int64_t i = 0; i < c_.layers; ++i) {
      layers_.push_back({ones({w}), make({3 * w, w}, 0.02), make({w, w}, 0.02),
                         ones({w}), make({2 * hidden, w}, 0.02),
                         make({w, hidden}, 0.02)});
    }
    last_norm_ = ones({w});
    // Angles of the rotary positions: context by half of a head.
    const Tensor half = dw::throwing::arange(0, head / 2, 1, c_.dtype);
    const Tensor angle =
        unsqueeze(dw::throwing::arange(0, c_.context, 1, c_.dtype), 1) *
        exp(half * (-2 * std::log(10000.0) / static_cast<double>(head)));
    cos_ = cos(angle);
    sin_ = sin(angle);
  }

  // (batch, context) bytes give (batch, context, 256) scores.
  Tensor forward(const Tensor& bytes) const {
    Tensor x = drop(embedding(embed_, bytes));
    for (const Layer& layer : layers_) {
      x = x + drop(attend(layer, rms_norm(x, &layer.norm)));
      x = x + drop(mlp(layer, rms_norm(x, &layer.mlp_norm)));
    }
    return linear(rms_norm(x, &last_norm_), embed_);
  }
  const std::vector<Tensor>& parameters() const { return parameters_; }

 private:
  struct Layer {
    Tensor norm, qkv, out, mlp_norm, up, down;
  };

  Tensor keep(Tensor parameter) {
    check(parameter.set_requires_grad());
    parameters_.push_back(parameter);
    return parameter;
  }
  Tensor make(std::vector<int64_t> sizes, double scale) {
    return keep(randn(sizes, c_.dtype) * scale);
  }
  Tensor ones(std::vector<int64_t> sizes) {
    return keep(dw::throwing::ones(sizes, c_.dtype));
  }
  Tensor drop(const Tensor& x) const {
    return c_.dropout > 0 ? dropout(x, c_.dropout) : x;
  }
  // Turns the pairs (i, i + half) of each head by the angle of its position.
  Tensor rotate(const Tensor& x) const {
    const int64_t half = x.size(-1) / 2;
    const std::vector<Tensor> parts = split(x, {half, half}, -1);
    return cat(
        {parts[0] * cos_ - parts[1] * sin_, parts[0] * sin_ + parts[1] * cos_},
        -1);
  }
  Tensor attend(const Layer& layer, const Tensor& x) const {
    const int64_t b = x.size(0), t = x.size(1), w = c_.width;
    const Tensor heads =
        permute(view(linear(x, layer.qkv), {b, t, 3, c_.heads, w / c_.heads}),
                {2, 0, 3, 1, 4});
    const Tensor mixed =
        attention(rotate(select(heads, 0, 0)), rotate(select(heads, 0, 1)),
                  select(heads, 0, 2), nullptr, true);
    return linear(reshape(permute(mixed, {0, 2, 1, 3}), {b, t, w}), layer.out);
  }
  static Tensor mlp(const Layer& layer, const Tensor& x) {
    const Tensor both = linear(x, layer.up);
    const int64_t hidden = both.size(-1) / 2;
    const std::vector<Tensor> parts = split(both, {hidden, hidden}, -1);
    return linear(silu(parts[0]) * parts[1], layer.down);
  }

  const Config c_;
  std::vector<Tensor> parameters_;
  Tensor embed_, last_norm_, cos_, sin_;
  std::vector<Layer> layers_;
};

// Scales the gradients down to a common length of 1 at most.
static void clip(const std::vector<Tensor>& parameters) {
  double squares = 0;
  for (const Tensor& p : parameters) {
    squares += unwrap(sum(p.grad() * p.grad()).item()).to<double>();
  }
  const double length = std::sqrt(squares);
  if (length <= 1) return;
  for (const Tensor& p : parameters) {
    mul_(p.grad(), full({}, 1 / length, p.dtype()));
  }
}

// The bytes of a step: each row starts elsewhere in the text. Inputs are the
// first `context` of them, targets the bytes after those.
static std::vector<int64_t> pick(const std::string& text, const Config& c,
                                 int64_t step, int64_t rank, int64_t ranks) {
  std::vector<int64_t> bytes;
  const int64_t places = static_cast<int64_t>(text.size()) - c.context;
  for (int64_t row = 0; row < c.batch; ++row) {
    const int64_t first =
        ((step * ranks + rank) * c.batch + row) * 7919 % places;
    for (int64_t i = 0; i <= c.context; ++i) {
      bytes.push_back(
          static_cast<unsigned char>(text[static_cast<size_t>(first + i)]));
    }
  }
  return bytes;
}

static void train(const Config& c, const std::string& text) {
  // Ranks that `distwrap run` started train together.
  const bool together = std::getenv("DISTWRAP_WORLD_SIZE") != nullptr;
  if (together) check(dw::init_process_group().status());
  const int rank = together ? dw::get_rank() : 0;
  const int ranks = together ? dw::get_world_size() : 1;
  dw::manual_seed(static_cast<uint64_t>(c.seed));
  const Gpt gpt(c);
  // Each rank drops other elements.
  dw::manual_seed(static_cast<uint64_t>(c.seed + 1000 * (rank + 1)));
  const std::vector<Tensor>& parameters = gpt.parameters();
  std::vector<Tensor> means, variances;
  for (const Tensor& p : parameters) {
    means.push_back(full_like(p, 0));
    variances.push_back(full_like(p, 0));
  }
  const auto start = std::chrono::steady_clock::now();
  for (int64_t step = 0; step < c.steps; ++step) {
    std::vector<int64_t> bytes = pick(text, c, step, rank, ranks);
    const int64_t sizes[] = {c.batch, c.context + 1};
    const Tensor rows =
        unwrap(Tensor::of_view(dw::TensorView(bytes.data(), sizes)));
    const Tensor scores = gpt.forward(narrow(rows, 1, 0, c.context));
    const Tensor loss = cross_entropy(
        reshape(scores, {c.batch * c.context, 256}),
        reshape(narrow(rows, 1, 1, c.context), {c.batch * c.context}));
    for (const Tensor& p : parameters) p.set_grad({});
    check(dw::autograd::backward({loss}));
    const dw::autograd::NoGradGuard no_grad;
    if (together) {
      for (const Tensor& p : parameters) {
        check(dw::all_reduce(p.grad(), dw::ReduceOp::kAvg).status());
      }
    }
    clip(parameters);
    for (size_t i = 0; i < parameters.size(); ++i) {
      adamw_(parameters[i], parameters[i].grad(), means[i], variances[i],
             step + 1, c.lr);
    }
    if (rank == 0 && (step % 50 == 0 || step + 1 == c.steps)) {
      const std::chrono::duration<double> spent =
          std::chrono::steady_clock::now() - start;
      std::printf("step %lld: %.4f nats a byte, %.1f ms a step\n",
                  static_cast<long long>(step),
                  unwrap(loss.item()).to<double>(),
                  spent.count() * 1e3 / static_cast<double>(step + 1));
    }
  }
  if (!c.save.empty() && rank == 0) {
    std::ofstream file(c.save, std::ios::binary);
    for (const Tensor& p : parameters) {
      const Tensor doubles = detach(to(p, dw::DType::kF64));
      file.write(static_cast<const char*>(doubles.data()),
                 static_cast<std::streamsize>(doubles.count() * 8));
    }
  }
  if (together) check(dw::destroy_process_group());
}

int main(int argc, char** argv) try {
  Config c;
  const std::map<std::string, int64_t*> whole = {
      {"steps", &c.steps},    {"width", &c.width}, {"layers", &c.layers},
      {"heads", &c.heads},    {"batch", &c.batch}, {"seed", &c.seed},
      {"context", &c.context}};
  std::string text;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    const size_t sign = argument.find('=');
    const std::string name = argument.substr(0, sign);
    if (sign == std::string::npos) {
      std::ifstream file(argument, std::ios::binary);
      text.append(std::istreambuf_iterator<char>(file), {});
    } else if (const auto found = whole.find(name); found != whole.end()) {
      *found->second = std::stoll(argument.substr(sign + 1));
    } else if (name == "dropout" || name == "lr") {
      (name == "lr" ? c.lr : c.dropout) = std::stod(argument.substr(sign + 1));
    } else if (name == "f64") {
      c.dtype = dw::DType::kF64;
    } else if (name == "save") {
      c.save = argument.substr(sign + 1);
    } else {
      std::fprintf(stderr, "train_gpt: no setting is named '%s'\n",
                   name.c_str());
      return 2;
    }
  }
  if (static_cast<int64_t>(text.size()) <= c.context + 1) {
    std::fprintf(stderr,
                 "train_gpt: the files have %zu bytes; name files with "
                 "more than %lld\n",
                 text.size(), static_cast<long long>(c.context + 1));
    return 2;
  }
  train(c, text);
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "train_gpt: %s\n", error.what());
  return 1;
}
