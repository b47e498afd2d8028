# SPDX-License-Identifier: Apache-2.0
# Sorts the sources of engine/ by their suffix:
#   NAME_native.cc  native build only            NAME_test.cc  GoogleTest, native only
#   NAME_web.cc     web build only               NAME_fuzz.cc  libFuzzer target, sanitizer build only
#   engine/cpu/kernels/NAME_simd.cc  compiled with -O3   everything else: both builds
file(GLOB_RECURSE SINTER_ALL RELATIVE ${CMAKE_CURRENT_SOURCE_DIR} CONFIGURE_DEPENDS engine/*.cc)

function(sinter_take out regex)
  set(taken ${SINTER_ALL})
  list(FILTER taken INCLUDE REGEX "${regex}")
  set(rest ${SINTER_ALL})
  list(FILTER rest EXCLUDE REGEX "${regex}")
  set(${out} ${taken} PARENT_SCOPE)
  set(SINTER_ALL ${rest} PARENT_SCOPE)
endfunction()

sinter_take(SINTER_TEST_SOURCES "_test\\.cc$")
sinter_take(SINTER_FUZZ_SOURCES "_fuzz\\.cc$")
sinter_take(SINTER_NATIVE_SOURCES "_native\\.cc$")
sinter_take(SINTER_WEB_SOURCES "_web\\.cc$")
set(SINTER_COMMON_SOURCES ${SINTER_ALL})

set(SINTER_KERNEL_SOURCES ${SINTER_COMMON_SOURCES})
list(FILTER SINTER_KERNEL_SOURCES INCLUDE REGEX "^engine/cpu/kernels/.*_simd\\.cc$")
