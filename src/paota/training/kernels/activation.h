// What follows a convolution, in one go: GroupNorm or a bias, a shortcut, ReLU and 2x2 max-pooling. An image is read from
// memory once and stays in the cache for whatever else is done with it; XLA's loops over the same numbers took longer
// than the convolutions themselves.
//
// z = x scale + shift (+ shortcut), y = the largest max(z, 0) of each window. Every image is computed by one thread in one
// order. NaN stays NaN, so that a model that has diverged is seen to.

#pragma once

#include <cmath>

#include "convolution.h"
#include "tiles.h"

namespace paota {
namespace {

constexpr float kEpsilon = 1e-5f;  // of GroupNorm, as everywhere

inline float larger(float best, float other) { return best >= other || best != best ? best : other; }
inline float relu(float z) { return z < 0.0f ? 0.0f : z; }

typedef int32_t Mask __attribute__((vector_size(4 * kLanes)));

inline float at(const float* from, float) { return *from; }
inline Vec at(const float* from, Vec) { return load(from); }
inline void put(float* to, float x) { *to = x; }
inline void put(float* to, Vec x) { store(to, x); }
inline int32_t above(float a, float b) { return -(a > b); }
inline Mask above(Vec a, Vec b) { return a > b; }

// Sends the error of one window to the first of its largest z, if that is above 0. GCC does not vectorise this by itself.
template <typename Number, typename Choice>
inline void unpool(Number scale, Number shift, Number error, const float* x, int64_t step, int64_t line, float* dz) {
  const Number none{}, z0 = at(x, none) * scale + shift, z1 = at(x + step, none) * scale + shift;
  const Number z2 = at(x + line, none) * scale + shift, z3 = at(x + line + step, none) * scale + shift;
  const Choice first = above(z1, z0);
  Number best = first ? z1 : z0;
  const Choice second = above(z2, best);
  best = second ? z2 : best;
  const Choice third = above(z3, best);
  best = third ? z3 : best;
  const Number passed = above(best, none) ? error : none;
  put(dz, (first | second | third) ? none : passed);
  put(dz + step, (first & ~second & ~third) ? passed : none);
  put(dz + line, (second & ~third) ? passed : none);
  put(dz + line + step, third ? passed : none);
}

// One image, and what it is scaled and shifted with; the work of one thread.
class ActivatedImage {
 public:
  explicit ActivatedImage(const Activation& a)
      : a_(a), scale_(a.channels), shift_(a.channels), one_(a.channels), two_(a.channels), row_one_(a.channels),
        row_two_(a.channels) {}

  // mean and 1 / deviation of each group
  void moments(const float* x, float* moments) {
    sum_rows(x, x);
    const int64_t size = a_.channels / a_.groups;
    const float count = static_cast<float>(a_.height * a_.width * size);
    for (int64_t g = 0; g < a_.groups; ++g) {
      float sum = 0.0f, squares = 0.0f;
      for (int64_t c = g * size; c < (g + 1) * size; ++c) sum += one_[c], squares += two_[c];
      const float mean = sum / count, variance = squares / count - mean * mean;
      moments[2 * g] = mean;
      moments[2 * g + 1] = 1.0f / std::sqrt((variance < 0.0f ? 0.0f : variance) + kEpsilon);
    }
  }

  void set_scale(const float* scale, const float* bias, const float* moments) {
    for (int64_t c = 0; c < a_.channels; ++c) {
      const int64_t g = a_.groups ? c / (a_.channels / a_.groups) : 0;
      scale_[c] = a_.groups ? scale[c] * moments[2 * g + 1] : 1.0f;
      shift_[c] = a_.groups ? bias[c] - moments[2 * g] * scale_[c] : bias[c];
    }
  }

