// The kernel's interface. What JAX hands over is turned into it by mlp_ffi.cc.

#pragma once

#include <cstdint>
#include <vector>

#include "threads.h"

namespace paota {

struct Shape {                  // of the network: ReLU between layers of `widths` units
  std::vector<int64_t> widths;
  const int32_t* quad;          // where in a row of inputs each run of 4 neighbours of a block begins; -1: padding
  int64_t quads;
};

template <typename Value>       // uint8_t, which stands for 0..1, or float
struct Samples {                // row i: the blocks start[i]..start[i+1] of 16 values each; the others are zeros
  const int32_t* start;
  const uint16_t* block;        // which one of the row's blocks
  const Value* value;
  const int32_t* label;
};

struct Orders {                 // device k starts from version slot[k] of the ring buffer
  int64_t versions, devices, steps, batch;
  const float* ring;            // [versions, d]
  const int32_t* slot;          // [devices]
  const bool* ready;            // [devices]
  const int32_t* sample;        // [devices, steps, batch]
  float learning_rate;
};

struct Trained {
  float* local;                 // [devices, d]
  float* update;                // [devices, d]
  float* loss;                  // [devices], mean over the mini-batches
};

int64_t parameters(const Shape& shape);  // d

// Every ready device: from its version of the global model through all its mini-batches.
template <typename Value>
void train(const Threads&, const Shape&, const Samples<Value>&, const Orders&, const Trained&);

// Weighted accuracy and cross-entropy of one model over the samples begin..stop-1, and how many samples of each label
// it gets right.
template <typename Value>
void judge(const Threads&, const Shape&, const Samples<Value>&, const float* model, const float* weight, int64_t begin,
           int64_t stop, float* accuracy_and_loss, float* right_by_label);

}  // namespace paota
