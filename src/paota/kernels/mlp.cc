// Trains and judges many small multi-layer perceptrons, each wholly inside one core's cache.
//
// Inputs are rows of bytes stored sparsely (images are mostly black), so the first layer touches lit pixels only.
// Weights are held transposed, [in][out padded to whole vectors]: one pixel then scales one contiguous row, forwards
// and backwards alike. One device is trained from first to last step by one thread, and partial sums of a judgement
// belong to fixed blocks of samples: the bits of a result depend neither on the number of threads nor on their luck.
//
// Arithmetic is plain float32 with GCC/Clang vector extensions, which compile for any processor.

#include <algorithm>
#include <atomic>
#include <cmath>
#include <condition_variable>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <mutex>
#include <new>
#include <vector>

#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;

namespace {

constexpr int kLanes = 16;
constexpr int64_t kSamplesPerBlock = 256;  // of a judgement
constexpr int64_t kSamplesPerPass = 32;
constexpr int64_t kPrefetch = 8;           // samples ahead: they lie anywhere in memory

typedef float Vec __attribute__((vector_size(64)));
typedef int32_t IntVec __attribute__((vector_size(64)));
typedef float HalfVec __attribute__((vector_size(32)));
typedef float QuarterVec __attribute__((vector_size(16)));

inline Vec splat(float x) { return Vec{} + x; }
inline IntVec lane_numbers() { return IntVec{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}; }
inline int64_t padded(int64_t n) { return (n + kLanes - 1) / kLanes * kLanes; }

inline Vec max_of(Vec a, Vec b) { return a > b ? a : b; }

// Lanes are combined by halves: always in the same order.
inline float sum_lanes(Vec v) {
  HalfVec half[2];
  std::memcpy(half, &v, sizeof v);
  half[0] += half[1];
  QuarterVec quarter[2];
  std::memcpy(quarter, half, sizeof half[0]);
  quarter[0] += quarter[1];
  return (quarter[0][0] + quarter[0][2]) + (quarter[0][1] + quarter[0][3]);
}

inline float max_lanes(Vec v) {
  HalfVec half[2];
  std::memcpy(half, &v, sizeof v);
  half[0] = half[0] > half[1] ? half[0] : half[1];
  QuarterVec quarter[2];
  std::memcpy(quarter, half, sizeof half[0]);
  quarter[0] = quarter[0] > quarter[1] ? quarter[0] : quarter[1];
  return std::max(std::max(quarter[0][0], quarter[0][2]), std::max(quarter[0][1], quarter[0][3]));
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

// ---------------------------------------------------------------------------------------------- the two inner loops

// out[0..kTile) = init + sum_t value[t] * rows[offset[t]], over kTile vectors; offsets are in floats.
template <int kTile>
inline void weighted_sum_tile(float* out, const float* init, const float* rows, const uint32_t* offset,
                              const float* value, int64_t n) {
  constexpr int kChains = kTile >= 4 ? 1 : 4 / kTile;  // independent additions hide the latency of each
  Vec sum[kChains][kTile] = {};
  for (int j = 0; j < kTile; ++j) sum[0][j] = ((const Vec*)init)[j];
  int64_t t = 0;
  for (; t + kChains <= n; t += kChains)
    for (int c = 0; c < kChains; ++c) {
      const Vec* row = (const Vec*)(rows + offset[t + c]);
      const Vec x = splat(value[t + c]);
      for (int j = 0; j < kTile; ++j) sum[c][j] += x * row[j];
    }
  for (; t < n; ++t) {
    const Vec* row = (const Vec*)(rows + offset[t]);
    for (int j = 0; j < kTile; ++j) sum[0][j] += splat(value[t]) * row[j];
  }
  for (int j = 0; j < kTile; ++j) {
    Vec total = sum[0][j];
    for (int c = 1; c < kChains; ++c) total += sum[c][j];
    ((Vec*)out)[j] = total;
  }
}

// rows[offset[t]] += value[t] * step, over kTile vectors. The offsets are distinct, which lets us read ahead of writing.
template <int kTile>
inline void rank_one_tile(float* rows, const uint32_t* offset, const float* value, int64_t n, const float* step) {
  constexpr int kAhead = kTile >= 4 ? 1 : 4 / kTile;
  Vec s[kTile];
  for (int j = 0; j < kTile; ++j) s[j] = ((const Vec*)step)[j];
  int64_t t = 0;
  for (; t + kAhead <= n; t += kAhead) {
    Vec changed[kAhead][kTile];
    for (int a = 0; a < kAhead; ++a)
      for (int j = 0; j < kTile; ++j)
        changed[a][j] = ((const Vec*)(rows + offset[t + a]))[j] + splat(value[t + a]) * s[j];
    for (int a = 0; a < kAhead; ++a)
      for (int j = 0; j < kTile; ++j) ((Vec*)(rows + offset[t + a]))[j] = changed[a][j];
  }
  for (; t < n; ++t)
    for (int j = 0; j < kTile; ++j) ((Vec*)(rows + offset[t]))[j] += splat(value[t]) * s[j];
}

#define FOR_EACH_TILE(WIDTH, CALL)                          \
  for (int64_t at = 0; at < (WIDTH);) {                     \
    const int64_t left = ((WIDTH) - at) / kLanes;           \
    if (left >= 4) { constexpr int T = 4; CALL; at += 64; } \
    else if (left >= 2) { constexpr int T = 2; CALL; at += 32; } \
    else { constexpr int T = 1; CALL; at += 16; }           \
  }

inline void weighted_sum(float* out, const float* init, const float* rows, int64_t width, const uint32_t* offset,
                         const float* value, int64_t n) {
  FOR_EACH_TILE(width, (weighted_sum_tile<T>(out + at, init + at, rows + at, offset, value, n)))
}

inline void rank_one(float* rows, int64_t width, const uint32_t* offset, const float* value, int64_t n,
                     const float* step) {
  FOR_EACH_TILE(width, (rank_one_tile<T>(rows + at, offset, value, n, step + at)))
}

// --------------------------------------------------------------------------------------------------------- the data

struct Samples {  // row i: the lit pixels pixel[start[i]..start[i+1]) and their brightness
  const int32_t* start;
  const uint16_t* pixel;
  const uint8_t* value;
  const int32_t* label;

  void prefetch(int64_t i) const {
    for (int64_t at = start[i]; at < start[i + 1]; at += 32) __builtin_prefetch(pixel + at);
    for (int64_t at = start[i]; at < start[i + 1]; at += 64) __builtin_prefetch(value + at);
  }

  int64_t decode(int64_t i, int64_t width, uint32_t* offset, float* brightness) const {
    const int64_t first = start[i], n = start[i + 1] - first;
    for (int64_t t = 0; t < n; ++t) offset[t] = (uint32_t)pixel[first + t] * (uint32_t)width;
    for (int64_t t = 0; t < n; ++t) brightness[t] = (float)value[first + t] * (1.0f / 255.0f);
    return n;
  }
};

// -------------------------------------------------------------------------------------------------------- the network

struct Layer {
  int64_t in, out, width;  // width: `out` padded to whole vectors
  int64_t bias, weight;    // where they stand in the packed parameters
  int64_t flat;            // where the layer stands in the flat parameters: bias [out], weight [out][in]
  int64_t unit;            // where its outputs stand in a sample's row of activations
};

struct Network {
  explicit Network(ffi::Span<const int32_t> widths) {
    for (size_t l = 0; l + 1 < widths.size(); ++l) {
      const int64_t in = widths[l], out = widths[l + 1], width = padded(out);
      layers.push_back({in, out, width, packed_size, packed_size + width, flat_size, units});
      packed_size += width * (1 + in);
      flat_size += out * (1 + in);
      units += width;
      widest = std::max({widest, width, l > 0 ? padded(in) : 0});
      if (l > 0) transposed_size = std::max(transposed_size, out * padded(in));
    }
  }

  void pack(const float* flat, float* packed) const {
    for (const Layer& l : layers) {
      const float* weight = flat + l.flat + l.out;
      std::copy_n(flat + l.flat, l.out, packed + l.bias);
      for (int64_t i0 = 0; i0 < l.in; i0 += kLanes)
        for (int64_t o = 0; o < l.out; ++o)
          for (int64_t i = i0; i < std::min(i0 + kLanes, l.in); ++i)
            packed[l.weight + i * l.width + o] = weight[o * l.in + i];
    }
  }

  void unpack(const float* packed, float* flat) const {
    for (const Layer& l : layers) {
      float* weight = flat + l.flat + l.out;
      std::copy_n(packed + l.bias, l.out, flat + l.flat);
      for (int64_t i0 = 0; i0 < l.in; i0 += kLanes)
        for (int64_t o = 0; o < l.out; ++o)
          for (int64_t i = i0; i < std::min(i0 + kLanes, l.in); ++i)
            weight[o * l.in + i] = packed[l.weight + i * l.width + o];
    }
  }

  std::vector<Layer> layers;
  int64_t packed_size = 0, flat_size = 0, units = 0, widest = 0, transposed_size = 0;
};

// The offsets of all rows of a dense layer: 0, width, 2 width, ...
std::vector<std::vector<uint32_t>> dense_offsets(const Network& net, bool transposed) {
  std::vector<std::vector<uint32_t>> all;
  for (size_t l = 0; l < net.layers.size(); ++l) {
    const int64_t rows = transposed ? net.layers[l].out : net.layers[l].in;
    const int64_t width = transposed ? padded(net.layers[l].in) : net.layers[l].width;
    std::vector<uint32_t> offsets;
    if (l > 0)  // the first layer's rows are the lit pixels
      for (int64_t i = 0; i < rows; ++i) offsets.push_back((uint32_t)(i * width));
    all.push_back(std::move(offsets));
  }
  return all;
}

class Worker {  // the memory of one thread
 public:
  Worker(const Network& net, int64_t batch)
      : net_(net),
        forward_offsets_(dense_offsets(net, false)),
        backward_offsets_(dense_offsets(net, true)),
        packed_(net.packed_size),
        units_(batch * net.units),
        steps_(batch * net.units),
        offset_(batch * net.layers[0].in),
        brightness_(batch * net.layers[0].in),
        lit_(batch),
        transposed_(net.transposed_size),
        zeros_(net.widest) {}

  // M steps of mini-batch SGD on `packed_`; returns the mean loss seen.
  float train(const float* start, const Samples& data, const int32_t* sample, int64_t steps, int64_t batch,
              float learning_rate) {
    std::copy_n(start, net_.packed_size, (float*)packed_);
    const int64_t all = steps * batch;
    for (int64_t i = 0; i < std::min(all, kPrefetch); ++i) data.prefetch(sample[i]);
    float mean_loss = 0;
    for (int64_t m = 0; m < steps; ++m) {
      const int64_t first = m * batch;
      for (int64_t b = 0; b < batch; ++b) {
        if (first + b + kPrefetch < all) data.prefetch(sample[first + b + kPrefetch]);
        first_layer(packed_, data, sample[first + b], b);
      }
      upper_layers(packed_, batch);
      float loss = 0;
      for (int64_t b = 0; b < batch; ++b) loss += output_step(b, data.label[sample[first + b]], -learning_rate / (float)batch);
      back_propagate(batch);
      for (int64_t b = 0; b < batch; ++b) step(b);
      mean_loss += loss / (float)batch;
    }
    return mean_loss / (float)steps;
  }

  const float* packed() const { return packed_; }
  const float* logits(int64_t b) const { return units_ + b * net_.units + net_.layers.back().unit; }

  void first_layer(const float* packed, const Samples& data, int64_t sample, int64_t b) {
    const Layer& first = net_.layers[0];
    uint32_t* offset = offset_ + b * first.in;
    float* brightness = brightness_ + b * first.in;
    lit_[b] = data.decode(sample, first.width, offset, brightness);
    weighted_sum(units_ + b * net_.units, packed + first.bias, packed + first.weight, first.width, offset, brightness,
                 lit_[b]);
  }

  // All layers above the first for `batch` samples; ReLU is applied to every layer's input.
  void upper_layers(const float* packed, int64_t batch) {
    for (size_t l = 1; l < net_.layers.size(); ++l) {
      const Layer &layer = net_.layers[l], &under = net_.layers[l - 1];
      for (int64_t b = 0; b < batch; ++b) {
        float* below = units_ + b * net_.units + under.unit;
        for (int64_t i = 0; i < under.width; i += kLanes) {
          Vec& v = *(Vec*)(below + i);
          v = v > 0.0f ? v : splat(0.0f);
        }
        weighted_sum(units_ + b * net_.units + layer.unit, packed + layer.bias, packed + layer.weight, layer.width,
                     forward_offsets_[l].data(), below, layer.in);
      }
    }
  }

  // Cross-entropy of a row of logits; leaves softmax in `softmax` (0 beyond the classes) if it is given.
  static float cross_entropy(const float* logits, int64_t classes, int64_t width, int32_t label, float* softmax) {
    Vec top = splat(-std::numeric_limits<float>::infinity());
    for (int64_t i = 0; i < width; i += kLanes)
      top = max_of(masked(logits, i, classes, -std::numeric_limits<float>::infinity()), top);
    const float highest = max_lanes(top);
    Vec total = {};
    for (int64_t i = 0; i < width; i += kLanes) {
      const Vec e = exp_nonpositive(*(const Vec*)(logits + i) - highest);
      const Vec kept = lane_numbers() + (int32_t)i < (int32_t)classes ? e : splat(0.0f);
      total += kept;
      if (softmax) *(Vec*)(softmax + i) = kept;
    }
    const float sum = sum_lanes(total);
    if (softmax)
      for (int64_t i = 0; i < width; i += kLanes) *(Vec*)(softmax + i) *= 1.0f / sum;
    return highest + std::log(sum) - logits[label];
  }

 private:
  static Vec masked(const float* values, int64_t i, int64_t n, float otherwise) {
    return lane_numbers() + (int32_t)i < (int32_t)n ? *(const Vec*)(values + i) : splat(otherwise);
  }

  // Loss of sample b; leaves -eta/B times its gradient with respect to the logits in `steps_`.
  float output_step(int64_t b, int32_t label, float scale) {
    const Layer& top = net_.layers.back();
    float* delta = steps_ + b * net_.units + top.unit;
    const float loss = cross_entropy(logits(b), top.out, top.width, label, delta);
    for (int64_t i = 0; i < top.width; i += kLanes) {
      const IntVec lane = lane_numbers() + (int32_t)i;
      const Vec softmax = *(const Vec*)(delta + i);
      *(Vec*)(delta + i) = (lane == label ? softmax - 1.0f : softmax) * scale;
    }
    return loss;
  }

  // From each layer's step to that of the layer below.
  void back_propagate(int64_t batch) {
    for (size_t l = net_.layers.size() - 1; l > 0; --l) {
      const Layer &layer = net_.layers[l], &under = net_.layers[l - 1];
      const float* weight = packed_ + layer.weight;
      for (int64_t i = 0; i < layer.in; ++i)
        for (int64_t o = 0; o < layer.out; ++o) transposed_[o * under.width + i] = weight[i * layer.width + o];
      for (int64_t b = 0; b < batch; ++b) {
        float* delta = steps_ + b * net_.units + under.unit;
        weighted_sum(delta, zeros_, transposed_, under.width, backward_offsets_[l].data(),
                     steps_ + b * net_.units + layer.unit, layer.out);
        for (int64_t i = 0; i < under.width; i += kLanes) {
          const Vec active = *(const Vec*)(units_ + b * net_.units + under.unit + i);
          *(Vec*)(delta + i) = active > 0.0f ? *(const Vec*)(delta + i) : splat(0.0f);
        }
      }
    }
  }

  void step(int64_t b) {
    const float* units = units_ + b * net_.units;
    const float* steps = steps_ + b * net_.units;
    for (size_t l = 0; l < net_.layers.size(); ++l) {
      const Layer& layer = net_.layers[l];
      const float* delta = steps + layer.unit;
      float* bias = packed_ + layer.bias;
      for (int64_t i = 0; i < layer.width; i += kLanes) *(Vec*)(bias + i) += *(const Vec*)(delta + i);
      if (l == 0)
        rank_one(packed_ + layer.weight, layer.width, offset_ + b * layer.in, brightness_ + b * layer.in, lit_[b], delta);
      else
        rank_one(packed_ + layer.weight, layer.width, forward_offsets_[l].data(), units + net_.layers[l - 1].unit,
                 layer.in, delta);
    }
  }

  const Network& net_;
  std::vector<std::vector<uint32_t>> forward_offsets_, backward_offsets_;
  Scratch<float> packed_, units_, steps_;
  Scratch<uint32_t> offset_;
  Scratch<float> brightness_;
  Scratch<int64_t> lit_;
  Scratch<float> transposed_, zeros_;  // transposed: rows of padding stay zero or meet zeros only
};

// ----------------------------------------------------------------------------------------------------------- threads

// Calls make_worker() once a thread, then worker(item) for every item, whichever thread is free first.
//
// Waits for items, not for tasks: all threads of the pool may be waiting here for calls of their own, and a task that
// nobody has time for must not be missed. A task that comes late finds nothing left and touches nothing of the caller's.
template <typename MakeWorker>
void parallel_for(ffi::ThreadPool& pool, int64_t items, const MakeWorker& make_worker) {
  struct Shared {
    std::atomic<int64_t> next{0}, done{0};
    std::mutex mutex;
    std::condition_variable finished;
  };
  auto shared = std::make_shared<Shared>();
  auto work = [shared, items, &make_worker] {
    int64_t item = shared->next.fetch_add(1), mine = 0;
    if (item >= items) return;
    {
      auto worker = make_worker();
      for (; item < items; item = shared->next.fetch_add(1), ++mine) worker(item);
    }
    if (shared->done.fetch_add(mine) + mine == items) {
      std::lock_guard<std::mutex> lock(shared->mutex);
      shared->finished.notify_all();
    }
  };
  const int64_t threads = std::min<int64_t>(std::max<int64_t>(pool.num_threads(), 1), items);
  for (int64_t t = 1; t < threads; ++t) pool.Schedule([work] { work(); });
  work();
  std::unique_lock<std::mutex> lock(shared->mutex);
  shared->finished.wait(lock, [&] { return shared->done.load() >= items; });
}

// -------------------------------------------------------------------------------------------------- what JAX may call

// Every ready device: from its version of the global model through all its mini-batches.
ffi::Error train(ffi::ThreadPool pool, ffi::Span<const int32_t> widths, ffi::Buffer<ffi::F32> ring,
                 ffi::Buffer<ffi::S32> slot, ffi::Buffer<ffi::PRED> ready, ffi::Buffer<ffi::S32> sample,
                 ffi::Buffer<ffi::F32> learning_rate, ffi::Buffer<ffi::S32> start, ffi::Buffer<ffi::U16> pixel,
                 ffi::Buffer<ffi::U8> value, ffi::Buffer<ffi::S32> label, ffi::ResultBuffer<ffi::F32> local,
                 ffi::ResultBuffer<ffi::F32> update, ffi::ResultBuffer<ffi::F32> loss) {
  const Network net(widths);
  const int64_t devices = slot.dimensions()[0], d = net.flat_size;
  const int64_t steps = sample.dimensions()[1], batch = sample.dimensions()[2];
  if (ring.dimensions()[1] != d) return ffi::Error::InvalidArgument("the ring buffer does not hold this network");
  const Samples data{start.typed_data(), pixel.typed_data(), value.typed_data(), label.typed_data()};

  // The versions that are needed, packed once: many devices start from the same one.
  std::vector<std::unique_ptr<Scratch<float>>> version(ring.dimensions()[0]);
  for (int64_t k = 0; k < devices; ++k) {
    const int32_t v = slot.typed_data()[k];
    if (v < 0 || v >= (int64_t)version.size()) return ffi::Error::InvalidArgument("no such slot in the ring buffer");
    if (!ready.typed_data()[k] || version[v]) continue;
    version[v] = std::make_unique<Scratch<float>>(net.packed_size);
    net.pack(ring.typed_data() + v * d, *version[v]);
  }
  parallel_for(pool, devices, [&] {
    return [&, worker = std::make_shared<Worker>(net, batch)](int64_t k) {
      const int64_t v = slot.typed_data()[k];
      const float* from = ring.typed_data() + v * d;
      float* to = local->typed_data() + k * d;
      float* change = update->typed_data() + k * d;
      if (!ready.typed_data()[k]) {
        std::copy_n(from, d, to);
        std::fill_n(change, d, 0.0f);
        loss->typed_data()[k] = 0.0f;
        return;
      }
      loss->typed_data()[k] = worker->train(*version[v], data, sample.typed_data() + k * steps * batch, steps, batch,
                                            learning_rate.typed_data()[0]);
      net.unpack(worker->packed(), to);
      for (int64_t i = 0; i < d; ++i) change[i] = to[i] - from[i];
    };
  });
  return ffi::Error::Success();
}

// Weighted accuracy and cross-entropy of one model over the samples range[0]..range[1]-1.
ffi::Error judge(ffi::ThreadPool pool, ffi::Span<const int32_t> widths, ffi::Buffer<ffi::F32> model,
                 ffi::Buffer<ffi::S32> range, ffi::Buffer<ffi::S32> start, ffi::Buffer<ffi::U16> pixel, ffi::Buffer<ffi::U8> value,
                 ffi::Buffer<ffi::S32> label, ffi::Buffer<ffi::F32> weight, ffi::ResultBuffer<ffi::F32> judged) {
  const Network net(widths);
  if (model.element_count() != (size_t)net.flat_size) return ffi::Error::InvalidArgument("not this network's parameters");
  const Samples data{start.typed_data(), pixel.typed_data(), value.typed_data(), label.typed_data()};
  const int64_t begin = std::max(range.typed_data()[0], 0);
  const int64_t stop = std::min<int64_t>(range.typed_data()[1], label.element_count());
  const int64_t blocks = std::max<int64_t>(0, (stop - begin + kSamplesPerBlock - 1) / kSamplesPerBlock);
  const int64_t classes = net.layers.back().out, width = net.layers.back().width;
  Scratch<float> packed(net.packed_size);
  net.pack(model.typed_data(), packed);
  std::vector<double> right(blocks), loss(blocks);
  parallel_for(pool, blocks, [&] {
    return [&, worker = std::make_shared<Worker>(net, kSamplesPerPass)](int64_t block) {
      const int64_t end = std::min(stop, begin + (block + 1) * kSamplesPerBlock);
      for (int64_t first = begin + block * kSamplesPerBlock; first < end; first += kSamplesPerPass) {
        const int64_t n = std::min(kSamplesPerPass, end - first);
        for (int64_t b = 0; b < n; ++b) worker->first_layer(packed, data, first + b, b);
        worker->upper_layers(packed, n);
        for (int64_t b = 0; b < n; ++b) {
          const float share = weight.typed_data()[first + b];
          const int32_t answer = data.label[first + b];
          const float* logits = worker->logits(b);
          loss[block] += share * (double)Worker::cross_entropy(logits, classes, width, answer, nullptr);
          bool first_highest = true;  // as argmax: of equal logits the first wins
          for (int32_t c = 0; c < classes; ++c)
            first_highest &= c < answer ? logits[c] < logits[answer] : logits[c] <= logits[answer];
          right[block] += first_highest ? share : 0.0f;
        }
      }
    };
  });
  double all_right = 0, all_loss = 0;
  for (int64_t block = 0; block < blocks; ++block) all_right += right[block], all_loss += loss[block];
  judged->typed_data()[0] = (float)all_right;
  judged->typed_data()[1] = (float)all_loss;
  return ffi::Error::Success();
}

}  // namespace

XLA_FFI_DEFINE_HANDLER_SYMBOL(PaotaTrain, train,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::ThreadPool>()
                                  .Attr<ffi::Span<const int32_t>>("widths")
                                  .Arg<ffi::Buffer<ffi::F32>>()   // ring [versions, d]
                                  .Arg<ffi::Buffer<ffi::S32>>()   // slot [n]
                                  .Arg<ffi::Buffer<ffi::PRED>>()  // ready [n]
                                  .Arg<ffi::Buffer<ffi::S32>>()   // sample [n, M, B]
                                  .Arg<ffi::Buffer<ffi::F32>>()   // learning rate
                                  .Arg<ffi::Buffer<ffi::S32>>()   // start [N + 1]
                                  .Arg<ffi::Buffer<ffi::U16>>()   // pixel
                                  .Arg<ffi::Buffer<ffi::U8>>()    // value
                                  .Arg<ffi::Buffer<ffi::S32>>()   // label [N]
                                  .Ret<ffi::Buffer<ffi::F32>>()   // local model [n, d]
                                  .Ret<ffi::Buffer<ffi::F32>>()   // update [n, d]
                                  .Ret<ffi::Buffer<ffi::F32>>()); // mean loss [n]

XLA_FFI_DEFINE_HANDLER_SYMBOL(PaotaJudge, judge,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::ThreadPool>()
                                  .Attr<ffi::Span<const int32_t>>("widths")
                                  .Arg<ffi::Buffer<ffi::F32>>()   // model [d]
                                  .Arg<ffi::Buffer<ffi::S32>>()   // range [2]
                                  .Arg<ffi::Buffer<ffi::S32>>()   // start [N + 1]
                                  .Arg<ffi::Buffer<ffi::U16>>()   // pixel
                                  .Arg<ffi::Buffer<ffi::U8>>()    // value
                                  .Arg<ffi::Buffer<ffi::S32>>()   // label [N]
                                  .Arg<ffi::Buffer<ffi::F32>>()   // weight [N]
                                  .Ret<ffi::Buffer<ffi::F32>>()); // accuracy, loss
