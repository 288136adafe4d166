// Trains and judges many small multi-layer perceptrons, each wholly inside one core's cache.
//
// Inputs are rows of bytes or floats in blocks of 16 (4 x 4 pixels of an image), and blocks of zeros are left out: of
// MNIST's more than half. In the first layer a block is one vector, multiplied by one vector of weights for each output;
// sums stay in registers, over the blocks of a sample forwards, over the samples that light a block backwards.
// In the layers above weights are held transposed, [in][out padded to whole vectors]: one input scales one row.
// One device is trained from first to last step by one thread, and partial sums of a judgement belong to fixed blocks
// of samples: the bits of a result depend neither on the number of threads nor on their luck.
//
// Arithmetic is plain float32 with GCC/Clang vector extensions, which compile for any processor.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <new>
#include <numeric>
#include <type_traits>
#include <utility>
#include <vector>

#ifdef __AVX2__
#include <immintrin.h>
#endif

#include "mlp.h"

namespace paota {
namespace {

#if defined(__AVX512F__)
constexpr int kLanes = 16;
constexpr bool kWideTiles = true;  // there are registers for 16 sums at once
#elif defined(__AVX2__)
constexpr int kLanes = 8;
constexpr bool kWideTiles = false;
#else
constexpr int kLanes = 4;
constexpr bool kWideTiles = false;
#endif
constexpr int kBlock = 16;                 // inputs
constexpr int64_t kSamplesPerBlock = 256;  // of a judgement
constexpr int64_t kSamplesPerPass = 32;
constexpr int64_t kPrefetch = 8;           // samples ahead: they lie anywhere in memory
template <typename Value>
constexpr float kScale = std::is_same_v<Value, uint8_t> ? 1.0f / 255.0f : 1.0f;  // bytes stand for 0..1

typedef float Vec __attribute__((vector_size(4 * kLanes)));
typedef int32_t IntVec __attribute__((vector_size(4 * kLanes)));

inline Vec splat(float x) { return x - Vec{}; }  // x + 0 would be a sum: of -0 it makes 0
inline IntVec lane_numbers() {
  IntVec numbers;
  for (int l = 0; l < kLanes; ++l) numbers[l] = l;
  return numbers;
}
inline int64_t padded(int64_t n) { return (n + kLanes - 1) / kLanes * kLanes; }

struct Sum {
  Vec operator()(Vec a, Vec b) const { return a + b; }
};

struct Max {
  Vec operator()(Vec a, Vec b) const { return a > b ? a : b; }
};

// Lane l of the result: with bit `d` of l clear a's lanes l and l + d combined, with it set b's lanes l - d and l.
template <int d, typename Combine, int... l>
inline Vec pairs(Vec a, Vec b, const Combine& combine, std::integer_sequence<int, l...>) {
#if defined(__clang__) || __GNUC__ >= 12
  return combine(__builtin_shufflevector(a, b, (l & d ? kLanes + l : l)...),
                 __builtin_shufflevector(a, b, (l & d ? kLanes + l - d : l + d)...));
#else
  return combine(__builtin_shuffle(a, b, IntVec{(l & d ? kLanes + l : l)...}),
                 __builtin_shuffle(a, b, IntVec{(l & d ? kLanes + l - d : l + d)...}));
#endif
}

// Lane i: all lanes of v[i] combined, always in the same order. Lanes from n on mean nothing.
template <typename Combine, int d = 1, int n>
inline Vec each(const Vec (&v)[n]) {
  Vec half[(n + 1) / 2];
  for (int i = 0; i < (n + 1) / 2; ++i)
    half[i] = pairs<d>(v[2 * i], v[std::min(2 * i + 1, n - 1)], Combine{}, std::make_integer_sequence<int, kLanes>{});
  if constexpr (d < kLanes / 2) return each<Combine, 2 * d>(half);
  else return half[0];
}

// e^x for x <= 0, relative error below 2e-7; 0 is returned as about 1e-38.
inline Vec exp_nonpositive(Vec x) {
  x = x < splat(-87.0f) ? splat(-87.0f) : x;
  const Vec magic = splat(12582912.0f);  // 1.5 * 2^23: adding it rounds to a whole number
  const Vec n = (x * 1.44269504f + magic) - magic;
  const Vec r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
  Vec p = splat(1.9875691500e-4f);
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * r * r + r + 1.0f;
  const IntVec exponent = __builtin_convertvector(n, IntVec) << 23;
  return (Vec)((IntVec)p + exponent);
}

// The natural logarithm of x >= 1, to rounding; not finite where x is not.
inline Vec log_from_one(Vec x) {
  const IntVec bits = (IntVec)x;
  const Vec mantissa = (Vec)((bits & 0x7fffff) | 0x3f800000);  // 1 to 2
  const IntVec high = mantissa > 1.41421356f;
  const Vec t = (high ? mantissa * 0.5f : mantissa) - 1.0f;
  const Vec exponent = __builtin_convertvector((bits >> 23) - 127 - high, Vec);  // true is -1
  Vec p = splat(7.0376836292e-2f);
  p = p * t - 1.1514610310e-1f;
  p = p * t + 1.1676998740e-1f;
  p = p * t - 1.2420140846e-1f;
  p = p * t + 1.4249322787e-1f;
  p = p * t - 1.6668057665e-1f;
  p = p * t + 2.0000714765e-1f;
  p = p * t - 2.4999993993e-1f;
  p = p * t + 3.3333331174e-1f;
  const Vec tail = t * t * (t * p - 0.5f) - exponent * 2.12194440e-4f;
  return (t + tail) + exponent * 0.693359375f + (x - x);
}

struct AlignedFree {
  void operator()(void* p) const { ::operator delete(p, std::align_val_t(64)); }
};

template <typename T>
struct Scratch {  // 64-byte aligned, zeroed
  explicit Scratch(int64_t n) : data((T*)::operator new(std::max<int64_t>(n, 1) * sizeof(T), std::align_val_t(64))) {
    std::memset(data.get(), 0, std::max<int64_t>(n, 1) * sizeof(T));
  }
  operator T*() const { return data.get(); }
  std::unique_ptr<T, AlignedFree> data;
};

// ------------------------------------------------------------------------------------------------------- the samples

// Every line of the cache between two addresses. GCC takes a function that only prefetches for one without effect and
// drops the call; the empty statement in assembler keeps it.
inline void fetch(const void* begin, const void* end) {
  for (uintptr_t line = (uintptr_t)begin & ~(uintptr_t)63; line < (uintptr_t)end; line += 64) {
    __builtin_prefetch((const void*)line);
    asm volatile("");
  }
}

template <typename Value>
inline void fetch(const Samples<Value>& data, int64_t i) {
  const int64_t first = data.start[i], last = data.start[i + 1];
  fetch(data.value + first * kBlock, data.value + last * kBlock);
  fetch(data.block + first, data.block + last);
}

inline Vec pixels(const Samples<float>& data, int64_t at, int part) {  // of a block's kBlock / kLanes parts
  Vec numbers;
  std::memcpy(&numbers, data.value + at * kBlock + part * kLanes, sizeof numbers);
  return numbers;
}

inline Vec pixels(const Samples<uint8_t>& data, int64_t at, int part) {
  const uint8_t* bytes = data.value + at * kBlock + part * kLanes;
#if defined(__AVX512F__)  // compilers turn the plain form into dozens of instructions
  return (Vec)_mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i*)bytes)));