  void forward(const float* x, const float* shortcut, float* y) const {
    const int64_t n = a_.channels, line = a_.width * n;
    const float *__restrict scale = scale_, *__restrict shift = shift_;
    if (a_.pooled) {
      for (int64_t i = 0; i < a_.height / 2; ++i)
        for (int64_t j = 0; j < a_.width / 2; ++j) {
          const float* __restrict from = x + 2 * i * line + 2 * j * n;
          float* __restrict to = y + (i * (a_.width / 2) + j) * n;
          for (int64_t c = 0; c < n; ++c) {
            const float s = scale[c], t = shift[c];
            to[c] = relu(larger(larger(from[c] * s + t, from[n + c] * s + t),
                                larger(from[line + c] * s + t, from[line + n + c] * s + t)));
          }
        }
      return;
    }
    for (int64_t p = 0; p < a_.height * a_.width; ++p) {
      const float* __restrict from = x + p * n;
      float* __restrict to = y + p * n;
      if (shortcut) {
        const float* __restrict past = shortcut + p * n;
        for (int64_t c = 0; c < n; ++c) to[c] = relu(from[c] * scale[c] + shift[c] + past[c]);
      } else {
        for (int64_t c = 0; c < n; ++c) to[c] = relu(from[c] * scale[c] + shift[c]);
      }
    }
  }

  // The gradient with respect to z, from dy.
  void backward(const float* x, const float* shortcut, const float* dy, float* dz) const {
    const int64_t n = a_.channels, line = a_.width * n;
    const float *__restrict scale = scale_, *__restrict shift = shift_;
    if (a_.pooled) {
      if (a_.height % 2) std::fill_n(dz + (a_.height - 1) * line, line, 0.0f);
      for (int64_t i = 0; i < a_.height / 2; ++i) {
        if (a_.width % 2)
          for (int64_t r = 2 * i; r < 2 * i + 2; ++r) std::fill_n(dz + (r + 1) * line - n, n, 0.0f);
        for (int64_t j = 0; j < a_.width / 2; ++j) {
          const float* __restrict from = x + 2 * i * line + 2 * j * n;
          const float* __restrict error = dy + (i * (a_.width / 2) + j) * n;
          float* __restrict to = dz + 2 * i * line + 2 * j * n;
          int64_t c = 0;
          for (; c + kLanes <= n; c += kLanes)
            unpool<Vec, Mask>(load(scale + c), load(shift + c), load(error + c), from + c, n, line, to + c);
          for (; c < n; ++c) unpool<float, int32_t>(scale[c], shift[c], error[c], from + c, n, line, to + c);
        }
      }
      return;
    }
    for (int64_t p = 0; p < a_.height * a_.width; ++p) {
      const float *__restrict from = x + p * n, *__restrict error = dy + p * n;
      float* __restrict to = dz + p * n;
      if (shortcut) {
        const float* __restrict past = shortcut + p * n;
        for (int64_t c = 0; c < n; ++c) to[c] = from[c] * scale[c] + shift[c] + past[c] > 0.0f ? error[c] : 0.0f;
      } else {
        for (int64_t c = 0; c < n; ++c) to[c] = from[c] * scale[c] + shift[c] > 0.0f ? error[c] : 0.0f;
      }
    }
  }

