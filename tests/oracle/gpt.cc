// The training of examples/train_gpt.cc in plain loops with gradients by hand:
// no tensors, no library, 64-bit floats, no dropout.
//
//   gpt_oracle START END steps=50 width=32 ... FILE...
//
// START has the parameters before the first step and END those that the
// example saved after the last one. The difference of every parameter is at
// most 1e-8.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <vector>

namespace {

using Vector = std::vector<double>;
using Size = int64_t;

struct Config {
  Size steps = 300, width = 64, layers = 2, heads = 4, context = 64, batch = 8;
  double lr = 3e-3;
};

// y (rows, out) = x (rows, in) times w (out, in) transposed.
void linear(const Vector& x, const double* w, Vector& y, Size rows, Size in,
            Size out) {
  y.assign(static_cast<size_t>(rows * out), 0);
  for (Size r = 0; r < rows; ++r)
    for (Size o = 0; o < out; ++o) {
      double sum = 0;
      for (Size i = 0; i < in; ++i) sum += x[r * in + i] * w[o * in + i];
      y[r * out + o] = sum;
    }
}
// Adds the gradients of x and w.
void linear_backward(const Vector& x, const double* w, const Vector& dy,
                     Vector& dx, double* dw, Size rows, Size in, Size out) {
  for (Size r = 0; r < rows; ++r)
    for (Size o = 0; o < out; ++o) {
      const double g = dy[r * out + o];
      for (Size i = 0; i < in; ++i) {
        dx[r * in + i] += g * w[o * in + i];
        dw[o * in + i] += g * x[r * in + i];
      }
    }
}

void rms_norm(const Vector& x, const double* w, Vector& y, Size rows,
              Size width) {
  y.resize(x.size());
  for (Size r = 0; r < rows; ++r) {
    double squares = 0;
    for (Size i = 0; i < width; ++i)
      squares += x[r * width + i] * x[r * width + i];
    const double scale =
        1 / std::sqrt(squares / static_cast<double>(width) + 1e-6);
    for (Size i = 0; i < width; ++i)
      y[r * width + i] = x[r * width + i] * scale * w[i];
  }
}
void rms_norm_backward(const Vector& x, const double* w, const Vector& dy,
                       Vector& dx, double* dw, Size rows, Size width) {
  for (Size r = 0; r < rows; ++r) {
    double squares = 0;
    for (Size i = 0; i < width; ++i)
      squares += x[r * width + i] * x[r * width + i];
    const auto n = static_cast<double>(width);
    const double scale = 1 / std::sqrt(squares / n + 1e-6);
    double dot = 0;
    for (Size i = 0; i < width; ++i)
      dot += dy[r * width + i] * w[i] * x[r * width + i];
    for (Size i = 0; i < width; ++i) {
      const double xi = x[r * width + i], g = dy[r * width + i];
      dw[i] += g * xi * scale;
      dx[r * width + i] +=
          scale * g * w[i] - scale * scale * scale * xi * dot / n;
    }
  }
}

// The values that a layer keeps for its gradient.
struct Kept {
  Vector x, normed, qkv, weights, mixed, middle, mlp_normed, both, gated;
};

struct LayerParams {
  double *norm, *qkv, *out, *mlp_norm, *up, *down;
};

class Model {
 public:
  Model(const Config& config, const Vector& start)
      : c(config), values(start), grads(start.size()) {
    angles.resize(static_cast<size_t>(c.context * half()));
    for (Size t = 0; t < c.context; ++t)
      for (Size i = 0; i < half(); ++i)
        angles[t * half() + i] =
            static_cast<double>(t) *
            std::exp(static_cast<double>(i) * -2 * std::log(10000.0) /
                     static_cast<double>(2 * half()));
  }
  Size half() const { return c.width / c.heads / 2; }
  // Offsets in the order in which the example makes its parameters.
  LayerParams layer(double* base, Size index) const {
    const Size w = c.width, hidden = 2 * w;
    const Size each = w + 3 * w * w + w * w + w + 2 * hidden * w + w * hidden;
    double* p = base + 256 * w + index * each;
    LayerParams params{};
    const auto take = [&p](Size count) {
      double* const at = p;
      p += count;
      return at;
    };
    params.norm = take(w);
    params.qkv = take(3 * w * w);
    params.out = take(w * w);
    params.mlp_norm = take(w);
    params.up = take(2 * hidden * w);
    params.down = take(w * hidden);
    return params;
  }
  Size last_norm() const { return static_cast<Size>(values.size()) - c.width; }

