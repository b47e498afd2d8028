# SPDX-License-Identifier: Apache-2.0
# Copies the public headers into the tree that is installed: everything under sinter/, includes named so that one include
# folder serves. Files that have not changed are not touched.
function(stage source name)
  file(READ ${source} text)
  string(REPLACE "#include \"include/sinter/" "#include \"sinter/" text "${text}")
  string(REPLACE "#include \"engine/" "#include \"sinter/engine/" text "${text}")
  set(old "")
  if(EXISTS ${OUT}/sinter/${name})
    file(READ ${OUT}/sinter/${name} old)
  endif()
  if(NOT "${old}" STREQUAL "${text}")
    file(WRITE ${OUT}/sinter/${name} "${text}")
  endif()
endfunction()

foreach(header IN LISTS HEADERS)
  string(REGEX REPLACE "^include/sinter/" "" name ${header})
  stage(${SOURCE}/${header} ${name})
endforeach()
foreach(name operators.hpp ops.hpp)
  stage(${GENERATED}/${name} ${name})
endforeach()
