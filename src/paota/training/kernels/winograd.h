// Convolutions with 3x3 and 5x5 kernels by a quarter of the multiplications, or less (Winograd, 1980; Lavin and Gray, 2016).
//
// Outputs come in tiles of 4x4, each from 6x6 (3x3 kernel) or 8x8 inputs (5x5). A row of kernel taps and a row of outputs
// are coefficients of polynomials, and a convolution multiplies polynomials: with their values at six or eight points,
// 0, pairs of numbers with either sign, and infinity, that is 36 numbers instead of 144, or 64 instead of 400. For each
// pair of points the products over channels are one matrix product for many tiles. The gradients are the transposed maps.

#pragma once

#include <array>

#include "convolution.h"
#include "tiles.h"

namespace paota {
namespace {

constexpr int kSide = 4;               // of a tile of outputs
constexpr int64_t kTiles = 2 * kTall;  // that a matrix product should have, at least

// The points for a kernel's taps: 0, infinity, and `pairs` numbers with either sign. Numbers and their reciprocals keep
// errors small: within a few roundings for six points, some ten for eight.
template <int taps>
struct Points;
template <>
struct Points<3> {
  static constexpr int pairs = 2, number = 6;
  static constexpr float root[pairs] = {0.70710678f, 1.41421356f}, square[pairs] = {0.5f, 2.0f};
};
template <>
struct Points<5> {
  static constexpr int pairs = 3, number = 8;
  static constexpr float root[pairs] = {0.5f, 1.0f, 2.0f}, square[pairs] = {0.25f, 1.0f, 4.0f};
};

// The polynomial in x^2 with the squares as its zeros, all or all but one: its lowest coefficient first, the last is 1.
template <typename P>
struct Product {
  float coefficient[P::pairs + 1] = {1.0f};
  int degree = 0;

