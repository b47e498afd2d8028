# SPDX-License-Identifier: Apache-2.0
# The native WebGPU device. The library is opened at run time (so that a machine without one still computes on the CPU);
# the build needs its header only.
#   WEBGPU_ROOT         folder with include/webgpu/webgpu.h and lib/*.so; default third_party/webgpu, which ./dev setup fills
#   WEBGPU_INCLUDE_DIR  folder that holds webgpu/webgpu.h
#   WEBGPU_LIBRARY      the shared library that fits the header
# The header and the library must come from the same release: their structures differ between releases.
set(WEBGPU_ROOT ${CMAKE_SOURCE_DIR}/third_party/webgpu CACHE PATH "Installation of a native WebGPU library")

# Runs webgpu_match.cc once per pair of header and library.
function(sinter_check_webgpu_match)
  file(SIZE ${WEBGPU_LIBRARY} size)
  set(pair "${WEBGPU_INCLUDE_DIR};${WEBGPU_LIBRARY};${size}")
  if("${WEBGPU_MATCHES}" STREQUAL "${pair}")
    return()
  endif()
  unset(webgpu_match_runs CACHE)
  try_run(webgpu_match_runs webgpu_match_compiles ${CMAKE_BINARY_DIR}/webgpu_match ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/webgpu_match.cc
          CMAKE_FLAGS "-DINCLUDE_DIRECTORIES=${WEBGPU_INCLUDE_DIR}" LINK_LIBRARIES ${CMAKE_DL_LIBS}
          COMPILE_OUTPUT_VARIABLE compile_output RUN_OUTPUT_VARIABLE run_output ARGS ${WEBGPU_LIBRARY})
  if(NOT webgpu_match_compiles)
    message(FATAL_ERROR "${WEBGPU_INCLUDE_DIR}/webgpu/webgpu.h does not have the interface that Sinter is written for. Point "
                        "WEBGPU_ROOT at another release, or pass -DSINTER_WEBGPU=OFF.\n${compile_output}")
  elseif(NOT webgpu_match_runs EQUAL 0)
    message(FATAL_ERROR "${WEBGPU_LIBRARY} does not fit ${WEBGPU_INCLUDE_DIR}/webgpu/webgpu.h: ${run_output}They must come from "
                        "the same release. Point WEBGPU_ROOT at a matching pair, or pass -DSINTER_WEBGPU=OFF.")
  endif()
  set(WEBGPU_MATCHES "${pair}" CACHE INTERNAL "Header and library that were seen to fit")
endfunction()

set(SINTER_HAVE_WEBGPU 0)
if(SINTER_WEBGPU)
  find_path(WEBGPU_INCLUDE_DIR webgpu/webgpu.h PATHS ${WEBGPU_ROOT}/include NO_DEFAULT_PATH)
  find_path(WEBGPU_INCLUDE_DIR webgpu/webgpu.h)
  find_library(WEBGPU_LIBRARY NAMES webgpu_wrapper webgpu webgpu_dawn wgpu_native PATHS ${WEBGPU_ROOT}/lib NO_DEFAULT_PATH)
  find_library(WEBGPU_LIBRARY NAMES webgpu webgpu_dawn wgpu_native)
  if(WEBGPU_INCLUDE_DIR AND WEBGPU_LIBRARY)
    set(SINTER_HAVE_WEBGPU 1)
    message(STATUS "WebGPU: ${WEBGPU_LIBRARY}")
    sinter_check_webgpu_match()
  else()
    message(STATUS "WebGPU: not found (set WEBGPU_ROOT, or run ./dev setup); building without the native device")
  endif()
endif()

function(sinter_use_webgpu target)
  target_compile_definitions(${target} PUBLIC $<BUILD_INTERFACE:SINTER_HAVE_WEBGPU=${SINTER_HAVE_WEBGPU}>)
  if(NOT SINTER_HAVE_WEBGPU)
    return()
  endif()
  target_include_directories(${target} SYSTEM PRIVATE ${WEBGPU_INCLUDE_DIR})
  # Tried in this order; "$ORIGIN" is the folder of the executable, "$LIBRARY" that of libsinter.so. First the places of an
  # installed package, then those of the build. Only the native device sees the absolute path, so that no other object
  # depends on where the repository lies.
  cmake_path(RELATIVE_PATH WEBGPU_LIBRARY BASE_DIRECTORY ${CMAKE_BINARY_DIR} OUTPUT_VARIABLE relative)
  cmake_path(GET WEBGPU_LIBRARY FILENAME soname)
  set(candidates "$LIBRARY/sinter/${soname}" "$ORIGIN/../lib/sinter/${soname}" "$ORIGIN/${soname}" "$ORIGIN/${relative}"
                 "${WEBGPU_LIBRARY}" "${soname}")
  list(JOIN candidates ":" candidates)
  set(device_sources ${SINTER_NATIVE_SOURCES})
  list(FILTER device_sources INCLUDE REGEX "^engine/gpu/")
  if(device_sources)
    set_property(SOURCE ${device_sources} APPEND PROPERTY COMPILE_DEFINITIONS "SINTER_WEBGPU_LIBRARIES=\"${candidates}\"")
  endif()
endfunction()
