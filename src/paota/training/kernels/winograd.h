// Convolutions with 3x3 and 5x5 kernels by a third of the multiplications (Winograd, 1980; Lavin and Gray, 2016).
//
// Outputs come in tiles of 4x4 (3x3 kernel) or 2x2 (5x5), each from 6x6 inputs. A row of kernel taps and a row of outputs
// are coefficients of polynomials, and a convolution multiplies polynomials: with their values at the six points
// 0, a, -a, b, -b and infinity that is 36 numbers instead of 144 or 100. For each pair of points the products over
// channels are one matrix product for many tiles. The gradients are the transposed maps.

#pragma once

#include "convolution.h"
#include "tiles.h"

namespace paota {
namespace {

constexpr int kPoints = 6, kPairs = kPoints * kPoints;
constexpr int64_t kTiles = 2 * kTall;  // that a matrix product should have, at least
constexpr float a = 0.70710678f, b = 1.41421356f;  // reciprocals of each other: errors stay within a few roundings
constexpr float a2 = 0.5f, b2 = 2.0f, a2b2 = 1.0f, sum2 = 2.5f;  // squares, their product and sum
// 1 / M'(point) of M(x) = x (x^2 - a^2) (x^2 - b^2), and 1 for infinity.
constexpr float kWeight[kPoints] = {1 / a2b2, 1 / (2 * a2 * (a2 - b2)), 1 / (2 * a2 * (a2 - b2)),
                                    1 / (2 * b2 * (b2 - a2)), 1 / (2 * b2 * (b2 - a2)), 1};

// Numbers of one pair of points before those of the next: a cache line more than their size, which is often a power of
// two, for then the 36 that a tile writes would fall onto the same few lines of the cache.
inline int64_t apart(int64_t size) { return size + 16; }

// The values of a polynomial with n coefficients at the six points; at infinity it is the last coefficient.
template <int n>
struct Values {
  static constexpr int inputs = n, outputs = kPoints;
  void operator()(const Vec (&c)[n], Vec (&value)[kPoints]) const {
    Vec even_a = c[n - 1 - (n - 1) % 2], even_b = even_a, odd_a = c[n - 1 - n % 2], odd_b = odd_a;
    for (int i = n - 3 - (n - 1) % 2; i >= 0; i -= 2) even_a = even_a * a2 + c[i], even_b = even_b * b2 + c[i];
    for (int i = n - 3 - n % 2; i >= 1; i -= 2) odd_a = odd_a * a2 + c[i], odd_b = odd_b * b2 + c[i];
    value[0] = c[0];
    value[1] = even_a + a * odd_a;
    value[2] = even_a - a * odd_a;
    value[3] = even_b + b * odd_b;
    value[4] = even_b - b * odd_b;
    value[5] = c[n - 1];
  }
};

// The transposed map: what each of n coefficients adds to a sum of values.
template <int n>
struct Coefficients {
  static constexpr int inputs = kPoints, outputs = n;
  void operator()(const Vec (&value)[kPoints], Vec (&c)[n]) const {
    Vec even_a = value[1] + value[2], even_b = value[3] + value[4];
    Vec odd_a = (value[1] - value[2]) * a, odd_b = (value[3] - value[4]) * b;
    for (int i = 0; i < n; i += 2) {
      c[i] = even_a + even_b;
      if (i + 1 < n) c[i + 1] = odd_a + odd_b;
      even_a *= a2, even_b *= b2, odd_a *= a2, odd_b *= b2;
    }
    c[0] += value[0];
    c[n - 1] += value[5];
  }
};

// Six inputs, as the values of the polynomials that they are multiplied with want them: the coefficients of
// M(x) / (x - point), and of M(x) for infinity.
struct Inputs {
  static constexpr int inputs = kPoints, outputs = kPoints;
  void operator()(const Vec (&x)[kPoints], Vec (&value)[kPoints]) const {
    const Vec even_a = x[4] - b2 * x[2], odd_a = (x[3] - b2 * x[1]) * a;
    const Vec even_b = x[4] - a2 * x[2], odd_b = (x[3] - a2 * x[1]) * b;
    value[0] = (a2b2 * x[0] - sum2 * x[2]) + x[4];
    value[1] = even_a + odd_a;
    value[2] = even_a - odd_a;
    value[3] = even_b + odd_b;
    value[4] = even_b - odd_b;
    value[5] = (a2b2 * x[1] - sum2 * x[3]) + x[5];
  }
};

// A map of rows, applied to the columns and then to the rows of a square.
template <typename Map>
inline void both_ways(const Map& map, const Vec (&square)[Map::inputs][Map::inputs],
                      Vec (&result)[Map::outputs][Map::outputs]) {
  Vec half[Map::inputs][Map::outputs];  // [column][row]
  for (int j = 0; j < Map::inputs; ++j) {
    Vec column[Map::inputs];
    for (int i = 0; i < Map::inputs; ++i) column[i] = square[i][j];
    map(column, half[j]);
  }
  for (int i = 0; i < Map::outputs; ++i) {
    Vec row[Map::inputs];
    for (int j = 0; j < Map::inputs; ++j) row[j] = half[j][i];
    map(row, result[i]);
  }
}

inline float weight(int i, int j) { return kWeight[i] * kWeight[j]; }

// A convolution with a kernel of `taps` x `taps` whose channels and outputs are whole vectors.
template <int taps>
class Winograd {
 public:
  static constexpr int kSide = kPoints + 1 - taps;  // of a tile of outputs

