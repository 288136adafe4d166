// What JAX may call: checks what it is given, and hands it to the kernel.

#include <algorithm>
#include <type_traits>

#include "mlp.h"
#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;

namespace {

template <ffi::DataType type>
using In = ffi::Buffer<type>;
using Out = ffi::ResultBuffer<ffi::F32>;

paota::Shape shape_of(ffi::Span<const int32_t> widths, const In<ffi::S32>& quad) {
  return {{widths.begin(), widths.end()}, quad.typed_data(), (int64_t)quad.element_count()};
}

paota::Threads threads_of(ffi::ThreadPool& pool) {
  return {std::max<int64_t>(pool.num_threads(), 1), [&pool](std::function<void()> task) { pool.Schedule(std::move(task)); }};
}

// Calls f with the samples, of whichever type their values are.
template <typename F>
void with_samples(const In<ffi::S32>& start, const In<ffi::U16>& block, const ffi::AnyBuffer& value,
                  const In<ffi::S32>& label, const F& f) {
  const auto of = [&](auto* values) {
    using Value = std::remove_const_t<std::remove_pointer_t<decltype(values)>>;
    f(paota::Samples<Value>{start.typed_data(), block.typed_data(), values, label.typed_data()});
  };
  if (value.element_type() == ffi::U8) of(static_cast<const uint8_t*>(value.untyped_data()));
  else of(static_cast<const float*>(value.untyped_data()));
}

bool has_values(const ffi::AnyBuffer& value) { return value.element_type() == ffi::U8 || value.element_type() == ffi::F32; }

ffi::Error train(ffi::ThreadPool pool, ffi::Span<const int32_t> widths, In<ffi::F32> ring, In<ffi::S32> slot,
                 In<ffi::PRED> ready, In<ffi::S32> sample, In<ffi::F32> learning_rate, In<ffi::S32> quad,
                 In<ffi::S32> start, In<ffi::U16> block, ffi::AnyBuffer value, In<ffi::S32> label, Out local, Out update,
                 Out loss) {
  const paota::Shape shape = shape_of(widths, quad);
  const int64_t versions = ring.dimensions()[0], devices = slot.dimensions()[0];
  if (ring.dimensions()[1] != paota::parameters(shape))
    return ffi::Error::InvalidArgument("the ring buffer does not hold this network");
  if (std::any_of(slot.typed_data(), slot.typed_data() + devices, [&](int32_t v) { return v < 0 || v >= versions; }))
    return ffi::Error::InvalidArgument("no such slot in the ring buffer");
  if (!has_values(value)) return ffi::Error::InvalidArgument("samples are bytes or floats");
  with_samples(start, block, value, label, [&](const auto& data) {
    paota::train(threads_of(pool), shape, data,
                 {versions, devices, sample.dimensions()[1], sample.dimensions()[2], ring.typed_data(), slot.typed_data(),
                  ready.typed_data(), sample.typed_data(), learning_rate.typed_data()[0]},
                 {local->typed_data(), update->typed_data(), loss->typed_data()});
  });
  return ffi::Error::Success();
}

ffi::Error judge(ffi::ThreadPool pool, ffi::Span<const int32_t> widths, In<ffi::F32> model, In<ffi::S32> range,
                 In<ffi::S32> quad, In<ffi::S32> start, In<ffi::U16> block, ffi::AnyBuffer value, In<ffi::S32> label,
                 In<ffi::F32> weight, Out judged, Out right_by_label) {
  const paota::Shape shape = shape_of(widths, quad);
  if ((int64_t)model.element_count() != paota::parameters(shape))
    return ffi::Error::InvalidArgument("not this network's parameters");
  const int64_t begin = std::max(range.typed_data()[0], 0);
  const int64_t stop = std::min<int64_t>(range.typed_data()[1], label.element_count());
  if (!has_values(value)) return ffi::Error::InvalidArgument("samples are bytes or floats");
  with_samples(start, block, value, label, [&](const auto& data) {
    paota::judge(threads_of(pool), shape, data, model.typed_data(), weight.typed_data(), begin, stop, judged->typed_data(),
                 right_by_label->typed_data());
  });
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
                                  .Arg<ffi::Buffer<ffi::S32>>()   // quad [4 blocks of a row]
                                  .Arg<ffi::Buffer<ffi::S32>>()   // start [N + 1]
                                  .Arg<ffi::Buffer<ffi::U16>>()   // block
                                  .Arg<ffi::AnyBuffer>()           // value
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
                                  .Arg<ffi::Buffer<ffi::S32>>()   // quad [4 blocks of a row]
                                  .Arg<ffi::Buffer<ffi::S32>>()   // start [N + 1]
                                  .Arg<ffi::Buffer<ffi::U16>>()   // block
                                  .Arg<ffi::AnyBuffer>()           // value
                                  .Arg<ffi::Buffer<ffi::S32>>()   // label [N]
                                  .Arg<ffi::Buffer<ffi::F32>>()   // weight [N]
                                  .Ret<ffi::Buffer<ffi::F32>>()   // accuracy, loss
                                  .Ret<ffi::Buffer<ffi::F32>>()); // right answers by label [classes]
