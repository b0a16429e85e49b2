#pragma once

// The checked options of an Index or an Engine as what their partitions share.

#include <cstddef>

#include "partition/partition_space.hpp"
#include "sync/ref.hpp"
#include "vecall/options.hpp"

namespace vecall {

// Throws InvalidArgumentError, LimitExceededError or ConfigError.
Ref<const PartitionSpace> make_space(std::size_t dim, const Options& options);

}  // namespace vecall