#elif defined(__AVX2__)
  return (Vec)_mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i*)bytes)));
#else
  Vec pixels;
  for (int l = 0; l < kLanes; ++l) pixels[l] = (float)bytes[l];
  return pixels;
#endif
}

// The blocks of a mini-batch, sorted by where they stand in the row.
class Columns {
 public:
  struct Entry { int32_t at, sample; };

  Columns(int64_t blocks, int64_t batch) : batch_(batch), count_(blocks), entries_(new Entry[blocks * batch]) {}

  void clear() { std::fill(count_.begin(), count_.end(), 0); }
  void add(int64_t block, int64_t at, int64_t sample) {
    entries_[block * batch_ + count_[block]++] = {(int32_t)at, (int32_t)sample};
  }

  int64_t blocks() const { return count_.size(); }
  const Entry* begin(int64_t block) const { return entries_.get() + block * batch_; }
  const Entry* end(int64_t block) const { return begin(block) + count_[block]; }

 private:
  int64_t batch_;
  std::vector<int32_t> count_;
  std::unique_ptr<Entry[]> entries_;
};

// -------------------------------------------------------------------------------- inner loops of the first layer
// `weight` points at the tile's first output in block 0; blocks follow each other at a distance of `stride` floats, and
// in a block come its parts, each with a vector for every output.

