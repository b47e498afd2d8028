# SPDX-License-Identifier: Apache-2.0
# The flags that hold for every target. Optimisation levels are set here and not by the build type, so that one level
# holds per kind of source: -O2 natively, -Oz on the web, -O3 for kernels in both (a later -O wins).
if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang" OR CMAKE_CXX_COMPILER_VERSION VERSION_LESS 19)
  message(FATAL_ERROR "Sinter is built with clang 19 or newer (found ${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION}); "
                      "run ./dev setup, or pass -DCMAKE_CXX_COMPILER=clang++-19")
endif()

find_program(CCACHE ccache)
if(CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # Relative paths in the cache key, so that clones of the repository share what they compile.
  set(CMAKE_CXX_COMPILER_LAUNCHER env CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=1 ${CCACHE})
endif()

set(CMAKE_CXX_FLAGS_RELEASE "-DNDEBUG")
add_compile_options(-Wall -Wextra -Wno-missing-field-initializers -fcolor-diagnostics)
if(SINTER_WERROR)
  add_compile_options(-Werror)
endif()
include_directories(${CMAKE_SOURCE_DIR})

set(SINTER_ENGINE_OPTIONS -fno-exceptions -fno-rtti)
if(SINTER_KERNEL_SOURCES)
  set_source_files_properties(${SINTER_KERNEL_SOURCES} PROPERTIES COMPILE_OPTIONS -O3)
  if(WASI)
    # Unrolling pays in products and convolutions; elsewhere it costs download and gains nothing.
    set(memory_bound ${SINTER_KERNEL_SOURCES})
    list(FILTER memory_bound EXCLUDE REGEX "(gemm|matrix|conv|depthwise|spatial)")
    set_source_files_properties(${memory_bound} PROPERTIES COMPILE_OPTIONS "-O2;-fno-unroll-loops")
  endif()
endif()