  // One row of `batch`: bytes has context + 1 entries. Adds the gradients.
  double row(const std::vector<Size>& bytes, double share) {
    const Size t = c.context, w = c.width, hidden = 2 * w;
    double* const p = values.data();
    double* const g = grads.data();
    Vector x(static_cast<size_t>(t * w));
    for (Size i = 0; i < t; ++i)
      for (Size j = 0; j < w; ++j) x[i * w + j] = p[bytes[i] * w + j];
    std::vector<Kept> kept(static_cast<size_t>(c.layers));
    for (Size l = 0; l < c.layers; ++l) {
      const LayerParams q = layer(p, l);
      Kept& k = kept[l];
      k.x = x;
      rms_norm(x, q.norm, k.normed, t, w);
      linear(k.normed, q.qkv, k.qkv, t, w, 3 * w);
      rotate(k.qkv, 1);
      attend(k);
      Vector out;
      linear(k.mixed, q.out, out, t, w, w);
      for (size_t i = 0; i < x.size(); ++i) x[i] += out[i];
      k.middle = x;
      rms_norm(x, q.mlp_norm, k.mlp_normed, t, w);
      linear(k.mlp_normed, q.up, k.both, t, w, 2 * hidden);
      k.gated.resize(static_cast<size_t>(t * hidden));
      for (Size i = 0; i < t; ++i)
        for (Size j = 0; j < hidden; ++j) {
          const double a = k.both[i * 2 * hidden + j];
          k.gated[i * hidden + j] =
              a / (1 + std::exp(-a)) * k.both[i * 2 * hidden + hidden + j];
        }
      linear(k.gated, q.down, out, t, hidden, w);
      for (size_t i = 0; i < x.size(); ++i) x[i] += out[i];
    }
    Vector normed, scores;
    rms_norm(x, p + last_norm(), normed, t, w);
    linear(normed, p, scores, t, w, 256);
    double loss = 0;
    Vector dscores(scores.size());
    for (Size i = 0; i < t; ++i) {
      double top = -INFINITY, sum = 0;
      for (Size j = 0; j < 256; ++j) top = std::max(top, scores[i * 256 + j]);
      for (Size j = 0; j < 256; ++j) sum += std::exp(scores[i * 256 + j] - top);
      const double all = top + std::log(sum);
      loss += share * (all - scores[i * 256 + bytes[i + 1]]);
      for (Size j = 0; j < 256; ++j)
        dscores[i * 256 + j] = share * (std::exp(scores[i * 256 + j] - all) -
                                        (j == bytes[i + 1] ? 1 : 0));
    }
    Vector dnormed(x.size()), dx(x.size());
    linear_backward(normed, p, dscores, dnormed, g, t, w, 256);
    rms_norm_backward(x, p + last_norm(), dnormed, dx, g + last_norm(), t, w);
    for (Size l = c.layers - 1; l >= 0; --l) {
      const LayerParams q = layer(p, l), d = layer(g, l);
      Kept& k = kept[l];
      Vector dgated(k.gated.size()), dboth(k.both.size()), dmlp(x.size());
      linear_backward(k.gated, q.down, dx, dgated, d.down, t, hidden, w);
      for (Size i = 0; i < t; ++i)
        for (Size j = 0; j < hidden; ++j) {
          const Size at = i * 2 * hidden + j;
          const double a = k.both[at], b = k.both[at + hidden];
          const double s = 1 / (1 + std::exp(-a)), dg = dgated[i * hidden + j];
          dboth[at] = dg * b * s * (1 + a * (1 - s));
          dboth[at + hidden] = dg * a * s;
        }
      linear_backward(k.mlp_normed, q.up, dboth, dmlp, d.up, t, w, 2 * hidden);
      rms_norm_backward(k.middle, q.mlp_norm, dmlp, dx, d.mlp_norm, t, w);
      Vector dmixed(x.size()), dqkv(k.qkv.size()), dn(x.size());
      linear_backward(k.mixed, q.out, dx, dmixed, d.out, t, w, w);
      attend_backward(k, dmixed, dqkv);
      rotate(dqkv, -1);
      linear_backward(k.normed, q.qkv, dqkv, dn, d.qkv, t, w, 3 * w);
      rms_norm_backward(k.x, q.norm, dn, dx, d.norm, t, w);
    }
    for (Size i = 0; i < t; ++i)
      for (Size j = 0; j < w; ++j) g[bytes[i] * w + j] += dx[i * w + j];
    return loss;
  }

  void update(Size step) {
    double squares = 0;
    for (const double one : grads) squares += one * one;
    const double length = std::sqrt(squares);
    if (mean.empty()) {
      mean.resize(grads.size());
      variance.resize(grads.size());
    }
    const auto n = static_cast<double>(step + 1);
    for (size_t i = 0; i < grads.size(); ++i) {
      const double one = grads[i] * (length > 1 ? 1 / length : 1);
      mean[i] = 0.9 * mean[i] + 0.1 * one;
      variance[i] = 0.999 * variance[i] + 0.001 * one * one;
      values[i] -= c.lr * 0.01 * values[i];
      values[i] -= c.lr * (mean[i] / (1 - std::pow(0.9, n))) /
                   (std::sqrt(variance[i] / (1 - std::pow(0.999, n))) + 1e-8);
      grads[i] = 0;
    }
  }

  const Config c;
  Vector values, grads, mean, variance, angles;