template <typename Value, int T, int from = 0>
inline void finish(float* out, const float* bias, const Vec (&sum)[T]) {  // as many outputs at once as there are lanes
  constexpr int n = std::min(T - from, kLanes);
  Vec some[n];
  for (int o = 0; o < n; ++o) some[o] = sum[from + o];
  const Vec totals = each<Sum>(some) * kScale<Value>;
  for (int o = 0; o < n; ++o) out[from + o] = bias[from + o] + totals[o];
  if constexpr (from + n < T) finish<Value, T, from + n>(out, bias, sum);
}

template <int T, bool kSort, typename Value>
inline void first_layer_tile(float* out, const float* bias, const float* weight, int64_t stride, int64_t outputs,
                             const Samples<Value>& data, int64_t sample, Columns* columns, int64_t b) {
  Vec sum[T];
  for (int o = 0; o < T; ++o) sum[o] = Vec{};
  for (int64_t at = data.start[sample], end = data.start[sample + 1]; at < end; ++at) {
    const int64_t block = data.block[at];
    for (int part = 0; part < kBlock / kLanes; ++part) {
      const Vec x = pixels(data, at, part);
      const Vec* row = (const Vec*)(weight + block * stride) + part * outputs;
      for (int o = 0; o < T; ++o) sum[o] += x * row[o];
    }
    if constexpr (kSort) columns->add(block, at, b);
  }
  finish<Value, T>(out, bias, sum);
}

template <int T, typename Value>
inline void first_step_tile(float* weight, int64_t stride, int64_t outputs, const Samples<Value>& data,
                            const Columns& columns, const float* delta, int64_t width) {
  for (int64_t block = 0; block < columns.blocks(); ++block) {
    if (columns.begin(block) == columns.end(block)) continue;
    for (int part = 0; part < kBlock / kLanes; ++part) {
      Vec* row = (Vec*)(weight + block * stride) + part * outputs;
      Vec sum[T];
      for (int o = 0; o < T; ++o) sum[o] = row[o];
      for (const Columns::Entry* e = columns.begin(block); e < columns.end(block); ++e) {
        const Vec x = pixels(data, e->at, part);
        const float* d = delta + e->sample * width;
        for (int o = 0; o < T; ++o) sum[o] += x * d[o];
      }
      for (int o = 0; o < T; ++o) row[o] = sum[o];
    }
  }
}

// Calls body(o, T) for tiles of T outputs, or inputs, from o on; T is known when compiling. Few sizes keep that short.
template <typename Body>
inline void for_each_tile(int64_t n, const Body& body) {
  int64_t o = 0;
  const auto tiles = [&](auto size) {
    for (; n - o >= size; o += size) body(o, size);
  };
  if constexpr (kWideTiles) tiles(std::integral_constant<int, 16>{});
  tiles(std::integral_constant<int, 10>{});
  tiles(std::integral_constant<int, 4>{});
  tiles(std::integral_constant<int, 1>{});
}

// --------------------------------------------------------------------------------- inner loops of the layers above
// Samples follow each other at a distance of `stride` floats; rows of weights, `width` apart, stay in registers for all.

// out = init + sum over n of value[i] * rows[i], of every sample.
inline void weighted_sums(float* out, const float* init, const float* rows, int64_t width, const float* value, int64_t n,
                          int64_t stride, int64_t batch) {
  for (int64_t j = 0; j < width; j += kLanes)
    for_each_tile(n, [&](int64_t i, auto size) {
      Vec row[size];
      for (int t = 0; t < size; ++t) row[t] = *(const Vec*)(rows + (i + t) * width + j);
      for (int64_t b = 0; b < batch; ++b) {
        Vec* sum = (Vec*)(out + b * stride + j);
        Vec total = i == 0 ? *(const Vec*)(init + j) : *sum;
        for (int t = 0; t < size; ++t) total += row[t] * value[b * stride + i + t];
        *sum = total;
      }
    });
}

