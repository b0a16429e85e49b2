# Language level, warnings, sanitizers and link-time optimisation for every target.
# Included by the top level before add_subdirectory(cpp), and by cpp/ when it stands alone or
# is a part of another project.
include_guard(GLOBAL)

# The oldest compilers that .ci/oldest_compilers builds with.
foreach(oldest "GNU 11" "Clang 14" "AppleClang 15")
  separate_arguments(oldest)
  list(GET oldest 0 name)
  list(GET oldest 1 version)
  if(CMAKE_CXX_COMPILER_ID STREQUAL name AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS version)
    message(FATAL_ERROR "vecall needs ${name} ${version} or newer; this is "
                        "${CMAKE_CXX_COMPILER_VERSION}: set CXX to a newer compiler")
  endif()
endforeach()

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()

# A compiler may join a * b + c into one operation where the CPU has it: every ARM has, the
# x86-64 baseline has not, and the joined one rounds once less. Codes and scores must be the
# same bits on both, so only the kernels that ask for it by name get it.
add_compile_options(-ffp-contract=off)

set(VECALL_SANITIZE "" CACHE STRING "Sanitizers, for example address,undefined or thread")

# Snapshots are untrusted bytes: an overflow shall end the process, and no table of
# addresses stay writable. Sanitizers do the checks of _FORTIFY_SOURCE themselves, it needs
# an optimised build, and some compilers define it already, perhaps higher.
add_compile_options(-fstack-protector-strong)
if(NOT VECALL_SANITIZE)
  include(CheckCXXSourceCompiles)
  set(CMAKE_REQUIRED_FLAGS -O2)
  check_cxx_source_compiles("#ifndef _FORTIFY_SOURCE\n#error\n#endif\nint main() {}"
                            VECALL_FORTIFIED_BY_COMPILER)
  unset(CMAKE_REQUIRED_FLAGS)
  if(NOT VECALL_FORTIFIED_BY_COMPILER)
    add_compile_options(
      "$<$<CONFIG:Release,RelWithDebInfo,MinSizeRel>:-D_FORTIFY_SOURCE=2>")
  endif()
endif()
if(UNIX AND NOT APPLE)
  add_link_options(LINKER:-z,relro LINKER:-z,now LINKER:-z,noexecstack)
endif()

# Assertions of what a caller must keep (include/vecall/assert.hpp).
if(VECALL_SANITIZE)
  add_compile_definitions(VECALL_ASSERTIONS=1)
else()
  add_compile_definitions("$<$<CONFIG:Debug>:VECALL_ASSERTIONS=1>")
endif()

# Off where the archive is for others: its objects could be linked by the same compiler alone.
if(NOT DEFINED VECALL_LTO_DEFAULT)
  set(VECALL_LTO_DEFAULT OFF)
endif()
option(VECALL_LTO "Link-time optimisation of the core and the module" ${VECALL_LTO_DEFAULT})
option(VECALL_WERROR "Treat warnings as errors" OFF)

add_library(vecall_warnings INTERFACE)
target_compile_options(vecall_warnings INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wconversion
                                                 -Wno-sign-conversion)
if(VECALL_WERROR)
  target_compile_options(vecall_warnings INTERFACE -Werror)
endif()

if(VECALL_SANITIZE)
  add_compile_options(-fsanitize=${VECALL_SANITIZE} -fno-omit-frame-pointer
                      -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${VECALL_SANITIZE})
endif()

function(vecall_enable_lto target)
  if(NOT VECALL_LTO OR VECALL_SANITIZE)
    return()
  endif()
  include(CheckIPOSupported)
  check_ipo_supported(RESULT supported LANGUAGES CXX OUTPUT ignored)
  if(supported)
    set_property(TARGET ${target} PROPERTY INTERPROCEDURAL_OPTIMIZATION ON)
  endif()
endfunction()
