# SPDX-License-Identifier: Apache-2.0
# The web module: one small WebAssembly reactor. Functions are exported with __attribute__((export_name)) and host
# functions imported with import_module/import_name, so an undefined symbol is still a link error.
#   build/web/sinter.names.wasm  as linked, with function names: for diagnosis and for the proofs of ./dev check
#   build/web/sinter.wasm        the same code without names, made smaller by wasm-opt: what users download
#   build/web/sinter-relaxed.wasm  the same with fused multiply-add, for browsers that have relaxed SIMD
#   build/web/sinter-diag.wasm   with engine/diag and the operators' own cases: what sinter/diag loads on demand
find_program(WASM_OPT wasm-opt REQUIRED)
# The system's wasm-opt reads the relaxed instructions by the numbers of an early draft; the package's knows the standard's.
set(WASM_OPT_RELAXED ${CMAKE_SOURCE_DIR}/web/node_modules/.bin/wasm-opt)

# Highway is headers only here. The rest of the system's include folder belongs to another libc and must stay out of sight.
find_path(HWY_INCLUDE_DIR hwy/highway.h PATHS /usr/include /usr/local/include REQUIRED NO_CMAKE_FIND_ROOT_PATH)
file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/include)
file(CREATE_LINK ${HWY_INCLUDE_DIR}/hwy ${CMAKE_BINARY_DIR}/include/hwy SYMBOLIC)

if(NOT SINTER_COMMON_SOURCES)
  message(STATUS "Web: engine/ has no sources, nothing to build")
  return()
endif()

set_source_files_properties(engine/base/math_web.cc PROPERTIES COMPILE_OPTIONS -fno-lto)

function(sinter_web_options target)
  target_include_directories(${target} SYSTEM PRIVATE ${CMAKE_BINARY_DIR}/include)
  target_compile_definitions(${target} PRIVATE SINTER_HAVE_WEBGPU=0 SINTER_VERSION="${PROJECT_VERSION}" ${ARGN})
  target_compile_options(${target} PRIVATE ${SINTER_ENGINE_OPTIONS} -Oz -flto -msimd128 -mbulk-memory -mnontrapping-fptoint
                         -fno-threadsafe-statics)
endfunction()

# What the modules share. The operators are compiled for each kind, without and with their cases; the kernels without and
# with relaxed SIMD.
set(shared_sources ${SINTER_COMMON_SOURCES} ${SINTER_WEB_SOURCES})
set(op_sources ${shared_sources})
set(diag_sources ${shared_sources})
list(FILTER op_sources INCLUDE REGEX "^engine/ops/")
list(FILTER diag_sources INCLUDE REGEX "^engine/(diag/|api/diag_web)")
list(REMOVE_ITEM shared_sources ${op_sources} ${diag_sources} ${SINTER_KERNEL_SOURCES})

# sinter_web_objects(NAME CASES SOURCE...)
function(sinter_web_objects name cases)
  add_library(${name} OBJECT ${ARGN})
  sinter_web_options(${name} SINTER_CASES=${cases})
endfunction()
sinter_web_objects(sinter_web_shared 0 ${shared_sources})
sinter_web_objects(sinter_web_ops 0 ${op_sources})
sinter_web_objects(sinter_web_kernels 0 ${SINTER_KERNEL_SOURCES})
sinter_web_objects(sinter_web_kernels_relaxed 0 ${SINTER_KERNEL_SOURCES})
target_compile_options(sinter_web_kernels_relaxed PRIVATE -mrelaxed-simd)
sinter_web_objects(sinter_web_diag_objects 1 ${op_sources} ${diag_sources})

# sinter_web_module(NAME WASM_OPT_COMMAND OBJECTS...): NAME.names.wasm as linked, NAME.wasm as shipped
function(sinter_web_module name shrink)
  string(REPLACE - _ target ${name}_module)
  set(objects ${ARGN})
  list(TRANSFORM objects REPLACE "(.+)" "$<TARGET_OBJECTS:\\1>")
  add_executable(${target} ${objects})
  set_target_properties(${target} PROPERTIES OUTPUT_NAME ${name}.names SUFFIX .wasm RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}
                                             LINKER_LANGUAGE CXX)
  # No -O here: with one, clang runs whatever wasm-opt it finds, which drops the names. (--no-wasm-opt skips the link itself.)
  target_link_options(${target} PRIVATE -flto -mexec-model=reactor -fuse-ld=lld -Wl,-O2
                      -Wl,--strip-debug -Wl,-z,stack-size=262144 -Wl,--stack-first)
  set(shipped ${CMAKE_BINARY_DIR}/${name}.wasm)
  add_custom_command(OUTPUT ${shipped} DEPENDS ${target} VERBATIM
                     COMMAND ${shrink} --strip-producers --strip-target-features $<TARGET_FILE:${target}> -o ${shipped})
  add_custom_target(${target}_shipped ALL DEPENDS ${shipped})
endfunction()

# The stack comes first in memory, so its last kilobyte is all that lies below address 1024.
set(smallest -Oz --converge --low-memory-unused)
sinter_web_module(sinter "${WASM_OPT};${smallest}" sinter_web_shared sinter_web_ops sinter_web_kernels)
sinter_web_module(sinter-relaxed "${WASM_OPT_RELAXED};${smallest}" sinter_web_shared sinter_web_ops sinter_web_kernels_relaxed)
sinter_web_module(sinter-diag "${WASM_OPT};-O1" sinter_web_shared sinter_web_kernels sinter_web_diag_objects)

# The web device under its own checks (tests/browser/hal.cc), run by the browser tests.
set(hal_sources ${SINTER_COMMON_SOURCES} ${SINTER_WEB_SOURCES})
list(FILTER hal_sources INCLUDE REGEX "^engine/(base|async|tensor|wgsl|gpu/device)")
add_executable(sinter_hal tests/browser/hal.cc ${hal_sources})
set_target_properties(sinter_hal PROPERTIES OUTPUT_NAME hal SUFFIX .wasm RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
target_compile_definitions(sinter_hal PRIVATE SINTER_HAVE_WEBGPU=0 SINTER_VERSION="${PROJECT_VERSION}")
target_compile_options(sinter_hal PRIVATE ${SINTER_ENGINE_OPTIONS} -Os -mbulk-memory)
target_link_options(sinter_hal PRIVATE -mexec-model=reactor -fuse-ld=lld)

# The checks of the C++ interface, as a program for Node (tests/tensor_api_web_test.py builds and runs it). Headers that follow
# from the table of operators come from the native build.
add_executable(tensor_api EXCLUDE_FROM_ALL tests/tensor_api/main.cc $<TARGET_OBJECTS:sinter_web_shared>
               $<TARGET_OBJECTS:sinter_web_ops> $<TARGET_OBJECTS:sinter_web_kernels>)
set_target_properties(tensor_api PROPERTIES SUFFIX .wasm RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
set_source_files_properties(tests/tensor_api/main.cc PROPERTIES OBJECT_DEPENDS ${CMAKE_SOURCE_DIR}/build/native/public_headers.stamp)
target_include_directories(tensor_api BEFORE PRIVATE ${CMAKE_SOURCE_DIR}/build/native/include)
sinter_web_options(tensor_api SINTER_CASES=0)
target_link_options(tensor_api PRIVATE -flto -fuse-ld=lld -Wl,-z,stack-size=1048576 -Wl,--stack-first)
