# Toolchain: Windows on x86-64 or 64-bit ARM, by the clang of `pip install ziglang==0.14.1`, on
# any system. -DVECALL_ZIG=PATH names the program; -DVECALL_WINDOWS_CPU=aarch64 the ARM.
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES VECALL_ZIG VECALL_WINDOWS_CPU)
if(NOT VECALL_ZIG)
  find_program(VECALL_PYTHON NAMES python3 python REQUIRED)
  execute_process(COMMAND ${VECALL_PYTHON} -c "import pathlib, ziglang as z
print((pathlib.Path(z.__file__).parent / 'zig').as_posix())"
                  OUTPUT_VARIABLE VECALL_ZIG OUTPUT_STRIP_TRAILING_WHITESPACE
                  COMMAND_ERROR_IS_FATAL ANY)
endif()
if(NOT VECALL_WINDOWS_CPU)
  set(VECALL_WINDOWS_CPU x86_64)
endif()
set(CMAKE_SYSTEM_NAME Windows)
set(CMAKE_SYSTEM_PROCESSOR ${VECALL_WINDOWS_CPU})
set(CMAKE_CXX_COMPILER ${VECALL_ZIG} c++ -target ${VECALL_WINDOWS_CPU}-windows-gnu)
set(CMAKE_RC_COMPILER ${VECALL_ZIG})  # CMake asks for one; there are no resources
# CMake takes no arguments of these two, so the rules name them.
set(CMAKE_CXX_ARCHIVE_CREATE "\"${VECALL_ZIG}\" ar qc <TARGET> <OBJECTS>")
set(CMAKE_CXX_ARCHIVE_APPEND "\"${VECALL_ZIG}\" ar q <TARGET> <OBJECTS>")
set(CMAKE_CXX_ARCHIVE_FINISH "\"${VECALL_ZIG}\" ranlib <TARGET>")
# zig compiles its C++ library once more for the CPU flags of each program that it links.
set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)
