// What JAX may call: reads shapes off the arrays, and hands them to the kernel.

#include <algorithm>

#include "convolution.h"
#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;

namespace {

using In = ffi::Buffer<ffi::F32>;
using Out = ffi::ResultBuffer<ffi::F32>;
using Numbers = ffi::Span<const int32_t>;

paota::Threads threads_of(ffi::ThreadPool& pool) {
  return {std::max<int64_t>(pool.num_threads(), 1), [&pool](std::function<void()> task) { pool.Schedule(std::move(task)); }};
}

// `window` holds stride, dilation, spread and before, of the height and then of the width.
paota::Convolution shape_of(Numbers window, ffi::Span<const int64_t> x, ffi::Span<const int64_t> kernel,
                            ffi::Span<const int64_t> y) {
  const auto axis = [&](int i) -> paota::Axis {
    return {x[1 + i], kernel[i], y[1 + i], window[4 * i], window[4 * i + 1], window[4 * i + 2], window[4 * i + 3]};
  };
  return {x[0], x[3], y[3], axis(0), axis(1)};
}

ffi::Error convolve(ffi::ThreadPool pool, Numbers window, In x, In kernel, Out y) {
  paota::convolve(threads_of(pool), shape_of(window, x.dimensions(), kernel.dimensions(), y->dimensions()),
                  x.typed_data(), kernel.typed_data(), y->typed_data());
  return ffi::Error::Success();
}

ffi::Error correlate(ffi::ThreadPool pool, Numbers window, In x, In dy, Out kernel) {
  paota::correlate(threads_of(pool), shape_of(window, x.dimensions(), kernel->dimensions(), dy.dimensions()),
                   x.typed_data(), dy.typed_data(), kernel->typed_data());
  return ffi::Error::Success();
}

paota::Activation activation_of(ffi::Span<const int64_t> x, int32_t groups, bool pooled) {
  return {x[0], x[1], x[2], x[3], groups, pooled};
}

ffi::Error activate(ffi::ThreadPool pool, int32_t groups, bool pooled, bool added, In x, In scale, In bias, In shortcut,
                    Out y, Out moments) {
  paota::activate(threads_of(pool), activation_of(x.dimensions(), groups, pooled), x.typed_data(), scale.typed_data(),
                  bias.typed_data(), added ? shortcut.typed_data() : nullptr, y->typed_data(), moments->typed_data());
  return ffi::Error::Success();
}

ffi::Error activate_gradient(ffi::ThreadPool pool, int32_t groups, bool pooled, bool added, In x, In scale, In bias,
                             In shortcut, In moments, In dy, Out dx, Out dshortcut, Out sums) {
  paota::activate_gradient(threads_of(pool), activation_of(x.dimensions(), groups, pooled), x.typed_data(),
                           scale.typed_data(), bias.typed_data(), added ? shortcut.typed_data() : nullptr,
                           moments.typed_data(), dy.typed_data(), dx->typed_data(), dshortcut->typed_data(),
                           sums->typed_data());
  return ffi::Error::Success();
}

}  // namespace

XLA_FFI_DEFINE_HANDLER_SYMBOL(PaotaConvolve, convolve,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::ThreadPool>()
                                  .Attr<Numbers>("window")
                                  .Arg<In>()    // x [images, height, width, channels]
                                  .Arg<In>()    // kernel [height, width, channels, outputs]
                                  .Ret<In>());  // y [images, height, width, outputs]

XLA_FFI_DEFINE_HANDLER_SYMBOL(PaotaCorrelate, correlate,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::ThreadPool>()
                                  .Attr<Numbers>("window")
                                  .Arg<In>()    // x [images, height, width, channels]
                                  .Arg<In>()    // dy [images, height, width, outputs]
                                  .Ret<In>());  // the kernel's gradient

XLA_FFI_DEFINE_HANDLER_SYMBOL(PaotaActivate, activate,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::ThreadPool>()
                                  .Attr<int32_t>("groups")
                                  .Attr<bool>("pooled")
                                  .Attr<bool>("added")
                                  .Arg<In>()    // x [images, height, width, channels]
                                  .Arg<In>()    // scale [channels]
                                  .Arg<In>()    // bias [channels]
                                  .Arg<In>()    // shortcut, like x; anything unless `added`
                                  .Ret<In>()    // y
                                  .Ret<In>());  // moments [images, groups, 2]

XLA_FFI_DEFINE_HANDLER_SYMBOL(PaotaActivateGradient, activate_gradient,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::ThreadPool>()
                                  .Attr<int32_t>("groups")
                                  .Attr<bool>("pooled")
                                  .Attr<bool>("added")
                                  .Arg<In>()    // x
                                  .Arg<In>()    // scale
                                  .Arg<In>()    // bias
                                  .Arg<In>()    // shortcut
                                  .Arg<In>()    // moments
                                  .Arg<In>()    // dy
                                  .Ret<In>()    // dx
                                  .Ret<In>()    // dshortcut, like x; anything unless `added`
                                  .Ret<In>());  // sums [images, 2, channels]