  // The gradients of this image's scale and bias, and dx from dz, in the same place or another.
  void through_norm(const float* x, const float* scale, const float* moments, const float* dz, float* dx, float* dscale,
                    float* dbias) {
    const int64_t n = a_.channels;
    sum_rows(dz, x);
    std::copy_n((const float*)one_, n, dbias);
    if (!a_.groups) {
      std::fill_n(dscale, n, 0.0f);
      if (dx != dz) std::copy_n(dz, a_.height * a_.width * n, dx);
      return;
    }
    const int64_t size = n / a_.groups;
    const float count = static_cast<float>(a_.height * a_.width * size);
    for (int64_t g = 0; g < a_.groups; ++g) {
      const float mean = moments[2 * g], inverse = moments[2 * g + 1];
      float along = 0.0f, across = 0.0f;  // means over the group of dz scale, and of dz scale times the normalised x
      for (int64_t c = g * size; c < (g + 1) * size; ++c) {
        dscale[c] = inverse * (two_[c] - mean * one_[c]);
        along += scale[c] * one_[c] / count, across += scale[c] * dscale[c] / count;
      }
      for (int64_t c = g * size; c < (g + 1) * size; ++c) {
        row_one_[c] = -inverse * inverse * across;
        row_two_[c] = -inverse * along - mean * row_one_[c];
      }
    }
    const float *__restrict s = scale_, *__restrict slope = row_one_, *__restrict rest = row_two_;
    for (int64_t p = 0; p < a_.height * a_.width; ++p) {
      const float* __restrict from = x + p * n;
      const float* error = dz + p * n;
      float* to = dx + p * n;
#pragma GCC ivdep
      for (int64_t c = 0; c < n; ++c) to[c] = error[c] * s[c] + from[c] * slope[c] + rest[c];
    }
  }

 private:
  // Sums over the image of each channel's values, to one_, and of their products with another image's, to two_; row by
  // row, which rounds less than one long sum.
  void sum_rows(const float* image, const float* other) {
    const int64_t n = a_.channels;
    float *__restrict one = one_, *__restrict two = two_, *__restrict row_one = row_one_, *__restrict row_two = row_two_;
    std::fill_n(one, n, 0.0f), std::fill_n(two, n, 0.0f);
    for (int64_t i = 0; i < a_.height; ++i) {
      std::fill_n(row_one, n, 0.0f), std::fill_n(row_two, n, 0.0f);
      for (int64_t j = 0; j < a_.width; ++j, image += n, other += n)
        for (int64_t c = 0; c < n; ++c) row_one[c] += image[c], row_two[c] += image[c] * other[c];
      for (int64_t c = 0; c < n; ++c) one[c] += row_one[c], two[c] += row_two[c];
    }
  }

  const Activation& a_;
  Buffer scale_, shift_, one_, two_, row_one_, row_two_;
};

}  // namespace

void activate(const Threads& pool, const Activation& a, const float* x, const float* scale, const float* bias,
              const float* shortcut, float* y, float* moments) {
  const int64_t size = a.height * a.width * a.channels, outputs = a.pooled ? a.height / 2 * (a.width / 2) * a.channels : size;
  const int64_t groups = std::max<int64_t>(a.groups, 1);
  parallel_for(pool, a.images, [&] {
    return [&, image = std::make_unique<ActivatedImage>(a)](int64_t i) {
      float* mine = moments + 2 * i * groups;
      if (a.groups) image->moments(x + i * size, mine);
      else mine[0] = 0.0f, mine[1] = 1.0f;
      image->set_scale(scale, bias, mine);
      image->forward(x + i * size, shortcut ? shortcut + i * size : nullptr, y + i * outputs);
    };
  });
}

void activate_gradient(const Threads& pool, const Activation& a, const float* x, const float* scale, const float* bias,
                       const float* shortcut, const float* moments, const float* dy, float* dx, float* dshortcut,
                       float* sums) {
  const int64_t size = a.height * a.width * a.channels, outputs = a.pooled ? a.height / 2 * (a.width / 2) * a.channels : size;
  const int64_t groups = std::max<int64_t>(a.groups, 1);
  parallel_for(pool, a.images, [&] {
    return [&, image = std::make_unique<ActivatedImage>(a)](int64_t i) {
      const float* mine = moments + 2 * i * groups;
      float* dz = shortcut ? dshortcut + i * size : dx + i * size;
      image->set_scale(scale, bias, mine);
      image->backward(x + i * size, shortcut ? shortcut + i * size : nullptr, dy + i * outputs, dz);
      image->through_norm(x + i * size, scale, mine, dz, dx + i * size, sums + 2 * i * a.channels,
                          sums + (2 * i + 1) * a.channels);
    };
  });
}

}  // namespace paota
