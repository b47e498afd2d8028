# SPDX-License-Identifier: Apache-2.0
# What `cmake --install` puts where, for find_package(sinter) and pkg-config, and the .deb of `cpack`.
#   BUILD_SHARED_LIBS=ON  installs libsinter.so, which exports the public interface only; else libsinter.a
include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

# The public headers as they are installed: those of include/sinter, those of the engine that they include, and those that
# follow from the table of operators. In the installed tree all of them lie under sinter/.
set(public_engine_headers
    engine/async/cancel.h engine/async/completion.h engine/async/executor.h engine/async/task.h
    engine/base/check.h engine/base/result.h engine/tensor/dtype.h engine/tensor/shape.h)
file(GLOB public_headers RELATIVE ${CMAKE_SOURCE_DIR} CONFIGURE_DEPENDS include/sinter/*.hpp include/sinter/*.h)
list(APPEND public_headers ${public_engine_headers})

add_executable(sinter_write_headers include/write_headers.cc)
target_link_libraries(sinter_write_headers PRIVATE sinter)
set(SINTER_PUBLIC_INCLUDE ${CMAKE_BINARY_DIR}/include)
# The reference is made of the headers' own comments, where there is a Python to do so.
find_package(Python3 COMPONENTS Interpreter)
set(write_reference "")
if(Python3_FOUND)
  set(documented tensor engine host_tensor weights nn task lock client)
  list(TRANSFORM documented PREPEND ${CMAKE_SOURCE_DIR}/include/sinter/)
  list(TRANSFORM documented APPEND .hpp)
  set(engine_headers ${public_engine_headers})
  list(FILTER engine_headers INCLUDE REGEX "result|dtype|shape|cancel")
  list(TRANSFORM engine_headers PREPEND ${CMAKE_SOURCE_DIR}/)
  set(write_reference COMMAND ${Python3_EXECUTABLE} ${CMAKE_SOURCE_DIR}/tools/api_reference.py
      ${CMAKE_BINARY_DIR}/generated_headers/api_reference.md ${documented} ${engine_headers} ${CMAKE_SOURCE_DIR}/include/sinter/sinter.h)
endif()
list(TRANSFORM public_headers PREPEND ${CMAKE_SOURCE_DIR}/ OUTPUT_VARIABLE public_header_paths)
add_custom_command(
  OUTPUT ${CMAKE_BINARY_DIR}/public_headers.stamp
  COMMAND ${CMAKE_COMMAND} -E make_directory ${CMAKE_BINARY_DIR}/generated_headers
  COMMAND sinter_write_headers ${CMAKE_BINARY_DIR}/generated_headers
  ${write_reference}
  COMMAND ${CMAKE_COMMAND} "-DSOURCE=${CMAKE_SOURCE_DIR}" "-DHEADERS=${public_headers}"
          "-DGENERATED=${CMAKE_BINARY_DIR}/generated_headers" "-DOUT=${SINTER_PUBLIC_INCLUDE}"
          -P ${CMAKE_SOURCE_DIR}/cmake/stage_headers.cmake
  COMMAND ${CMAKE_COMMAND} -E touch ${CMAKE_BINARY_DIR}/public_headers.stamp
  DEPENDS ${public_header_paths} cmake/stage_headers.cmake tools/api_reference.py sinter_write_headers VERBATIM)
add_custom_target(sinter_public_headers ALL DEPENDS ${CMAKE_BINARY_DIR}/public_headers.stamp)

if(BUILD_SHARED_LIBS)
  set_target_properties(sinter PROPERTIES POSITION_INDEPENDENT_CODE ON)
  add_library(sinter_shared SHARED $<TARGET_OBJECTS:sinter>)
  target_link_libraries(sinter_shared PRIVATE hwy::hwy Threads::Threads ${CMAKE_DL_LIBS})
  target_link_options(sinter_shared PRIVATE -Wl,--version-script=${CMAKE_SOURCE_DIR}/cmake/sinter.map -Wl,-z,defs)
  set_target_properties(sinter_shared PROPERTIES LINKER_LANGUAGE CXX OUTPUT_NAME sinter VERSION ${PROJECT_VERSION}
                        SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR} EXPORT_NAME sinter
                        LINK_DEPENDS ${CMAKE_SOURCE_DIR}/cmake/sinter.map)
  set(library sinter_shared)
else()
  set(library sinter)
endif()
target_include_directories(${library} INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_compile_features(${library} INTERFACE cxx_std_23)

install(TARGETS ${library} EXPORT sinter LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY ${SINTER_PUBLIC_INCLUDE}/sinter DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
if(TARGET sinter_cli)
  set_target_properties(sinter_cli PROPERTIES EXPORT_NAME tool)
  install(TARGETS sinter_cli EXPORT sinter RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
if(SINTER_HAVE_WEBGPU)
  install(FILES ${WEBGPU_LIBRARY} DESTINATION ${CMAKE_INSTALL_LIBDIR}/sinter)
endif()
install(FILES LICENSE README.md docs/cpp.md docs/tensor.md docs/compile.md ${CMAKE_BINARY_DIR}/generated_headers/tensor_functions.md
        DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(FILES ${CMAKE_BINARY_DIR}/generated_headers/api_reference.md DESTINATION ${CMAKE_INSTALL_DOCDIR} OPTIONAL)

set(package ${CMAKE_INSTALL_LIBDIR}/cmake/sinter)
install(EXPORT sinter NAMESPACE sinter:: FILE sinterTargets.cmake DESTINATION ${package})
configure_package_config_file(cmake/sinterConfig.cmake.in ${CMAKE_BINARY_DIR}/sinterConfig.cmake INSTALL_DESTINATION ${package})
write_basic_package_version_file(${CMAKE_BINARY_DIR}/sinterConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/sinterConfig.cmake ${CMAKE_BINARY_DIR}/sinterConfigVersion.cmake cmake/SinterAddModel.cmake
        DESTINATION ${package})

if(BUILD_SHARED_LIBS)
  set(pc_requires "")
  set(pc_libs "")
else()
  set(pc_requires "libhwy")
  set(pc_libs "-lstdc++ -pthread -ldl -lm")
endif()
configure_file(cmake/sinter.pc.in ${CMAKE_BINARY_DIR}/sinter.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/sinter.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME sinter)
set(CPACK_PACKAGE_VENDOR "The Sinter authors")
set(CPACK_PACKAGE_CONTACT "The Sinter authors <sinter@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "Inference engine for ONNX models on WebGPU and the CPU")
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
if(NOT BUILD_SHARED_LIBS)
  set(CPACK_DEBIAN_PACKAGE_DEPENDS libhwy-dev)
endif()
include(CPack)
