// The kernel's interface: convolutions, and what follows them. What JAX hands over is turned into it by convolution_ffi.cc.

#pragma once

#include <cstdint>

#include "threads.h"

namespace paota {

struct Axis {           // height or width: output p meets input i under tap q where p * stride + q * dilation = i * spread + before
  int64_t input, taps, output;
  int64_t stride;       // outputs left out
  int64_t dilation;     // holes in the kernel
  int64_t spread;       // holes in the input: the gradient of a strided convolution; then stride = dilation = 1
  int64_t before;       // zeros before the first input; negative: inputs left out
};

struct Convolution {    // of images [images, height, width, channels] with a kernel [height, width, channels, outputs]
  int64_t images, channels, outputs;
  Axis height, width;
};

// y[image, p, o] = sum over taps q and channels c of x[image, p + q, c] kernel[q, c, o]
void convolve(const Threads&, const Convolution&, const float* x, const float* kernel, float* y);

// The kernel's gradient[q, c, o] = sum over images and outputs p of x[image, p + q, c] dy[image, p, o]; spread = 1.
void correlate(const Threads&, const Convolution&, const float* x, const float* dy, float* kernel);

struct Activation {     // of images [images, height, width, channels]; GroupNorm with `groups` groups, or none with 0
  int64_t images, height, width, channels, groups;
  bool pooled;          // 2x2 max-pooling; then there is no shortcut
};

// y = the largest of ReLU(GroupNorm(x) or x + bias, + shortcut), and of each image and group the mean and 1 / deviation.
// `shortcut` may be null.
void activate(const Threads&, const Activation&, const float* x, const float* scale, const float* bias,
              const float* shortcut, float* y, float* moments);

// The gradients; `sums` [images, 2, channels] holds those of scale and bias, image by image.
void activate_gradient(const Threads&, const Activation&, const float* x, const float* scale, const float* bias,
                       const float* shortcut, const float* moments, const float* dy, float* dx, float* dshortcut,
                       float* sums);

}  // namespace paota
