# The library vecall_kernels: the choice of an instruction set, and one object library for
# each of them, the only place with -m flags.
# A tier is compiled when the compiler can emit it; whether the CPU can run it is decided at
# run time (src/kernels/dispatch.cpp). Kernels stay out of link-time optimisation so that their
# objects can be inspected and no other code inherits their flags.
include(CheckCXXSourceCompiles)

# The file of a tier is src/kernels/kernels_TIER.cpp, in lower case; its macro in dispatch.cpp
# is VECALL_HAVE_TIER.
function(vecall_add_tier library tier flags probe)
  set(CMAKE_REQUIRED_FLAGS "${flags}")
  check_cxx_source_compiles("${probe}" VECALL_CAN_EMIT_${tier})
  if(NOT VECALL_CAN_EMIT_${tier})
    return()
  endif()
  string(TOLOWER ${tier} name)
  add_library(vecall_kernels_${name} OBJECT src/kernels/kernels_${name}.cpp)
  separate_arguments(flag_list UNIX_COMMAND "${flags}")
  # -Wno-psabi: rotation_body.hpp passes vectors that are wider than some targets' registers,
  # to functions of its own file only, where no other convention can meet them.
  target_compile_options(vecall_kernels_${name} PRIVATE ${flag_list} -O3 -fno-exceptions
                                                        -fno-rtti -Wno-psabi)
  target_include_directories(vecall_kernels_${name} PRIVATE src include)
  target_link_libraries(vecall_kernels_${name} PRIVATE vecall_warnings)
  set_property(TARGET vecall_kernels_${name} PROPERTY INTERPROCEDURAL_OPTIMIZATION OFF)
  target_sources(${library} PRIVATE $<TARGET_OBJECTS:vecall_kernels_${name}>)
  target_compile_definitions(${library} PRIVATE VECALL_HAVE_${tier}=1)
endfunction()

# Makes vecall_kernels and links `core` to it.
function(vecall_add_kernels core)
  add_library(vecall_kernels STATIC src/kernels/cpu.cpp src/kernels/dispatch.cpp
                                    src/kernels/fail_assertion.cpp)
  target_include_directories(vecall_kernels PRIVATE src include)
  target_link_libraries(vecall_kernels PRIVATE $<BUILD_INTERFACE:vecall_warnings>)
  target_link_libraries(${core} PRIVATE vecall_kernels)

  vecall_add_tier(vecall_kernels SCALAR "" "int main() { return 0; }")
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64|amd64")
    # These flags imply SSE4.2 and with it the CRC instruction.
    vecall_add_tier(vecall_kernels AVX2 "-mavx2 -mfma" "
      #include <immintrin.h>
      int main() { __m256 a = _mm256_setzero_ps(); a = _mm256_fmadd_ps(a, a, a);
                   return static_cast<int>(_mm256_cvtss_f32(a)) +
                          static_cast<int>(_mm_crc32_u64(0, 1)); }")
    set(avx512 -mavx2 -mfma -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512vnni
               -mprefer-vector-width=512)
    if(VECALL_ZIG)
      list(APPEND avx512 -mevex512)  # its clang takes AVX-512 for that of 256 bits
    endif()
    list(JOIN avx512 " " avx512)
    vecall_add_tier(vecall_kernels AVX512_VNNI "${avx512}" "
      #include <immintrin.h>
      int main() { __m512i a = _mm512_setzero_si512(); a = _mm512_dpbusd_epi32(a, a, a);
                   return _mm512_reduce_add_epi32(a); }")
    # The headers of GCC 12 warn about their own undefined registers (GCC PR 105593).
    if(TARGET vecall_kernels_avx512_vnni AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND
       CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
      target_compile_options(vecall_kernels_avx512_vnni PRIVATE -Wno-uninitialized
                                                                -Wno-maybe-uninitialized)
    endif()
  elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64|ARM64")
    vecall_add_tier(vecall_kernels NEON "" "
      #include <arm_neon.h>
      int main() { float32x4_t a = vdupq_n_f32(0); a = vfmaq_f32(a, a, a);
                   return static_cast<int>(vaddvq_f32(a)); }")
    vecall_add_tier(vecall_kernels NEON_DOTPROD "-march=armv8.2-a+dotprod+crc" "
      #include <arm_acle.h>
      #include <arm_neon.h>
      int main() { int32x4_t a = vdupq_n_s32(0); int8x16_t b = vdupq_n_s8(1);
                   a = vdotq_s32(a, b, b);
                   return vaddvq_s32(a) + static_cast<int>(__crc32cd(0, 1)); }")
  endif()
endfunction()
