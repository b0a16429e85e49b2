#pragma once

// Many queries to one partition, shared by threads.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <span>
#include <thread>
#include <vector>

#include "partition/partition.hpp"
#include "vecall/types.hpp"

namespace vecall::bindings {

// REQUIRES: the partition's lock is held, shared.
struct BatchSearch {
  const Partition& partition;
  const std::vector<float>& units;
  const std::vector<std::uint8_t>& is_zero;
  std::size_t width;
  std::size_t ef;
  bool exact;
  const Filter& filter;
  std::int64_t* ids;
  float* scores;

  void answer(std::size_t threads) {
    const std::size_t most =
        std::max<std::size_t>(1, std::thread::hardware_concurrency());
    const std::size_t count = std::min({threads, most, is_zero.size()});
    std::vector<std::exception_ptr> failures(std::max<std::size_t>(1, count));
    const auto guarded = [this, count, &failures](std::size_t i) {
      try {
        answer_some(i, std::max<std::size_t>(1, count));
      } catch (...) {
        failures[i] = std::current_exception();
      }
    };
    {
      std::vector<std::jthread> helpers;
      for (std::size_t i = 1; i < count; ++i) helpers.emplace_back(guarded, i);
      guarded(0);
    }
    for (const std::exception_ptr& failure : failures) {
      if (failure) std::rethrow_exception(failure);
    }
  }
  void answer_some(std::size_t begin, std::size_t step) {
    const std::size_t dim = partition.dim();
    std::vector<Hit> hits;
    for (std::size_t row = begin; row < is_zero.size(); row += step) {
      if (is_zero[row] != 0) continue;
      const std::span<const float> unit(units.data() + row * dim, dim);
      partition.search({unit, width, ef, exact, filter}, hits);
      for (std::size_t i = 0; i < hits.size(); ++i) {
        ids[row * width + i] = hits[i].id;
        scores[row * width + i] = hits[i].score;
      }
    }
  }
};

}  // namespace vecall::bindings
