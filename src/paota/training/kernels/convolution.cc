// Convolutions of images, and their kernels' gradients, without a matrix of patches: operands go from the cache to the
// registers as they lie.
//
// A tile of sums lives in registers while all products that belong to it are added: 14 neighbouring outputs of a row
// times 32 output channels, or for the gradient 14 input channels times 32 output channels. One operand is loaded as
// vectors of output channels, the other one number at a time, at distances that the compiler knows.
// Every output is summed by one thread in one order, and partial sums of a gradient belong to fixed groups of images: the
// bits depend neither on the number of threads nor, forwards, on the company of other images.
//
// Arithmetic is plain float32 with GCC/Clang vector extensions, which compile for any processor.

#include "convolution.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <new>
#include <type_traits>
#include <vector>

namespace paota {
namespace {

#if defined(__AVX512F__)
constexpr int kLanes = 16;
constexpr int kTall = 14;  // 14 x 2 sums, 2 vectors and a number: 31 of 32 registers
#elif defined(__AVX2__)
constexpr int kLanes = 8;
constexpr int kTall = 6;
#elif defined(__aarch64__)
constexpr int kLanes = 4;
constexpr int kTall = 14;
#else
constexpr int kLanes = 4;
constexpr int kTall = 6;
#endif
constexpr int kWide = 2;                   // vectors
constexpr int64_t kPanel = kWide * kLanes;  // output channels of a tile
constexpr int64_t kGroups = 8;             // of images, for the gradient

typedef float Vec __attribute__((vector_size(4 * kLanes)));
typedef float Unaligned __attribute__((vector_size(4 * kLanes), aligned(4), may_alias));

inline Vec load(const float* from) { return *reinterpret_cast<const Unaligned*>(from); }
inline Vec splat(float x) { return x - Vec{}; }  // x + 0 would be a sum: of -0 it makes 0
inline int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
inline int64_t floor_div(int64_t a, int64_t b) { return a >= 0 ? a / b : -ceil_div(-a, b); }

class Buffer {  // floats on a cache line of their own
 public:
  explicit Buffer(int64_t size) : data_(static_cast<float*>(operator new(size * sizeof(float), std::align_val_t{64}))) {}
  ~Buffer() { operator delete(data_, std::align_val_t{64}); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  operator float*() const { return data_; }

 private:
  float* data_;
};

// The outputs p = first + spread * m of an axis: they meet tap q = tap + spread * t at the padded input's place
// m * stride + t * dilation + place.
struct Phase {
  int64_t first, outputs, tap, taps, place;
};

int64_t padding(const Axis& a) { return floor_div(a.before, a.spread); }

int64_t padded_size(const Axis& a) {
  const int64_t last = (a.output - 1) * a.stride + (a.taps - 1) * a.dilation - a.before;
  return std::max<int64_t>(1, floor_div(last, a.spread) + padding(a) + 1);
}

std::vector<Phase> phases(const Axis& a) {
  std::vector<Phase> all;
  for (int64_t first = 0; first < std::min(a.spread, a.output); ++first) {
    const int64_t tap = a.before - first - a.spread * floor_div(a.before - first, a.spread);
    all.push_back({first, ceil_div(a.output - first, a.spread), tap, ceil_div(std::max<int64_t>(a.taps - tap, 0), a.spread),
                   (first + tap - a.before) / a.spread + padding(a)});
  }
  return all;
}

// One image with its zeros around it, [padded height, padded width, channels].
class PaddedImage {
 public:
  explicit PaddedImage(const Convolution& c)
      : c_(c), width_(padded_size(c.width)), height_(padded_size(c.height)), data_(height_ * width_ * c.channels) {
    std::fill_n((float*)data_, height_ * width_ * c.channels, 0.0f);
  }

  const float* fill(const float* image) {
    const int64_t top = padding(c_.height), left = padding(c_.width);
    const int64_t begin = std::max<int64_t>(0, -left), end = std::min(c_.width.input, width_ - left);
    for (int64_t i = std::max<int64_t>(0, -top); i < std::min(c_.height.input, height_ - top) && begin < end; ++i)
      std::memcpy(data_ + ((i + top) * width_ + begin + left) * c_.channels,
                  image + (i * c_.width.input + begin) * c_.channels, (end - begin) * c_.channels * sizeof(float));
    return data_;
  }

  int64_t row() const { return width_ * c_.channels; }

