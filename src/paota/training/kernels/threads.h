// What kernels share: a pool of threads, and a loop over items that uses it.

#pragma once

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>

namespace paota {

struct Threads {
  int64_t number;  // including the caller's own
  std::function<void(std::function<void()>)> schedule;
};

// Calls make_worker() once a thread, then worker(item) for every item, whichever thread is free first.
//
// Waits for items, not for tasks: all threads of the pool may be waiting here for calls of their own, and a task that
// nobody has time for must not be missed. A task that comes late finds nothing left and touches nothing of the caller's.
template <typename MakeWorker>
void parallel_for(const Threads& pool, int64_t items, const MakeWorker& make_worker) {
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
  for (int64_t t = 1; t < std::min(pool.number, items); ++t) pool.schedule(work);
  work();
  std::unique_lock<std::mutex> lock(shared->mutex);
  shared->finished.wait(lock, [&] { return shared->done.load() >= items; });
}

}  // namespace paota
