// Convolutions of images, and their kernels' gradients, without a matrix of patches: operands go from the cache to the
// registers as they lie. Kernels that winograd.h knows are left to it.
//
// A tile of sums lives in registers while all products that belong to it are added: 14 neighbouring outputs of a row
// times 32 output channels, or for the gradient 14 input channels times 32 output channels. One operand is loaded as
// vectors of output channels, the other one number at a time.
// Every output is summed by one thread in one order, and partial sums of a gradient belong to fixed groups of images: the
// bits depend neither on the number of threads nor, forwards, on the company of other images.
//
// Arithmetic is plain float32 with GCC/Clang vector extensions, which compile for any processor.

#include "convolution.h"

#include <memory>

#include "activation.h"
#include "tiles.h"
#include "winograd.h"

namespace paota {
namespace {

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

Frame frame_of(const Convolution& c) {
  return {padded_size(c.height), padded_size(c.width), c.channels, padding(c.height), padding(c.width), c.height.input,
          c.width.input};
}

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
  packed.rows = std::make_unique<Buffer>(panels * packed.panel_size);
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

void convolve_phase(const Convolution& c, const PackedPhase& packed, const float* padded, int64_t padded_row, float* y) {
  const int64_t step = c.width.stride * c.channels, y_step = c.width.spread * c.outputs;
  for (int64_t m = 0; m < packed.height.outputs; ++m) {
    const float* row = padded + (m * c.height.stride + packed.height.place) * padded_row + packed.width.place * c.channels;
    float* out = y + ((packed.height.first + m * c.height.spread) * c.width.output + packed.width.first) * c.outputs;
    for (int64_t o = 0; o < c.outputs; o += kPanel)
      products(packed.runs, row, step, packed.width.outputs, *packed.rows + o / kPanel * packed.panel_size, out + o, y_step,
               std::min(kPanel, c.outputs - o));
  }
}

// One image's part of the gradient; rows of `dy` and `kernel` have `width` numbers, a multiple of kLanes.
void correlate_image(const Convolution& c, const float* padded, int64_t padded_row, const float* dy, int64_t width,
                     float* kernel) {
  const bool joined = c.width.dilation == 1;
  const int64_t runs = joined ? 1 : c.width.taps, length = (joined ? c.width.taps : 1) * c.channels;
  const Places places{c.height.output, c.height.stride * padded_row, c.width.output, c.width.stride * c.channels};
  for (int64_t t = 0; t < c.height.taps; ++t)
    for (int64_t u = 0; u < runs; ++u)
      outer_products(places, padded + t * c.height.dilation * padded_row + u * c.width.dilation * c.channels, length, dy,
                     width, kernel + (t * runs + u) * length * width);
}

}  // namespace

void convolve(const Threads& pool, const Convolution& c, const float* x, const float* kernel, float* y) {
  if (const int64_t taps = winograd_taps(c))
    return taps == 3 ? convolve_by_winograd<3>(pool, c, x, kernel, y) : convolve_by_winograd<5>(pool, c, x, kernel, y);
  const int64_t padded_row = padded_size(c.width) * c.channels;
  std::vector<PackedPhase> packed;
  for (const Phase& height : phases(c.height))
    for (const Phase& width : phases(c.width)) packed.push_back(pack(c, height, width, padded_row, kernel));
  parallel_for(pool, c.images, [&] {
    return [&, padded = std::make_unique<FramedImage>(frame_of(c))](int64_t image) {
      const float* from = padded->fill(x + image * c.height.input * c.width.input * c.channels);
      float* to = y + image * c.height.output * c.width.output * c.outputs;
      for (const PackedPhase& phase : packed) convolve_phase(c, phase, from, padded_row, to);
    };
  });
}

void correlate(const Threads& pool, const Convolution& c, const float* x, const float* dy, float* kernel) {
  if (const int64_t taps = winograd_taps(c))
    return taps == 3 ? correlate_by_winograd<3>(pool, c, x, dy, kernel) : correlate_by_winograd<5>(pool, c, x, dy, kernel);
  const int64_t outputs = c.height.output * c.width.output, rows = c.height.taps * c.width.taps * c.channels;
  const int64_t width = ceil_div(c.outputs, kLanes) * kLanes, groups = std::min(kGroups, c.images);
  Buffer sums(groups * rows * width);
  parallel_for(pool, groups, [&] {
    return [&, padded = std::make_unique<FramedImage>(frame_of(c)),
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
