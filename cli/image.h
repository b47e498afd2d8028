// SPDX-License-Identifier: Apache-2.0
// Photos as model inputs: decode, resize as Pillow does (bilinear, antialiased), crop, normalise.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/base/result.h"
#include "engine/tensor/tensor.h"

namespace sinter::cli {

struct Image {
  int width = 0, height = 0;
  std::vector<uint8_t> rgb;  // row by row
};

/// JPEG, PNG, BMP, GIF, PNM. Io where there is no file, InvalidInput where it is no picture.
Result<Image> load_image(const std::string& path);

/// The same numbers as Pillow's Image.resize((width, height), BILINEAR).
Image resize(const Image& image, int width, int height);

/// An image of that size is untouched. Any other is resized so that its shorter side becomes `shorter` (0: the model's
/// shorter side x 256 / 224), then cropped around its centre.
Image fit(const Image& image, int width, int height, int shorter = 0);

enum class Preprocess : uint8_t {
  torch,       // (v / 255 - mean) / std, RGB, [1,3,H,W]
  caffe_bgr,   // v - mean in B, G, R order, [1,3,H,W]
  uint8_nhwc,  // the bytes, RGB, uint8 [1,H,W,3]
  unit,        // v / 255, RGB, [1,3,H,W]
};

/// In `dtype`, which is a float type, or uint8 for uint8_nhwc.
Result<Tensor> image_tensor(const Image& image, Preprocess preprocess, DType dtype);

}  // namespace sinter::cli