  explicit Winograd(const Convolution& c)
      : c_(c), rows_(ceil_div(c.height.output, kSide)), columns_(ceil_div(c.width.output, kSide)) {}

  int64_t tiles() const { return rows_ * columns_; }  // of an image
  int64_t images_at_once() const { return std::min(c_.images, ceil_div(kTiles, tiles())); }

  Frame frame() const {  // what all tiles read of an image
    return {rows_ * kSide + taps - 1, columns_ * kSide + taps - 1, c_.channels, c_.height.before, c_.width.before,
            c_.height.input, c_.width.input};
  }

  Frame output_frame() const {  // outputs, in whole tiles
    return {rows_ * kSide, columns_ * kSide, c_.outputs, 0, 0, c_.height.output, c_.width.output};
  }

  int64_t kernel_size() const { return kPairs * apart(panels() * c_.channels * kPanel); }
  int64_t input_size(int64_t images) const { return kPairs * apart(images * tiles() * c_.channels); }
  int64_t output_size(int64_t images) const { return kPairs * apart(images * tiles() * c_.outputs); }

  // The kernel's values: for each pair of points panels of output channels, in each a row for every input channel.
  void transform_kernel(const float* kernel, float* to) const {
    for (int64_t i = 0; i < c_.channels; ++i)
      for (int64_t o = 0; o < panels() * kPanel; o += kLanes) {
        Vec square[taps][taps], value[kPoints][kPoints] = {};
        if (o < c_.outputs) {
          for (int t = 0; t < taps; ++t)
            for (int u = 0; u < taps; ++u) square[t][u] = load(kernel + ((t * taps + u) * c_.channels + i) * c_.outputs + o);
          both_ways(Values<taps>{}, square, value);
        }
        for (int p = 0; p < kPairs; ++p)
          store(to + p * apart(panels() * c_.channels * kPanel) + (o / kPanel * c_.channels + i) * kPanel + o % kPanel,
                value[p / kPoints][p % kPoints] * weight(p / kPoints, p % kPoints));
      }
  }

  // Values [pair of points, tile of all images, channel], of the tiles of one image from `first` on.
  void transform_input(const float* framed, int64_t first, int64_t all, float* to) const {
    each_tile([&](int64_t row, int64_t column, int64_t tile) {
      const int64_t line = (columns_ * kSide + taps - 1) * c_.channels;
      spread(Inputs{}, framed + row * kSide * line + column * kSide * c_.channels, line, c_.channels,
             to + (first + tile) * c_.channels, apart(all * c_.channels));
    });
  }

