#include "partition/background_linker.hpp"

#include <chrono>
#include <exception>
#include <new>
#include <thread>

#include "partition/encoded_batch.hpp"
#include "partition/partition.hpp"
#include "sync/fork_gate.hpp"
#include "sync/locks.hpp"

namespace vecall {

namespace {

// How long rows wait that could not be linked, for want of memory for example.
constexpr std::chrono::milliseconds kRetryAfter{200};

}  // namespace

void add_rows(const Ref<Partition>& partition, const EncodedBatch& batch) {
  if (partition->add(batch)) BackgroundLinker::shared().request(partition);
}

void request_links(const Ref<Partition>& partition) {
  bool to_link = false;
  {
    const ReaderLock lock(partition->mutex());
    to_link = partition->has_links_to_make();
  }
  if (to_link) BackgroundLinker::shared().request(partition);
}

std::size_t remove_rows(const Ref<Partition>& partition, std::span<const RowId> ids) {
  std::size_t removed = 0;
  bool to_link = false;
  {
    const auto pass = ForkGate::enter();
    const WriterLock lock(partition->mutex());
    removed = partition->remove(ids);
    to_link = partition->has_links_to_make();
  }
  if (to_link) BackgroundLinker::shared().request(partition);
  return removed;
}

BackgroundLinker& BackgroundLinker::shared() {
  static auto* const linker =
      new BackgroundLinker();  // outlives every static destructor
  return *linker;
}

BackgroundLinker::BackgroundLinker() {
  // First, as at a fork the last to be registered goes first: the linker's thread
  // enters the gate with its own lock held.
  ForkGate::shared();
  at_fork(&before_fork, &after_fork_in_parent, &after_fork_in_child);
}

void BackgroundLinker::request(const Ref<Partition>& partition) noexcept {
  const MutexLock lock(mutex_);
  push(partition);
  if (!started_) start();  // in a child of fork what was queued waits for this
  wanted_.notify_one();
}

void BackgroundLinker::push(const Ref<Partition>& partition) noexcept {
  if (partition->is_queued()) return;
  partition->set_queued(true);
  if (last_ == nullptr) {
    first_ = partition;
  } else {
    last_->queue_next(partition);
  }
  last_ = partition.get();
}

Ref<Partition> BackgroundLinker::pop() noexcept {
  Ref<Partition> partition = std::move(first_);
  first_ = partition->take_next();
  if (!first_) last_ = nullptr;
  partition->set_queued(false);
  return partition;
}

void BackgroundLinker::start() noexcept {
  try {
    std::thread(&BackgroundLinker::run, this).detach();
    started_ = true;
  } catch (const std::exception&) {
    // No thread is to be had now; the next request tries again.
  }
}

void BackgroundLinker::run() noexcept {
  for (;;) {
    Ref<Partition> partition;
    {
      const MutexLock lock(mutex_);
      while (!first_) mutex_.wait(wanted_);
      partition = pop();
    }
    if (partition.is_last()) continue;
    bool more = false;
    bool failed = false;
    {
      const MutexLock working(working_);
      try {
        more = partition->link_some();
      } catch (const std::exception&) {
        failed = true;  // rows stay in the tail, where searches find them
      }
    }
    if (failed) std::this_thread::sleep_for(kRetryAfter);
    if (more || failed) request(partition);
  }
}

void BackgroundLinker::before_fork() {
  shared().working_.lock();
  shared().mutex_.lock();
}

void BackgroundLinker::after_fork_in_parent() {
  shared().mutex_.unlock();
  shared().working_.unlock();
}

void BackgroundLinker::after_fork_in_child() {
  BackgroundLinker& linker = shared();
  // The thread may have been waiting: what it left in the condition is of no use here.
  new (&linker.wanted_) std::condition_variable();
  linker.started_ = false;
  linker.mutex_.unlock();
  linker.working_.unlock();
}

}  // namespace vecall
