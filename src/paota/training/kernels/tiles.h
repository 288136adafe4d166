// What convolutions are computed with: vectors, images with zeros around them, and tiles of sums that live in registers
// while all products that belong to them are added.

#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
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
constexpr int kWide = 2;                    // vectors
constexpr int64_t kPanel = kWide * kLanes;  // output channels of a tile
constexpr int64_t kGroups = 8;              // of images, for the gradient

typedef float Vec __attribute__((vector_size(4 * kLanes)));
typedef float Unaligned __attribute__((vector_size(4 * kLanes), aligned(4), may_alias));

inline Vec load(const float* from) { return *reinterpret_cast<const Unaligned*>(from); }
inline void store(float* to, Vec x) { *reinterpret_cast<Unaligned*>(to) = x; }
inline Vec splat(float x) { return x - Vec{}; }  // x + 0 would be a sum: of -0 it makes 0
inline int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
inline int64_t floor_div(int64_t a, int64_t b) { return a >= 0 ? a / b : -ceil_div(-a, b); }

class Buffer {  // floats on a cache line of their own
 public:
  explicit Buffer(int64_t size)
      : data_(static_cast<float*>(operator new(std::max<int64_t>(size, 1) * sizeof(float), std::align_val_t{64}))) {}
  ~Buffer() { operator delete(data_, std::align_val_t{64}); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  operator float*() const { return data_; }

 private:
  float* data_;
};

// One image [height, width, channels] that begins at (top, left) of a larger frame of zeros, which may cut it.
struct Frame {
  int64_t height, width, channels, top, left, image_height, image_width;
};

class FramedImage {
 public:
  explicit FramedImage(const Frame& frame) : frame_(frame), data_(frame.height * row()) {
    std::fill_n((float*)data_, frame.height * row(), 0.0f);
  }

  const float* fill(const float* image) {
    const Frame& f = frame_;
    const int64_t begin = std::max<int64_t>(0, -f.left), end = std::min(f.image_width, f.width - f.left);
    for (int64_t i = std::max<int64_t>(0, -f.top); i < std::min(f.image_height, f.height - f.top) && begin < end; ++i)
      std::memcpy(data_ + (i + f.top) * row() + (begin + f.left) * f.channels,
                  image + (i * f.image_width + begin) * f.channels, (end - begin) * f.channels * sizeof(float));
    return data_;
  }

  int64_t row() const { return frame_.width * frame_.channels; }

 private:
  Frame frame_;
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

struct Run {  // of numbers that lie side by side in memory, and meet rows of the kernel one after the other
  int64_t offset, length;
};

// y[p] = sum over the runs of x[p] times their rows, for `positions` p that are `step` numbers apart in x.
template <int positions, int vectors>
inline void product_tile(const std::vector<Run>& runs, const float* x, int64_t step, const float* rows, float* y,
                         int64_t y_step, int64_t channels) {
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
      for (int v = 0; v < vectors; ++v) store(y + p * y_step + v * kLanes, sum[p][v]);
    else
      std::memcpy(y + p * y_step, sum[p], channels * sizeof(float));
}

// The same for any number of positions and at most a panel of channels.
inline void products(const std::vector<Run>& runs, const float* x, int64_t step, int64_t positions, const float* rows,
                     float* y, int64_t y_step, int64_t channels) {
  evenly(positions, kTall, [&](int64_t begin, int64_t part) {
    with_constant<kTall>(part, [&](auto tall) {
      with_constant<kWide>(ceil_div(channels, kLanes), [&](auto vectors) {
        product_tile<tall, vectors>(runs, x + begin * step, step, rows, y + begin * y_step, y_step, channels);
      });
    });
  });
}

// Where an image's outputs meet numbers of x: `height` rows of `width` outputs, so many numbers apart.
struct Places {
  int64_t height, row, width, step;
};

// Adds to rows `sums` [inputs, ...] the products of `inputs` neighbouring numbers of x with `vectors` of dy.
template <int inputs, int vectors>
inline void outer_tile(const Places& places, const float* x, const float* dy, int64_t dy_step, float* sums,
                       int64_t sums_step) {
  Vec sum[inputs][vectors] = {};
  for (int64_t p = 0; p < places.height; ++p) {
    const float* from = x + p * places.row;
    for (int64_t q = 0; q < places.width; ++q, from += places.step, dy += dy_step) {
      Vec row[vectors];
      for (int v = 0; v < vectors; ++v) row[v] = load(dy + v * kLanes);
      for (int i = 0; i < inputs; ++i) {
        const Vec number = splat(from[i]);
        for (int v = 0; v < vectors; ++v) sum[i][v] += number * row[v];
      }
    }
  }
  for (int i = 0; i < inputs; ++i)
    for (int v = 0; v < vectors; ++v) *reinterpret_cast<Vec*>(sums + i * sums_step + v * kLanes) += sum[i][v];
}

// The same for any number of inputs; rows of `dy` and `sums` have `width` numbers, a multiple of kLanes.
inline void outer_products(const Places& places, const float* x, int64_t inputs, const float* dy, int64_t width,
                           float* sums) {
  for (int64_t o = 0; o < width; o += kPanel)
    evenly(inputs, kTall, [&](int64_t begin, int64_t part) {
      with_constant<kTall>(part, [&](auto tall) {
        with_constant<kWide>(std::min<int64_t>(kWide, (width - o) / kLanes), [&](auto vectors) {
          outer_tile<tall, vectors>(places, x + begin, dy + o, width, sums + begin * width + o, width);
        });
      });
    });
}

}  // namespace
}  // namespace paota