  // The same of an image of errors [tiles * side, tiles * side, outputs].
  void transform_errors(const float* framed, int64_t first, int64_t all, float* to) const {
    each_tile([&](int64_t row, int64_t column, int64_t tile) {
      const int64_t line = columns_ * kSide * c_.outputs;
      spread(Values<kSide>{}, framed + row * kSide * line + column * kSide * c_.outputs, line, c_.outputs,
             to + (first + tile) * c_.outputs, apart(all * c_.outputs));
    });
  }

  // y's values of `all` tiles.
  void multiply(const float* kernel, const float* input, int64_t all, float* to) const {
    const std::vector<Run> run{{0, c_.channels}};
    for (int64_t p = 0; p < kPairs; ++p)
      for (int64_t o = 0; o < c_.outputs; o += kPanel)
        products(run, input + p * apart(all * c_.channels), c_.channels, all,
                 kernel + p * apart(panels() * c_.channels * kPanel) + o / kPanel * c_.channels * kPanel,
                 to + p * apart(all * c_.outputs) + o, c_.outputs, std::min(kPanel, c_.outputs - o));
  }

  // Adds the products of all tiles to the gradient of the kernel's values [pair of points, channel, output].
  void add_gradient(const float* input, const float* errors, int64_t all, float* to) const {
    for (int64_t p = 0; p < kPairs; ++p)
      outer_products({1, 0, all, c_.channels}, input + p * apart(all * c_.channels), c_.channels,
                     errors + p * apart(all * c_.outputs), c_.outputs, to + p * apart(c_.channels * c_.outputs));
  }

  // One image of y from the values of its tiles, which begin at `first`.
  void transform_output(const float* values, int64_t first, int64_t all, float* y) const {
    each_tile([&](int64_t row, int64_t column, int64_t tile) {
      const int64_t height = std::min<int64_t>(kSide, c_.height.output - row * kSide);
      const int64_t width = std::min<int64_t>(kSide, c_.width.output - column * kSide);
      for (int64_t o = 0; o < c_.outputs; o += kLanes) {
        Vec value[kPoints][kPoints], out[kSide][kSide];
        for (int p = 0; p < kPairs; ++p)
          value[p / kPoints][p % kPoints] = load(values + p * apart(all * c_.outputs) + (first + tile) * c_.outputs + o);
        both_ways(Coefficients<kSide>{}, value, out);
        for (int64_t i = 0; i < height; ++i)
          for (int64_t j = 0; j < width; ++j)
            store(y + ((row * kSide + i) * c_.width.output + column * kSide + j) * c_.outputs + o, out[i][j]);
      }
    });
  }

  // The kernel's gradient from that of its values, summed over `groups` that lie behind each other.
  void transform_gradient(const float* sums, int64_t groups, float* kernel) const {
    const int64_t size = c_.channels * c_.outputs;
    for (int64_t i = 0; i < size; i += kLanes) {
      Vec value[kPoints][kPoints], taps_[taps][taps];
      for (int p = 0; p < kPairs; ++p) {
        Vec sum = load(sums + p * apart(size) + i);
        for (int64_t group = 1; group < groups; ++group) sum += load(sums + (group * kPairs + p) * apart(size) + i);
        value[p / kPoints][p % kPoints] = sum * weight(p / kPoints, p % kPoints);
      }
      both_ways(Coefficients<taps>{}, value, taps_);
      for (int t = 0; t < taps * taps; ++t) store(kernel + t * size + i, taps_[t / taps][t % taps]);
    }
  }

 private:
  int64_t panels() const { return ceil_div(c_.outputs, kPanel); }

  template <typename F>
  void each_tile(const F& f) const {
    for (int64_t row = 0; row < rows_; ++row)
      for (int64_t column = 0; column < columns_; ++column) f(row, column, row * columns_ + column);
  }

