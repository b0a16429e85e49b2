# One object library for each instruction set: the only place with -m flags.
# A tier is compiled when the compiler can emit it; whether the CPU can run it is decided at
# run time (src/kernels/dispatch.cpp). Kernels stay out of link-time optimisation so that their
# objects can be inspected and no other code inherits their flags.
include(CheckCXXSourceCompiles)

function(vecall_add_tier core tier flags probe)
  set(CMAKE_REQUIRED_FLAGS "${flags}")
  check_cxx_source_compiles("${probe}" VECALL_CAN_EMIT_${tier})
  if(NOT VECALL_CAN_EMIT_${tier})
    return()
  endif()
  string(TOLOWER ${tier} name)
  add_library(vecall_kernels_${name} OBJECT src/kernels/kernels_${name}.cpp)
  separate_arguments(flag_list UNIX_COMMAND "${flags}")
  target_compile_options(vecall_kernels_${name} PRIVATE ${flag_list} -O3 -fno-exceptions
                                                        -fno-rtti)
  target_include_directories(vecall_kernels_${name} PRIVATE src include)
  target_link_libraries(vecall_kernels_${name} PRIVATE vecall_warnings)
  set_property(TARGET vecall_kernels_${name} PROPERTY INTERPROCEDURAL_OPTIMIZATION OFF)
  target_sources(${core} PRIVATE $<TARGET_OBJECTS:vecall_kernels_${name}>)
  target_compile_definitions(${core} PRIVATE VECALL_HAVE_${tier}=1)
endfunction()

function(vecall_add_kernels core)
  vecall_add_tier(${core} SCALAR "" "int main() { return 0; }")
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64|amd64")
    vecall_add_tier(${core} AVX2 "-mavx2 -mfma" "
      #include <immintrin.h>
      int main() { __m256 a = _mm256_setzero_ps(); a = _mm256_fmadd_ps(a, a, a);
                   return static_cast<int>(_mm256_cvtss_f32(a)); }")
  elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64|ARM64")
    vecall_add_tier(${core} NEON "" "
      #include <arm_neon.h>
      int main() { float32x4_t a = vdupq_n_f32(0); a = vfmaq_f32(a, a, a);
                   return static_cast<int>(vaddvq_f32(a)); }")
  endif()
endfunction()
