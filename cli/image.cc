// SPDX-License-Identifier: Apache-2.0
#include "cli/image.h"

#define STBI_NO_STDIO
#include <stb/stb_image.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "engine/base/str.h"
#include "engine/onnx/external_data.h"

namespace sinter::cli {
namespace {

constexpr int64_t kMaxPixels = 256 << 20;  // a small file can claim to be a picture of a hundred gigabytes

// Pillow's 8-bit resampling: fixed-point weights, a horizontal pass, then a vertical one, rounded to bytes in between.
constexpr int kPrecision = 32 - 8 - 2;

struct Taps {
  int first = 0;
  std::vector<int32_t> weights;
};

/// A side that becomes `full` pixels long, of which only [start, start + count) are wanted.
struct Window {
  int full = 0, start = 0, count = 0;
};

std::vector<Taps> taps(int from, Window window) {
  const double scale = static_cast<double>(from) / window.full;
  const double support = std::max(scale, 1.0);
  std::vector<Taps> all(window.count);
  for (int i = 0; i < window.count; ++i) {
    const double center = (window.start + i + 0.5) * scale;
    const int first = std::max(static_cast<int>(center - support + 0.5), 0);
    const int last = std::min(static_cast<int>(center + support + 0.5), from);
    std::vector<double> weights;
    double sum = 0;
    for (int x = first; x < last; ++x) {
      weights.push_back(std::max(0.0, 1 - std::fabs((x - center + 0.5) / support)));
      sum += weights.back();
    }
    all[i].first = first;
    for (const double weight : weights) {
      all[i].weights.push_back(static_cast<int32_t>(0.5 + (sum > 0 ? weight / sum : weight) * (1 << kPrecision)));
    }
  }
  return all;
}

uint8_t to_byte(int64_t sum) { return static_cast<uint8_t>(std::clamp<int64_t>(sum >> kPrecision, 0, 255)); }

Image resize_across(const Image& image, Window window) {
  const std::vector<Taps> columns = taps(image.width, window);
  Image out{window.count, image.height, std::vector<uint8_t>(static_cast<size_t>(window.count) * image.height * 3)};
  uint8_t* to = out.rgb.data();
  for (int y = 0; y < image.height; ++y) {
    const uint8_t* line = image.rgb.data() + static_cast<size_t>(y) * image.width * 3;
    for (const Taps& column : columns) {
      for (int c = 0; c < 3; ++c) {
        int64_t sum = 1 << (kPrecision - 1);
        const uint8_t* from = line + static_cast<size_t>(column.first) * 3 + c;
        for (size_t i = 0; i < column.weights.size(); ++i) sum += int64_t{column.weights[i]} * from[i * 3];
        *to++ = to_byte(sum);
      }
    }
  }
  return out;
}

Image resize_down(const Image& image, Window window) {
  const std::vector<Taps> rows = taps(image.height, window);
  Image out{image.width, window.count, std::vector<uint8_t>(static_cast<size_t>(image.width) * window.count * 3)};
  const size_t line = static_cast<size_t>(image.width) * 3;
  uint8_t* to = out.rgb.data();
  for (const Taps& row : rows) {
    const uint8_t* from = image.rgb.data() + row.first * line;
    for (size_t x = 0; x < line; ++x) {
      int64_t sum = 1 << (kPrecision - 1);
      for (size_t i = 0; i < row.weights.size(); ++i) sum += int64_t{row.weights[i]} * from[i * line + x];
      *to++ = to_byte(sum);
    }
  }
  return out;
}

Image resize_window(const Image& image, Window across, Window down) {
  const auto whole = [](int from, const Window& window) { return window.full == from && window.count == from; };
  Image out = whole(image.width, across) ? image : resize_across(image, across);
  return whole(out.height, down) ? out : resize_down(out, down);
}

}  // namespace

Result<Image> load_image(const std::string& path) {
  const onnx::FileBytes file = SINTER_TRY(onnx::map_file(path));
  const auto* data = reinterpret_cast<const stbi_uc*>(file.bytes.data());
  const int size = static_cast<int>(std::min<size_t>(file.bytes.size(), INT32_MAX));
  const auto broken = [&](std::string_view why) {
    return fail(Code::InvalidInput, StrCat("'", path, "' is not a picture that can be read: ", why),
                "give a whole JPEG, PNG, BMP, GIF or PNM file");
  };
  if (size == 0) return broken("it is empty (0 bytes)");
  int width = 0, height = 0, channels = 0;
  if (!stbi_info_from_memory(data, size, &width, &height, &channels)) return broken(stbi_failure_reason());
  if (int64_t{width} * height > kMaxPixels) return broken(StrCat("it is ", width, " x ", height, " pixels large"));
  const std::unique_ptr<stbi_uc, decltype(&stbi_image_free)> pixels(
      stbi_load_from_memory(data, size, &width, &height, &channels, 3), &stbi_image_free);
  if (!pixels) return broken(stbi_failure_reason());
  return Image{width, height,
               std::vector<uint8_t>(pixels.get(), pixels.get() + static_cast<size_t>(width) * height * 3)};
}

Image resize(const Image& image, int width, int height) {
  return resize_window(image, {width, 0, width}, {height, 0, height});
}

Image fit(const Image& image, int width, int height, int shorter) {
  if (image.width == width && image.height == height) return image;
  if (shorter == 0) shorter = static_cast<int>(std::lround(std::min(width, height) * 256.0 / 224.0));
  shorter = std::max({shorter, width, height});
  const double scale = static_cast<double>(shorter) / std::min(image.width, image.height);
  const auto longer = [&](int side) {
    return static_cast<int>(std::min<long>(std::lround(side * scale), INT32_MAX / 2));
  };
  const int full_width = image.width <= image.height ? shorter : longer(image.width);
  const int full_height = image.height <= image.width ? shorter : longer(image.height);
  return resize_window(image, {full_width, (full_width - width) / 2, width},
                       {full_height, (full_height - height) / 2, height});
}

Result<Tensor> image_tensor(const Image& image, Preprocess preprocess, DType dtype) {
  if (preprocess == Preprocess::uint8_nhwc) {
    Tensor bytes = SINTER_TRY(Tensor::alloc(DType::u8, {1, image.height, image.width, 3}, "the picture"));
    std::copy(image.rgb.begin(), image.rgb.end(), bytes.mutable_data<uint8_t>().begin());
    return bytes;
  }
  struct Channel {
    int from;
    double mean, deviation;  // of values in 0..255
  };
  constexpr Channel kTorch[] = {
      {0, 0.485 * 255, 0.229 * 255}, {1, 0.456 * 255, 0.224 * 255}, {2, 0.406 * 255, 0.225 * 255}};
  constexpr Channel kCaffe[] = {{2, 104, 1}, {1, 117, 1}, {0, 123, 1}};
  constexpr Channel kUnit[] = {{0, 0, 255}, {1, 0, 255}, {2, 0, 255}};
  const Channel* channels = preprocess == Preprocess::torch ? kTorch : preprocess == Preprocess::unit ? kUnit : kCaffe;
  Tensor tensor = SINTER_TRY(Tensor::alloc(DType::f32, {1, 3, image.height, image.width}, "the picture"));
  float* to = tensor.mutable_data<float>().data();
  const size_t pixels = static_cast<size_t>(image.width) * image.height;
  for (int c = 0; c < 3; ++c) {
    for (size_t i = 0; i < pixels; ++i) {
      *to++ = static_cast<float>((image.rgb[i * 3 + channels[c].from] - channels[c].mean) / channels[c].deviation);
    }
  }
  return convert(tensor, dtype);
}

}  // namespace sinter::cli
