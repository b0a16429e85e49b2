#pragma once

// The one background thread of the process that links rows into graphs. Started when
// the first partition needs it and never joined: it holds no files and no locks of the
// interpreter, and ends with the process. Thread safety: every function here may be
// called from any thread, by a caller that holds no partition's lock.

#include <condition_variable>
#include <span>

#include "sync/mutex.hpp"
#include "sync/ref.hpp"
#include "sync/thread_annotations.hpp"
#include "vecall/types.hpp"

namespace vecall {

class EncodedBatch;
class Partition;

// Change a partition under its lock, then have its rows linked if there is need.
void add_rows(const Ref<Partition>& partition, const EncodedBatch& batch);
// Has what the partition has to link linked.
void request_links(const Ref<Partition>& partition);
std::size_t remove_rows(const Ref<Partition>& partition, std::span<const RowId> ids);

class BackgroundLinker {
 public:
  static BackgroundLinker& shared();

  // Queues the partition's rows to be linked; a partition without another owner is
  // dropped from the queue. Takes no memory. Where no thread can be started, searches
  // scan the rows until a later request starts one.
  void request(const Ref<Partition>& partition) noexcept;

 private:
  BackgroundLinker();
  void start() noexcept VECALL_REQUIRES(mutex_);
  [[noreturn]] void run() noexcept;
  void push(const Ref<Partition>& partition) noexcept VECALL_REQUIRES(mutex_);
  Ref<Partition> pop() noexcept VECALL_REQUIRES(mutex_);

  // A child of fork has no such thread: `before` waits for it to hold no lock, `after`
  // in the child starts it again when it is needed.
  // The locks are held from one function to another, which the analysis cannot follow.
  static void before_fork() VECALL_NO_THREAD_SAFETY_ANALYSIS;
  static void after_fork_in_parent() VECALL_NO_THREAD_SAFETY_ANALYSIS;
  static void after_fork_in_child() VECALL_NO_THREAD_SAFETY_ANALYSIS;

  Mutex working_;  // held while rows are linked; taken before mutex_
  Mutex mutex_;
  std::condition_variable wanted_;  // with mutex_
  // Partitions that wait, each linked to the next one by itself.
  Ref<Partition> first_ VECALL_GUARDED_BY(mutex_);
  Partition* last_ VECALL_GUARDED_BY(mutex_) = nullptr;
  bool started_ VECALL_GUARDED_BY(mutex_) = false;
};

}  // namespace vecall