 private:
  // Queries and keys, each head's halves by the angles of their position.
  void rotate(Vector& qkv, double sign) const {
    const Size w = c.width, head = w / c.heads;
    for (Size t = 0; t < c.context; ++t)
      for (Size part = 0; part < 2; ++part)
        for (Size h = 0; h < c.heads; ++h)
          for (Size i = 0; i < half(); ++i) {
            const double cosine = std::cos(angles[t * half() + i]);
            const double sine = sign * std::sin(angles[t * half() + i]);
            double& a = qkv[t * 3 * w + part * w + h * head + i];
            double& b = qkv[t * 3 * w + part * w + h * head + half() + i];
            const double first = a * cosine - b * sine;
            b = a * sine + b * cosine;
            a = first;
          }
  }
  void attend(Kept& k) const {
    const Size t = c.context, w = c.width, head = w / c.heads;
    const double scale = 1 / std::sqrt(static_cast<double>(head));
    k.weights.assign(static_cast<size_t>(c.heads * t * t), 0);
    k.mixed.assign(static_cast<size_t>(t * w), 0);
    for (Size h = 0; h < c.heads; ++h)
      for (Size i = 0; i < t; ++i) {
        double* const p = &k.weights[(h * t + i) * t];
        double top = -INFINITY, sum = 0;
        for (Size j = 0; j <= i; ++j) {
          double dot = 0;
          for (Size d = 0; d < head; ++d)
            dot += k.qkv[i * 3 * w + h * head + d] *
                   k.qkv[j * 3 * w + w + h * head + d];
          p[j] = dot * scale;
          top = std::max(top, p[j]);
        }
        for (Size j = 0; j <= i; ++j) sum += p[j] = std::exp(p[j] - top);
        for (Size j = 0; j <= i; ++j) {
          p[j] /= sum;
          for (Size d = 0; d < head; ++d)
            k.mixed[i * w + h * head + d] +=
                p[j] * k.qkv[j * 3 * w + 2 * w + h * head + d];
        }
      }
  }
  void attend_backward(const Kept& k, const Vector& dmixed,
                       Vector& dqkv) const {
    const Size t = c.context, w = c.width, head = w / c.heads;
    const double scale = 1 / std::sqrt(static_cast<double>(head));
    Vector dp(static_cast<size_t>(t));
    for (Size h = 0; h < c.heads; ++h)
      for (Size i = 0; i < t; ++i) {
        const double* const p = &k.weights[(h * t + i) * t];
        double dot = 0;
        for (Size j = 0; j <= i; ++j) {
          dp[j] = 0;
          for (Size d = 0; d < head; ++d) {
            const double g = dmixed[i * w + h * head + d];
            dp[j] += g * k.qkv[j * 3 * w + 2 * w + h * head + d];
            dqkv[j * 3 * w + 2 * w + h * head + d] += p[j] * g;
          }
          dot += dp[j] * p[j];
        }
        for (Size j = 0; j <= i; ++j) {
          const double ds = p[j] * (dp[j] - dot) * scale;
          for (Size d = 0; d < head; ++d) {
            dqkv[i * 3 * w + h * head + d] +=
                ds * k.qkv[j * 3 * w + w + h * head + d];
            dqkv[j * 3 * w + w + h * head + d] +=
                ds * k.qkv[i * 3 * w + h * head + d];
          }
        }
      }
  }
};

std::string read(const char* path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}
Vector doubles(const char* path) {
  const std::string bytes = read(path);
  Vector values(bytes.size() / 8);
  bytes.copy(reinterpret_cast<char*>(values.data()), values.size() * 8);
  return values;
}

}  // namespace

int main(int argc, char** argv) {
  Config c;
  const std::map<std::string, Size*> names = {
      {"steps", &c.steps}, {"width", &c.width},     {"layers", &c.layers},
      {"heads", &c.heads}, {"context", &c.context}, {"batch", &c.batch}};
  std::string text;
  for (int i = 3; i < argc; ++i) {
    const std::string argument = argv[i];
    const size_t sign = argument.find('=');
    if (sign == std::string::npos) {
      text += read(argv[i]);
    } else if (names.contains(argument.substr(0, sign))) {
      *names.at(argument.substr(0, sign)) =
          std::stoll(argument.substr(sign + 1));
    }
  }
  Model model(c, doubles(argv[1]));
  const Vector wanted = doubles(argv[2]);
  double loss = 0;
  for (Size step = 0; step < c.steps; ++step) {
    const Size places = static_cast<Size>(text.size()) - c.context;
    loss = 0;
    for (Size row = 0; row < c.batch; ++row) {
      const Size first = (step * c.batch + row) * 7919 % places;
      std::vector<Size> bytes;
      for (Size i = 0; i <= c.context; ++i)
        bytes.push_back(static_cast<unsigned char>(text[first + i]));
      loss += model.row(bytes, 1 / static_cast<double>(c.batch * c.context));
    }
    model.update(step);
  }
  double most = 0;
  for (size_t i = 0; i < model.values.size(); ++i)
    most = std::max(most, std::fabs(model.values[i] - wanted.at(i)));
  std::printf("%zu parameters, loss %.6f, largest difference %.3g\n",
              model.values.size(), loss, most);
  return model.values.size() == wanted.size() && most <= 1e-8 ? 0 : 1;
}