// rows[i] += value[i] * step, of every sample.
inline void add_products(float* rows, int64_t width, const float* value, int64_t n, const float* step, int64_t stride,
                         int64_t batch) {
  for (int64_t j = 0; j < width; j += kLanes)
    for_each_tile(n, [&](int64_t i, auto size) {
      Vec row[size];
      for (int t = 0; t < size; ++t) row[t] = *(const Vec*)(rows + (i + t) * width + j);
      for (int64_t b = 0; b < batch; ++b)
        for (int t = 0; t < size; ++t) row[t] += *(const Vec*)(step + b * stride + j) * value[b * stride + i + t];
      for (int t = 0; t < size; ++t) *(Vec*)(rows + (i + t) * width + j) = row[t];
    });
}

// -------------------------------------------------------------------------------------------------------- the network

struct Layer {
  int64_t in, out, width;  // width: `out` padded to whole vectors
  int64_t bias, weight;    // where they stand in the packed parameters
  int64_t flat;            // where the layer stands in the flat parameters: bias [out], weight [out][in]
  int64_t unit;            // where its outputs stand in a sample's row of activations
};

struct Network {
  explicit Network(const Shape& shape) : quad(shape.quad), blocks(shape.quads / 4) {
    for (size_t l = 0; l + 1 < shape.widths.size(); ++l) {
      const int64_t in = shape.widths[l], out = shape.widths[l + 1], width = padded(out);
      layers.push_back({in, out, width, packed_size, packed_size + width, flat_size, units});
      packed_size += width + (l == 0 ? blocks * kBlock * out : in * width);
      flat_size += out * (1 + in);
      units += width;
      widest = std::max(widest, width);
      if (l > 0) transposed_size = std::max(transposed_size, out * padded(in));
    }
  }

  void pack(const float* flat, float* packed) const {
    each_parameter(flat, packed, [](const float* flat, float* packed, int64_t n) { std::copy_n(flat, n, packed); });
  }

  void unpack(const float* packed, float* flat) const {
    each_parameter(flat, packed, [](float* flat, const float* packed, int64_t n) { std::copy_n(packed, n, flat); });
  }

  std::vector<Layer> layers;
  const int32_t* quad;
  int64_t blocks;
  int64_t packed_size = 0, flat_size = 0, units = 0, widest = 0, transposed_size = 0;

 private:
  template <typename Flat, typename Packed, typename Copy>
  void each_parameter(Flat* flat, Packed* packed, const Copy& copy) const {
    for (const Layer& l : layers) {
      Flat* weight = flat + l.flat + l.out;
      copy(flat + l.flat, packed + l.bias, l.out);
      if (&l == &layers[0]) {
        for (int64_t q = 0; q < 4 * blocks; ++q) {
          Flat* from = weight + quad[q];
          Packed* to = packed + l.weight + (q * 4 / kLanes * l.out * kLanes) + q * 4 % kLanes;
          if (quad[q] >= 0 && quad[q] + 4 <= l.in)
            for (int64_t o = 0; o < l.out; ++o) copy(from + o * l.in, to + o * kLanes, 4);
          else if (quad[q] >= 0)
            for (int64_t o = 0; o < l.out; ++o) copy(from + o * l.in, to + o * kLanes, l.in - quad[q]);
        }
      } else {
        for (int64_t o = 0; o < l.out; ++o)
          for (int64_t i = 0; i < l.in; ++i) copy(weight + o * l.in + i, packed + l.weight + i * l.width + o, 1);
      }
    }
  }
};

class Worker {  // the memory of one thread
 public:
  Worker(const Network& net, int64_t batch)
      : net_(net),
        packed_(net.packed_size),
        units_(batch * net.units),
        steps_(batch * net.units),
        scaled_(batch * net.layers[0].width),
        columns_(net.blocks, batch),
        transposed_(net.transposed_size),
        zeros_(net.widest) {}