 private:
  const Convolution& c_;
  int64_t width_, height_;
  Buffer data_;
};

// Calls f(std::integral_constant<int, n>{}) with a number that is known only now, 1 <= n <= most.
template <int most, typename F>
inline void with_constant(int64_t n, const F& f) {
  if constexpr (most > 1)
    if (n < most) return with_constant<most - 1>(n, f);
  f(std::integral_constant<int, most>{});
}

// Cuts `size` into the fewest parts of at most `most`, as even as can be, and calls f(begin, part) for each.
template <typename F>
inline void evenly(int64_t size, int64_t most, const F& f) {
  const int64_t parts = ceil_div(size, most);
  for (int64_t i = 0; i < parts; ++i) {
    const int64_t begin = size * i / parts;
    f(begin, size * (i + 1) / parts - begin);
  }
}

// ----------------------------------------------------------------------------------------------------------- forwards

struct Run {  // of numbers that lie side by side in the padded image, and meet rows of the kernel one after the other
  int64_t offset, length;
};

// The kernel for the outputs of one phase of each axis: panels of output channels, in each the rows that its runs meet.
struct PackedPhase {
  Phase height, width;
  std::vector<Run> runs;
  std::unique_ptr<Buffer> rows;
  int64_t panel_size;
};

PackedPhase pack(const Convolution& c, const Phase& height, const Phase& width, int64_t padded_row, const float* kernel) {
  PackedPhase packed{height, width, {}, nullptr, height.taps * width.taps * c.channels * kPanel};
  const bool joined = c.width.dilation == 1;  // neighbouring taps meet neighbouring pixels
  for (int64_t t = 0; t < height.taps; ++t)
    for (int64_t u = 0; u < (joined ? std::min<int64_t>(width.taps, 1) : width.taps); ++u)
      packed.runs.push_back({t * c.height.dilation * padded_row + u * c.width.dilation * c.channels,
                             (joined ? width.taps : 1) * c.channels});
  const int64_t panels = ceil_div(c.outputs, kPanel);
  packed.rows = std::make_unique<Buffer>(std::max<int64_t>(panels * packed.panel_size, 1));
  float* to = *packed.rows;
  for (int64_t panel = 0; panel < panels; ++panel)
    for (int64_t t = 0; t < height.taps; ++t)
      for (int64_t u = 0; u < width.taps; ++u) {
        const int64_t q = (height.tap + t * c.height.spread) * c.width.taps + width.tap + u * c.width.spread;
        for (int64_t i = 0; i < c.channels; ++i, to += kPanel) {
          const int64_t n = std::min(kPanel, c.outputs - panel * kPanel);
          std::copy_n(kernel + (q * c.channels + i) * c.outputs + panel * kPanel, n, to);
          std::fill_n(to + n, kPanel - n, 0.0f);
        }
      }
  return packed;
}

// `positions` outputs of a row, `step` numbers apart in the padded image, times `vectors` of output channels.
template <int positions, int vectors>
inline void tile(const std::vector<Run>& runs, const float* x, int64_t step, const float* rows, float* y, int64_t y_step,
                 int64_t channels) {
  Vec sum[positions][vectors] = {};
  for (const Run& run : runs) {
    const float* from[(positions + 2) / 3];  // addresses are a pointer plus 0, 1 or 2 steps: all fit into registers
    for (int i = 0; i < (positions + 2) / 3; ++i) from[i] = x + run.offset + 3 * i * step;
    for (int64_t j = 0; j < run.length; ++j, rows += kPanel) {
      Vec row[vectors];
      for (int v = 0; v < vectors; ++v) row[v] = *reinterpret_cast<const Vec*>(rows + v * kLanes);
      for (int p = 0; p < positions; ++p) {
        const Vec number = splat(from[p / 3][p % 3 * step]);
        for (int v = 0; v < vectors; ++v) sum[p][v] += number * row[v];
      }
      for (const float*& pointer : from) ++pointer;
    }
  }
  for (int p = 0; p < positions; ++p)
    if (channels == vectors * kLanes)
      for (int v = 0; v < vectors; ++v) *reinterpret_cast<Unaligned*>(y + p * y_step + v * kLanes) = sum[p][v];
    else
      std::memcpy(y + p * y_step, sum[p], channels * sizeof(float));
}

void convolve_phase(const Convolution& c, const PackedPhase& packed, const float* padded, int64_t padded_row, float* y) {
  const int64_t step = c.width.stride * c.channels, y_step = c.width.spread * c.outputs;
  for (int64_t m = 0; m < packed.height.outputs; ++m) {
    const float* row = padded + (m * c.height.stride + packed.height.place) * padded_row + packed.width.place * c.channels;
    float* out = y + ((packed.height.first + m * c.height.spread) * c.width.output + packed.width.first) * c.outputs;
    for (int64_t o = 0; o < c.outputs; o += kPanel) {
      const int64_t channels = std::min(kPanel, c.outputs - o);
      const float* rows = *packed.rows + o / kPanel * packed.panel_size;
      evenly(packed.width.outputs, kTall, [&](int64_t begin, int64_t part) {
        with_constant<kTall>(part, [&](auto positions) {
          with_constant<kWide>(ceil_div(channels, kLanes), [&](auto vectors) {
            tile<positions, vectors>(packed.runs, row + begin * step, step, rows, out + begin * y_step + o, y_step, channels);
          });
        });
      });
    }
  }
}

// ----------------------------------------------------------------------------------------------------------- gradient

// Adds to rows `kernel` [inputs, outputs] the products of `inputs` neighbouring numbers of x with `vectors` of dy.
template <int inputs, int vectors>
inline void gradient_tile(const Convolution& c, const float* x, int64_t padded_row, const float* dy, int64_t dy_step,
                          float* kernel, int64_t kernel_step) {
  Vec sum[inputs][vectors] = {};
  const int64_t step = c.width.stride * c.channels;
  for (int64_t p = 0; p < c.height.output; ++p) {
    const float* from = x + p * c.height.stride * padded_row;
    for (int64_t q = 0; q < c.width.output; ++q, from += step, dy += dy_step) {
      Vec row[vectors];
      for (int v = 0; v < vectors; ++v) row[v] = load(dy + v * kLanes);
      for (int i = 0; i < inputs; ++i) {
        const Vec number = splat(from[i]);
        for (int v = 0; v < vectors; ++v) sum[i][v] += number * row[v];
      }
    }
  }
  for (int i = 0; i < inputs; ++i)
    for (int v = 0; v < vectors; ++v) *reinterpret_cast<Vec*>(kernel + i * kernel_step + v * kLanes) += sum[i][v];
}

// One image's part of the gradient; rows of `dy` and `kernel` have `width` numbers, a multiple of kLanes.
void correlate_image(const Convolution& c, const float* padded, int64_t padded_row, const float* dy, int64_t width,
                     float* kernel) {
  const bool joined = c.width.dilation == 1;
  const int64_t runs = joined ? 1 : c.width.taps, length = (joined ? c.width.taps : 1) * c.channels;
  for (int64_t o = 0; o < width; o += kPanel)
    for (int64_t t = 0; t < c.height.taps; ++t)
      for (int64_t u = 0; u < runs; ++u)
        evenly(length, kTall, [&](int64_t begin, int64_t part) {
          const float* x = padded + t * c.height.dilation * padded_row + u * c.width.dilation * c.channels + begin;
          float* to = kernel + ((t * runs + u) * length + begin) * width + o;
          with_constant<kTall>(part, [&](auto inputs) {
            with_constant<kWide>(std::min<int64_t>(kWide, (width - o) / kLanes), [&](auto vectors) {
              gradient_tile<inputs, vectors>(c, x, padded_row, dy + o, width, to, width);
            });
          });
        });
}

}  // namespace

void convolve(const Threads& pool, const Convolution& c, const float* x, const float* kernel, float* y) {
  const int64_t padded_row = padded_size(c.width) * c.channels;
  std::vector<PackedPhase> packed;
  for (const Phase& height : phases(c.height))
    for (const Phase& width : phases(c.width)) packed.push_back(pack(c, height, width, padded_row, kernel));
  parallel_for(pool, c.images, [&] {
    return [&, padded = std::make_unique<PaddedImage>(c)](int64_t image) {
      const float* from = padded->fill(x + image * c.height.input * c.width.input * c.channels);
      float* to = y + image * c.height.output * c.width.output * c.outputs;
      for (const PackedPhase& phase : packed) convolve_phase(c, phase, from, padded_row, to);
    };
  });
}

void correlate(const Threads& pool, const Convolution& c, const float* x, const float* dy, float* kernel) {
  const int64_t outputs = c.height.output * c.width.output, rows = c.height.taps * c.width.taps * c.channels;
  const int64_t width = ceil_div(c.outputs, kLanes) * kLanes, groups = std::min(kGroups, c.images);
  Buffer sums(std::max<int64_t>(groups * rows * width, 1));
  parallel_for(pool, groups, [&] {
    return [&, padded = std::make_unique<PaddedImage>(c),
            whole_vectors = std::make_unique<Buffer>(width == c.outputs ? 1 : outputs * width)](int64_t group) {
      float* sum = sums + group * rows * width;
      std::fill_n(sum, rows * width, 0.0f);
      for (int64_t image = c.images * group / groups; image < c.images * (group + 1) / groups; ++image) {
        const float* from = padded->fill(x + image * c.height.input * c.width.input * c.channels);
        const float* errors = dy + image * outputs * c.outputs;
        if (width != c.outputs) {
          for (int64_t p = 0; p < outputs; ++p) {
            float* to = *whole_vectors + p * width;
            std::copy_n(errors + p * c.outputs, c.outputs, to);
            std::fill_n(to + c.outputs, width - c.outputs, 0.0f);
          }
          errors = *whole_vectors;
        }
        correlate_image(c, from, padded->row(), errors, width, sum);
      }
    };
  });
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t o = 0; o < c.outputs; ++o) {
      float sum = 0.0f;
      for (int64_t group = 0; group < groups; ++group) sum += sums[(group * rows + r) * width + o];
      kernel[r * c.outputs + o] = sum;
    }
}

}  // namespace paota
