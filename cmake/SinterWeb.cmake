# SPDX-License-Identifier: Apache-2.0
# The web module: one small WebAssembly reactor. Functions are exported with __attribute__((export_name)) and host
# functions imported with import_module/import_name, so an undefined symbol is still a link error.
#   build/web/sinter.names.wasm  as linked, with function names: for diagnosis and for the proofs of ./dev check
#   build/web/sinter.wasm        the same code without names, made smaller by wasm-opt: what users download
find_program(WASM_OPT wasm-opt REQUIRED)

# Highway is headers only here. The rest of the system's include folder belongs to another libc and must stay out of sight.
find_path(HWY_INCLUDE_DIR hwy/highway.h PATHS /usr/include /usr/local/include REQUIRED NO_CMAKE_FIND_ROOT_PATH)
file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/include)
file(CREATE_LINK ${HWY_INCLUDE_DIR}/hwy ${CMAKE_BINARY_DIR}/include/hwy SYMBOLIC)

if(NOT SINTER_COMMON_SOURCES)
  message(STATUS "Web: engine/ has no sources, nothing to build")
  return()
endif()

set_source_files_properties(engine/base/math_web.cc PROPERTIES COMPILE_OPTIONS -fno-lto)
add_executable(sinter_web ${SINTER_COMMON_SOURCES} ${SINTER_WEB_SOURCES})
set_target_properties(sinter_web PROPERTIES OUTPUT_NAME sinter.names SUFFIX .wasm RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR})
target_include_directories(sinter_web SYSTEM PRIVATE ${CMAKE_BINARY_DIR}/include)
target_compile_definitions(sinter_web PRIVATE SINTER_HAVE_WEBGPU=0 SINTER_CASES=0 SINTER_VERSION="${PROJECT_VERSION}")
target_compile_options(sinter_web PRIVATE ${SINTER_ENGINE_OPTIONS} -Oz -flto -msimd128 -mbulk-memory -mnontrapping-fptoint
                       -fno-threadsafe-statics)
# No -O here: with one, clang runs whatever wasm-opt it finds, which drops the names. (--no-wasm-opt skips the link itself.)
target_link_options(sinter_web PRIVATE -flto -mexec-model=reactor -fuse-ld=lld -Wl,-O2
                    -Wl,--strip-debug -Wl,-z,stack-size=262144 -Wl,--stack-first)

set(shipped ${CMAKE_BINARY_DIR}/sinter.wasm)
add_custom_command(OUTPUT ${shipped} DEPENDS sinter_web VERBATIM
                   COMMAND ${WASM_OPT} -Oz --converge --strip-producers --strip-target-features $<TARGET_FILE:sinter_web> -o ${shipped})
add_custom_target(sinter_wasm ALL DEPENDS ${shipped})

# The web device under its own checks (tests/browser/hal.cc), run by the browser tests.
set(hal_sources ${SINTER_COMMON_SOURCES} ${SINTER_WEB_SOURCES})
list(FILTER hal_sources INCLUDE REGEX "^engine/(base|async|tensor|wgsl|gpu/device)")
add_executable(sinter_hal tests/browser/hal.cc ${hal_sources})
set_target_properties(sinter_hal PROPERTIES OUTPUT_NAME hal SUFFIX .wasm RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
target_compile_definitions(sinter_hal PRIVATE SINTER_HAVE_WEBGPU=0 SINTER_VERSION="${PROJECT_VERSION}")
target_compile_options(sinter_hal PRIVATE ${SINTER_ENGINE_OPTIONS} -Os -mbulk-memory)
target_link_options(sinter_hal PRIVATE -mexec-model=reactor -fuse-ld=lld)