  // M steps of mini-batch SGD on `packed_`; returns the mean loss seen.
  template <typename Value>
  float train(const float* start, const Samples<Value>& data, const int32_t* sample, int64_t steps, int64_t batch,
              float learning_rate) {
    std::copy_n(start, net_.packed_size, (float*)packed_);
    float mean_loss = 0;
    for (int64_t m = 0; m < steps; ++m) {
      const int32_t* seen = sample + m * batch;
      first_layer(packed_, data, seen, batch, (steps - m) * batch, &columns_);
      upper_layers(packed_, batch);
      float loss = 0;
      for (int64_t b = 0; b < batch; b += kLanes) {
        const int64_t n = std::min<int64_t>(kLanes, batch - b);
        int32_t label[kLanes];
        for (int64_t s = 0; s < n; ++s) label[s] = data.label[seen[b + s]];
        const Vec losses = cross_entropies(b, n, label, -learning_rate / (float)batch);
        for (int64_t s = 0; s < n; ++s) loss += losses[s];
      }
      back_propagate(batch);
      step(batch);
      first_step(data, batch);
      mean_loss += loss / (float)batch;
    }
    return mean_loss / (float)steps;
  }

  const float* packed() const { return packed_; }

  // 1 where the label's logit is the highest, else 0, in one lane each; of equal logits the first wins, as in argmax.
  Vec right(int64_t first, int64_t n, const int32_t* label) const {
    const Layer& top = net_.layers.back();
    Vec beaten[kLanes];
    for (int64_t s = 0; s < kLanes; ++s) {
      beaten[s] = Vec{};
      for (int64_t i = 0; s < n && i < top.width; i += kLanes) {
        const int32_t answer = label[s];
        const Vec logit = *(const Vec*)(logits(first + s) + i), best = splat(logits(first + s)[answer]);
        const IntVec lower = lane_numbers() + (int32_t)i < answer ? logit < best : logit <= best;
        beaten[s] = Max{}(is_class(i) & ~lower ? splat(1.0f) : Vec{}, beaten[s]);
      }
    }
    return 1.0f - each<Max>(beaten);
  }

  const float* logits(int64_t b) const { return units_ + b * net_.units + net_.layers.back().unit; }

  // Of sample[0..batch), with those up to sample[following) fetched ahead; sorts their blocks into `columns` if given.
  template <typename Value>
  void first_layer(const float* packed, const Samples<Value>& data, const int32_t* sample, int64_t batch,
                   int64_t following, Columns* columns) {
    const Layer& first = net_.layers[0];
    if (columns) columns->clear();
    for_each_tile(first.out, [&](int64_t o, auto size) {
      const auto all = [&](auto sort) {
        for (int64_t b = 0; b < batch; ++b) {
          if (o == 0 && b + kPrefetch < following) fetch(data, sample[b + kPrefetch]);
          first_layer_tile<size(), sort()>(units_ + b * net_.units + o, packed + first.bias + o,
                                           packed + first.weight + o * kLanes, first.out * kBlock, first.out, data,
                                           sample[b], columns, b);
        }
      };
      if (columns && o == 0) all(std::true_type{});
      else all(std::false_type{});
    });
  }

  // All layers above the first for `batch` samples; ReLU is applied to every layer's input.
  void upper_layers(const float* packed, int64_t batch) {
    for (size_t l = 1; l < net_.layers.size(); ++l) {
      const Layer &layer = net_.layers[l], &under = net_.layers[l - 1];
      for (int64_t b = 0; b < batch; ++b)
        for (int64_t i = 0; i < under.width; i += kLanes) {
          Vec& v = *(Vec*)(units_ + b * net_.units + under.unit + i);
          v = v < 0.0f ? splat(0.0f) : v;
        }
      weighted_sums(units_ + layer.unit, packed + layer.bias, packed + layer.weight, layer.width, units_ + under.unit,
                    layer.in, net_.units, batch);
    }
  }

