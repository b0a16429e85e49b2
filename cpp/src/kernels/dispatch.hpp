#pragma once

// Chooses the kernels once: the best instruction set that was compiled in and that the
// CPU can run, or the one that the environment variable VECALL_ISA names.
// Any thread may call this at any time; the choice does not change.

#include <string_view>
#include <vector>

#include "kernels/kernel_table.hpp"

namespace vecall::kernels {

// The chosen table; constant for the life of the process. Throws ConfigError if
// VECALL_ISA is unknown or cannot run here.
const KernelTable& active();

// Names, best first.
std::vector<std::string_view> compiled();
std::vector<std::string_view> runnable();

// The table of one runnable instruction set; throws ConfigError for any other name.
const KernelTable& table_of(std::string_view name);

}  // namespace vecall::kernels
