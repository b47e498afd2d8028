# SPDX-License-Identifier: Apache-2.0
# The native WebGPU device. The library is opened at run time (so that a machine without one still computes on the CPU);
# the build needs its header only.
#   WEBGPU_ROOT         folder with include/webgpu/webgpu.h and lib/*.so; default third_party/webgpu, which ./dev setup fills
#   WEBGPU_INCLUDE_DIR  folder that holds webgpu/webgpu.h
#   WEBGPU_LIBRARY      the shared library that fits the header
# The header and the library must come from the same release: their structures differ between releases.
set(WEBGPU_ROOT ${CMAKE_SOURCE_DIR}/third_party/webgpu CACHE PATH "Installation of a native WebGPU library")

set(SINTER_HAVE_WEBGPU 0)
if(SINTER_WEBGPU)
  find_path(WEBGPU_INCLUDE_DIR webgpu/webgpu.h PATHS ${WEBGPU_ROOT}/include NO_DEFAULT_PATH)
  find_path(WEBGPU_INCLUDE_DIR webgpu/webgpu.h)
  find_library(WEBGPU_LIBRARY NAMES webgpu_wrapper webgpu webgpu_dawn wgpu_native PATHS ${WEBGPU_ROOT}/lib NO_DEFAULT_PATH)
  find_library(WEBGPU_LIBRARY NAMES webgpu webgpu_dawn wgpu_native)
  if(WEBGPU_INCLUDE_DIR AND WEBGPU_LIBRARY)
    set(SINTER_HAVE_WEBGPU 1)
    message(STATUS "WebGPU: ${WEBGPU_LIBRARY}")
  else()
    message(STATUS "WebGPU: not found (set WEBGPU_ROOT, or run ./dev setup); building without the native device")
  endif()
endif()

function(sinter_use_webgpu target)
  target_compile_definitions(${target} PUBLIC SINTER_HAVE_WEBGPU=${SINTER_HAVE_WEBGPU})
  if(NOT SINTER_HAVE_WEBGPU)
    return()
  endif()
  target_include_directories(${target} SYSTEM PRIVATE ${WEBGPU_INCLUDE_DIR})
  # Tried in this order; "$ORIGIN" is the folder of the executable. Only the native device sees the absolute path, so that
  # no other object depends on where the repository lies.
  cmake_path(RELATIVE_PATH WEBGPU_LIBRARY BASE_DIRECTORY ${CMAKE_BINARY_DIR} OUTPUT_VARIABLE relative)
  cmake_path(GET WEBGPU_LIBRARY FILENAME soname)
  set(candidates "$ORIGIN/${relative}" "${WEBGPU_LIBRARY}" "${soname}")
  list(JOIN candidates ":" candidates)
  set(device_sources ${SINTER_NATIVE_SOURCES})
  list(FILTER device_sources INCLUDE REGEX "^engine/gpu/")
  if(device_sources)
    set_property(SOURCE ${device_sources} APPEND PROPERTY COMPILE_DEFINITIONS "SINTER_WEBGPU_LIBRARIES=\"${candidates}\"")
  endif()
endfunction()