  // A square of pixels, rows `line` numbers apart, to its values, `step` numbers apart.
  template <typename Map>
  static void spread(const Map& map, const float* from, int64_t line, int64_t channels, float* to, int64_t step) {
    for (int64_t i = 0; i < channels; i += kLanes) {
      Vec square[Map::inputs][Map::inputs], value[kPoints][kPoints];
      for (int t = 0; t < Map::inputs; ++t)
        for (int u = 0; u < Map::inputs; ++u) square[t][u] = load(from + t * line + u * channels + i);
      both_ways(map, square, value);
      for (int p = 0; p < kPairs; ++p) store(to + p * step + i, value[p / kPoints][p % kPoints]);
    }
  }

  const Convolution& c_;
  int64_t rows_, columns_;
};

// The side of the kernel if `Winograd` can do it, else 0.
inline int64_t winograd_taps(const Convolution& c) {
  const auto plain = [](const Axis& axis) { return axis.stride == 1 && axis.dilation == 1 && axis.spread == 1; };
  const int64_t taps = c.height.taps;
  const bool square = taps == c.width.taps && (taps == 3 || taps == 5);
  return square && plain(c.height) && plain(c.width) && c.channels % kLanes == 0 && c.outputs % kLanes == 0 ? taps : 0;
}

template <int taps>
void convolve_by_winograd(const Threads& pool, const Convolution& c, const float* x, const float* kernel, float* y) {
  const Winograd<taps> w(c);
  const int64_t at_once = w.images_at_once();
  Buffer transformed(w.kernel_size());
  w.transform_kernel(kernel, transformed);
  parallel_for(pool, ceil_div(c.images, at_once), [&] {
    return [&, framed = std::make_unique<FramedImage>(w.frame()),
            input = std::make_unique<Buffer>(w.input_size(at_once)),
            values = std::make_unique<Buffer>(w.output_size(at_once))](int64_t part) {
      const int64_t begin = part * at_once, end = std::min(c.images, begin + at_once), all = (end - begin) * w.tiles();
      for (int64_t image = begin; image < end; ++image)
        w.transform_input(framed->fill(x + image * c.height.input * c.width.input * c.channels),
                          (image - begin) * w.tiles(), all, *input);
      w.multiply(transformed, *input, all, *values);
      for (int64_t image = begin; image < end; ++image)
        w.transform_output(*values, (image - begin) * w.tiles(), all,
                           y + image * c.height.output * c.width.output * c.outputs);
    };
  });
}

template <int taps>
void correlate_by_winograd(const Threads& pool, const Convolution& c, const float* x, const float* dy, float* kernel) {
  const Winograd<taps> w(c);
  const int64_t at_once = w.images_at_once(), groups = std::min(kGroups / 2, c.images);
  const int64_t size = kPairs * apart(c.channels * c.outputs);
  Buffer sums(groups * size);
  parallel_for(pool, groups, [&] {
    return [&, framed = std::make_unique<FramedImage>(w.frame()),
            framed_errors = std::make_unique<FramedImage>(w.output_frame()),
            input = std::make_unique<Buffer>(w.input_size(at_once)),
            errors = std::make_unique<Buffer>(w.output_size(at_once))](int64_t group) {
      float* sum = sums + group * size;
      std::fill_n(sum, size, 0.0f);
      const int64_t stop = c.images * (group + 1) / groups;
      for (int64_t begin = c.images * group / groups, end; begin < stop; begin = end) {
        end = std::min(stop, begin + at_once);
        const int64_t all = (end - begin) * w.tiles();
        for (int64_t image = begin; image < end; ++image) {
          const int64_t first = (image - begin) * w.tiles();
          w.transform_input(framed->fill(x + image * c.height.input * c.width.input * c.channels), first, all, *input);
          w.transform_errors(framed_errors->fill(dy + image * c.height.output * c.width.output * c.outputs), first, all,
                             *errors);
        }
        w.add_gradient(*input, *errors, all, sum);
      }
    };
  });
  w.transform_gradient(sums, groups, kernel);
}

}  // namespace
}  // namespace paota
