// SPDX-License-Identifier: Apache-2.0
// Build step: writes the public headers that follow from the table of operators, and their reference. write_headers FOLDER
#include <cstdio>
#include <string>

#include "engine/codegen/signature.h"

namespace {

bool write(const std::string& path, const std::string& text) {
  FILE* file = std::fopen(path.c_str(), "wb");
  if (!file) return false;
  const bool written = std::fwrite(text.data(), 1, text.size(), file) == text.size();
  return (std::fclose(file) == 0) && written;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const std::string folder = argv[1];
  const bool done = write(folder + "/operators.hpp", sinter::codegen::operators_header()) &&
                    write(folder + "/ops.hpp", sinter::codegen::ops_header()) &&
                    write(folder + "/tensor_functions.md", sinter::codegen::ops_reference());
  if (!done) std::perror(folder.c_str());
  return done ? 0 : 1;
}