  constexpr explicit Product(int without) {
    for (int k = 0; k < P::pairs; ++k)
      if (k != without) {
        for (int i = ++degree; i >= 0; --i)
          coefficient[i] = (i ? coefficient[i - 1] : 0.0f) - (i < degree ? P::square[k] * coefficient[i] : 0.0f);
      }
  }
};

// 1 / M'(point) of M(x) = x times the product of all x^2 - square, and 1 for infinity.
template <typename P>
constexpr float weight(int point) {
  if (point == P::number - 1) return 1.0f;
  if (point == 0) return 1.0f / Product<P>(-1).coefficient[0];
  const int k = (point - 1) / 2;
  float slope = 2.0f * P::square[k];
  for (int j = 0; j < P::pairs; ++j)
    if (j != k) slope *= P::square[k] - P::square[j];
  return 1.0f / slope;
}

// Numbers of one pair of points before those of the next: a cache line more than their size, which is often a power of
// two, for then the 36 that a tile writes would fall onto the same few lines of the cache.
inline int64_t apart(int64_t size) { return size + 16; }

// The values of a polynomial with n coefficients at the points; at infinity it is the last coefficient.
template <typename P, int n>
struct Values {
  static constexpr int inputs = n, outputs = P::number;
  void operator()(const Vec (&c)[inputs], Vec (&value)[outputs]) const {
    value[0] = c[0];
    for (int k = 0; k < P::pairs; ++k) {
      Vec even = c[n - 1 - (n - 1) % 2], odd = c[n - 1 - n % 2];
      for (int i = n - 3 - (n - 1) % 2; i >= 0; i -= 2) even = even * P::square[k] + c[i];
      for (int i = n - 3 - n % 2; i >= 1; i -= 2) odd = odd * P::square[k] + c[i];
      value[2 * k + 1] = even + P::root[k] * odd;
      value[2 * k + 2] = even - P::root[k] * odd;
    }
    value[outputs - 1] = c[n - 1];
  }
};

// The transposed map: what each of n coefficients adds to a sum of values.
template <typename P, int n>
struct Coefficients {
  static constexpr int inputs = P::number, outputs = n;
  void operator()(const Vec (&value)[inputs], Vec (&c)[outputs]) const {
    for (int i = 0; i < n; ++i) c[i] = Vec{};
    for (int k = 0; k < P::pairs; ++k) {
      Vec even = value[2 * k + 1] + value[2 * k + 2], odd = (value[2 * k + 1] - value[2 * k + 2]) * P::root[k];
      for (int i = 0; i < n; i += 2) {
        c[i] += even, even *= P::square[k];
        if (i + 1 < n) c[i + 1] += odd, odd *= P::square[k];
      }
    }
    c[0] += value[0];
    c[n - 1] += value[inputs - 1];
  }
};

// Inputs, as the values of the polynomials that they are multiplied with want them: the coefficients of
// M(x) / (x - point), and of M(x) for infinity.
template <typename P>
struct Inputs {
  static constexpr int inputs = P::number, outputs = P::number;
  void operator()(const Vec (&x)[inputs], Vec (&value)[outputs]) const {
    constexpr Product<P> all(-1);
    value[0] = x[inputs - 2], value[outputs - 1] = x[inputs - 1];
    for (int i = P::pairs - 1; i >= 0; --i)
      value[0] += all.coefficient[i] * x[2 * i], value[outputs - 1] += all.coefficient[i] * x[2 * i + 1];
    for (int k = 0; k < P::pairs; ++k) {
      const Product<P> others(k);
      Vec even = x[inputs - 2], odd = x[inputs - 3];
      for (int i = P::pairs - 2; i >= 0; --i)
        even += others.coefficient[i] * x[2 * i + 2], odd += others.coefficient[i] * x[2 * i + 1];
      value[2 * k + 1] = even + odd * P::root[k];
      value[2 * k + 2] = even - odd * P::root[k];
    }
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

// A convolution with a kernel of `taps` x `taps` whose channels and outputs are whole vectors.
template <int taps>
class Winograd {
 public:
  using P = Points<taps>;
  static constexpr int kPoints = P::number, kPairs = kPoints * kPoints;
  static_assert(kSide == kPoints + 1 - taps);

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
          both_ways(Values<P, taps>{}, square, value);
        }
        for (int p = 0; p < kPairs; ++p)
          store(to + p * apart(panels() * c_.channels * kPanel) + (o / kPanel * c_.channels + i) * kPanel + o % kPanel,
                value[p / kPoints][p % kPoints] * pair_weight(p));
      }
  }

  // Values [pair of points, tile of all images, channel], of the tiles of one image from `first` on.
  void transform_input(const float* framed, int64_t first, int64_t all, float* to) const {
    each_tile([&](int64_t row, int64_t column, int64_t tile) {
      const int64_t line = (columns_ * kSide + taps - 1) * c_.channels;
      spread(Inputs<P>{}, framed + row * kSide * line + column * kSide * c_.channels, line, c_.channels,
             to + (first + tile) * c_.channels, apart(all * c_.channels));
    });
  }

  // The same of an image of errors [tiles * side, tiles * side, outputs].
  void transform_errors(const float* framed, int64_t first, int64_t all, float* to) const {
    each_tile([&](int64_t row, int64_t column, int64_t tile) {
      const int64_t line = columns_ * kSide * c_.outputs;
      spread(Values<P, kSide>{}, framed + row * kSide * line + column * kSide * c_.outputs, line, c_.outputs,
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
        both_ways(Coefficients<P, kSide>{}, value, out);
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
        value[p / kPoints][p % kPoints] = sum * pair_weight(p);
      }
      both_ways(Coefficients<P, taps>{}, value, taps_);
      for (int t = 0; t < taps * taps; ++t) store(kernel + t * size + i, taps_[t / taps][t % taps]);
    }
  }

 private:
  static float pair_weight(int p) {
    static constexpr auto all = [] {
      std::array<float, kPoints> each{};
      for (int i = 0; i < kPoints; ++i) each[i] = weight<P>(i);
      return each;
    }();
    return all[p / kPoints] * all[p % kPoints];
  }

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
  const int64_t size = w.kPairs * apart(c.channels * c.outputs);
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