  // Of up to kLanes samples from `first` on, in one lane each. Where `gradient` is not 0, leaves that many times the
  // gradient with respect to the logits in `steps_`.
  Vec cross_entropies(int64_t first, int64_t n, const int32_t* label, float gradient) {
    const Layer& top = net_.layers.back();
    const Vec nothing = splat(-std::numeric_limits<float>::infinity());
    float highest[kLanes], answer[kLanes] = {}, factor[kLanes];
    Vec part[kLanes];
    for (int64_t s = 0; s < kLanes; ++s) {
      part[s] = s < n ? nothing : Vec{};
      for (int64_t i = 0; s < n && i < top.width; i += kLanes)
        part[s] = Max{}(is_class(i) ? *(const Vec*)(logits(first + s) + i) : nothing, part[s]);
    }
    const Vec maxima = each<Max>(part);
    std::memcpy(highest, &maxima, sizeof maxima);
    for (int64_t s = 0; s < n; ++s) {
      answer[s] = logits(first + s)[label[s]];
      part[s] = Vec{};
      for (int64_t i = 0; i < top.width; i += kLanes) {
        const Vec e = exp_nonpositive(*(const Vec*)(logits(first + s) + i) - highest[s]);
        const Vec kept = is_class(i) ? e : Vec{};
        part[s] += kept;
        if (gradient) *(Vec*)(delta(first + s) + i) = kept;
      }
    }
    for (int64_t s = n; s < kLanes; ++s) part[s] = splat(1.0f);
    const Vec sums = each<Sum>(part);
    if (gradient) {
      const Vec factors = gradient / sums;
      std::memcpy(factor, &factors, sizeof factors);
      for (int64_t s = 0; s < n; ++s) {
        for (int64_t i = 0; i < top.width; i += kLanes) *(Vec*)(delta(first + s) + i) *= factor[s];
        delta(first + s)[label[s]] -= gradient;
      }
    }
    Vec answers;
    std::memcpy(&answers, answer, sizeof answers);
    return (maxima - answers) + log_from_one(sums);
  }

 private:
  float* delta(int64_t b) const { return steps_ + b * net_.units + net_.layers.back().unit; }
  IntVec is_class(int64_t i) const { return lane_numbers() + (int32_t)i < (int32_t)net_.layers.back().out; }

  // From each layer's step to that of the layer below.
  void back_propagate(int64_t batch) {
    for (size_t l = net_.layers.size() - 1; l > 0; --l) {
      const Layer &layer = net_.layers[l], &under = net_.layers[l - 1];
      const float* weight = packed_ + layer.weight;
      for (int64_t i = 0; i < layer.in; ++i)
        for (int64_t o = 0; o < layer.out; ++o) transposed_[o * under.width + i] = weight[i * layer.width + o];
      weighted_sums(steps_ + under.unit, zeros_, transposed_, under.width, steps_ + layer.unit, layer.out, net_.units,
                    batch);
      for (int64_t b = 0; b < batch; ++b)
        for (int64_t i = 0; i < under.width; i += kLanes) {
          const int64_t at = b * net_.units + under.unit + i;
          Vec& delta = *(Vec*)(steps_ + at);
          delta = *(const Vec*)(units_ + at) > 0.0f ? delta : splat(0.0f);
        }
    }
  }

  void step(int64_t batch) {  // biases, and the weights above the first layer
    for (size_t l = 0; l < net_.layers.size(); ++l) {
      const Layer& layer = net_.layers[l];
      for (int64_t i = 0; i < layer.width; i += kLanes) {
        Vec total = *(const Vec*)(packed_ + layer.bias + i);
        for (int64_t b = 0; b < batch; ++b) total += *(const Vec*)(steps_ + b * net_.units + layer.unit + i);
        *(Vec*)(packed_ + layer.bias + i) = total;
      }
      if (l > 0)
        add_products(packed_ + layer.weight, layer.width, units_ + net_.layers[l - 1].unit, layer.in,
                     steps_ + layer.unit, net_.units, batch);
    }
  }

  template <typename Value>
  void first_step(const Samples<Value>& data, int64_t batch) {
    const Layer& first = net_.layers[0];
    for (int64_t b = 0; b < batch; ++b)
      for (int64_t i = 0; i < first.width; i += kLanes)
        *(Vec*)(scaled_ + b * first.width + i) = *(const Vec*)(steps_ + b * net_.units + i) * kScale<Value>;
    for_each_tile(first.out, [&](int64_t o, auto size) {
      first_step_tile<size()>(packed_ + first.weight + o * kLanes, first.out * kBlock, first.out, data, columns_,
                              scaled_ + o, first.width);
    });
  }

  const Network& net_;
  Scratch<float> packed_, units_, steps_;
  Scratch<float> scaled_;  // the first layer's steps, for inputs as they are stored
  Columns columns_;
  Scratch<float> transposed_, zeros_;  // transposed: rows of padding stay zero or meet zeros only
};

}  // namespace

// ------------------------------------------------------------------------------------------------- what others may call

int64_t parameters(const Shape& shape) { return Network(shape).flat_size; }

