#pragma once

// The one background thread of the process that links rows into graphs. Started when
// the first partition needs it and never joined: it holds no files and no locks of the
// interpreter, and ends with the process.

#include <condition_variable>
#include <mutex>
#include <span>

#include "sync/ref.hpp"
#include "vecall/types.hpp"

namespace vecall {

class Partition;

// Change a partition under its lock, then have its rows linked if there is need.
void add_rows(const Ref<Partition>& partition, const RowBatch& batch);
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
  void start() noexcept;
  [[noreturn]] void run() noexcept;
  // The following need mutex_.
  void push(const Ref<Partition>& partition) noexcept;
  Ref<Partition> pop() noexcept;

  // A child of fork has no such thread: `before` waits for it to hold no lock, `after`
  // in the child starts it again when it is needed.
  static void before_fork();
  static void after_fork_in_parent();
  static void after_fork_in_child();

  std::mutex working_;  // held while rows are linked
  std::mutex mutex_;    // guards what follows
  std::condition_variable wanted_;
  // Partitions that wait, each linked to the next one by itself.
  Ref<Partition> first_;
  Partition* last_ = nullptr;
  bool started_ = false;
};

}  // namespace vecall
