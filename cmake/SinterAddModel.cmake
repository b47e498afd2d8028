# SPDX-License-Identifier: Apache-2.0
# sinter_add_model(TARGET MODEL.onnx [NAME name] [EMBED])
# Generates C++ from the model whenever the model changes, compiles it into TARGET and lets TARGET include <name.hpp>.
# NAME is the C++ namespace, by default the file's name. EMBED puts the weights into the program.
function(sinter_add_model target model)
  cmake_parse_arguments(PARSE_ARGV 2 arg "EMBED" "NAME" "")
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "sinter_add_model: unexpected arguments: ${arg_UNPARSED_ARGUMENTS}")
  endif()
  cmake_path(ABSOLUTE_PATH model BASE_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR})
  if(NOT arg_NAME)
    cmake_path(GET model STEM arg_NAME)
    string(MAKE_C_IDENTIFIER ${arg_NAME} arg_NAME)
    string(TOLOWER ${arg_NAME} arg_NAME)
  endif()
  set(folder ${CMAKE_CURRENT_BINARY_DIR}/sinter_models/${arg_NAME})
  set(sources ${folder}/${arg_NAME}.hpp ${folder}/${arg_NAME}.cpp)
  if(arg_EMBED)
    list(APPEND sources ${folder}/${arg_NAME}.weights.cpp)
    set(weights "")
    set(embed --embed)
  else()
    set(weights ${folder}/${arg_NAME}.weights)
    set(embed "")
  endif()
  add_custom_command(
    OUTPUT ${sources} ${weights}
    COMMAND sinter::tool compile ${model} -o ${folder} --name ${arg_NAME} ${embed}
    DEPENDS ${model} sinter::tool
    COMMENT "Generating C++ from ${model}" VERBATIM)
  target_sources(${target} PRIVATE ${sources})
  set_source_files_properties(${folder}/${arg_NAME}.cpp PROPERTIES COMPILE_DEFINITIONS "SINTER_MODEL_FOLDER=\"${folder}\"")
  target_include_directories(${target} PRIVATE ${folder})
  target_link_libraries(${target} PRIVATE sinter::sinter)
endfunction()