template <typename Value>
void train(const Threads& pool, const Shape& shape, const Samples<Value>& data, const Orders& orders,
           const Trained& trained) {
  const Network net(shape);
  const int64_t d = net.flat_size, batch = orders.batch;

  // The versions that are needed, packed once: many devices start from the same one.
  std::vector<std::unique_ptr<Scratch<float>>> version(orders.versions);
  for (int64_t k = 0; k < orders.devices; ++k) {
    const int32_t v = orders.slot[k];
    if (!orders.ready[k] || version[v]) continue;
    version[v] = std::make_unique<Scratch<float>>(net.packed_size);
    net.pack(orders.ring + v * d, *version[v]);
  }
  parallel_for(pool, orders.devices, [&] {
    return [&, worker = std::make_shared<Worker>(net, batch)](int64_t k) {
      const int64_t v = orders.slot[k];
      const float* from = orders.ring + v * d;
      float* to = trained.local + k * d;
      float* change = trained.update + k * d;
      if (!orders.ready[k]) {
        std::copy_n(from, d, to);
        std::fill_n(change, d, 0.0f);
        trained.loss[k] = 0.0f;
        return;
      }
      trained.loss[k] = worker->train(*version[v], data, orders.sample + k * orders.steps * batch, orders.steps, batch,
                                      orders.learning_rate);
      net.unpack(worker->packed(), to);
      for (int64_t i = 0; i < d; ++i) change[i] = to[i] - from[i];
    };
  });
}

template <typename Value>
void judge(const Threads& pool, const Shape& shape, const Samples<Value>& data, const float* model, const float* weight,
           int64_t begin, int64_t stop, float* accuracy_and_loss, float* right_by_label) {
  const Network net(shape);
  const int64_t blocks = std::max<int64_t>(0, (stop - begin + kSamplesPerBlock - 1) / kSamplesPerBlock);
  Scratch<float> packed(net.packed_size);
  net.pack(model, packed);
  std::vector<double> right(blocks), loss(blocks);
  const int64_t classes = shape.widths.back();
  std::vector<int32_t> by_label(blocks * classes);
  parallel_for(pool, blocks, [&] {
    return [&, worker = std::make_shared<Worker>(net, kSamplesPerPass)](int64_t block) {
      const int64_t end = std::min(stop, begin + (block + 1) * kSamplesPerBlock);
      int32_t sample[kSamplesPerPass];
      for (int64_t first = begin + block * kSamplesPerBlock; first < end; first += kSamplesPerPass) {
        const int64_t n = std::min(kSamplesPerPass, end - first);
        std::iota(sample, sample + n, (int32_t)first);  // neighbours in memory, which need no fetching ahead
        worker->first_layer(packed, data, sample, n, 0, nullptr);
        worker->upper_layers(packed, n);
        for (int64_t b = 0; b < n; b += kLanes) {
          const int64_t lanes = std::min<int64_t>(kLanes, n - b);
          const int32_t* label = data.label + first + b;
          const Vec losses = worker->cross_entropies(b, lanes, label, 0.0f), hits = worker->right(b, lanes, label);
          for (int64_t s = 0; s < lanes; ++s) {
            const double share = weight[first + b + s];
            loss[block] += share * losses[s];
            right[block] += share * hits[s];
            by_label[block * classes + label[s]] += hits[s] > 0;
          }
        }
      }
    };
  });
  accuracy_and_loss[0] = (float)std::accumulate(right.begin(), right.end(), 0.0);
  accuracy_and_loss[1] = (float)std::accumulate(loss.begin(), loss.end(), 0.0);
  for (int64_t c = 0; c < classes; ++c) {
    int64_t sum = 0;
    for (int64_t block = 0; block < blocks; ++block) sum += by_label[block * classes + c];
    right_by_label[c] = (float)sum;
  }
}

template void train(const Threads&, const Shape&, const Samples<uint8_t>&, const Orders&, const Trained&);
template void train(const Threads&, const Shape&, const Samples<float>&, const Orders&, const Trained&);
template void judge(const Threads&, const Shape&, const Samples<uint8_t>&, const float*, const float*, int64_t, int64_t,
                    float*, float*);
template void judge(const Threads&, const Shape&, const Samples<float>&, const float*, const float*, int64_t, int64_t,
                    float*, float*);

}  // namespace paota
