// SPDX-License-Identifier: Apache-2.0
// tensor_api BACKEND [MODEL.onnx]: the lazy tensors against values worked out by hand, and MobileNetV2 written by hand
// against its ONNX file.
#include <cmath>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "mobilenetv2.hpp"

namespace {

using sinter::DType;
using sinter::HostTensor;
using sinter::Result;
using sinter::Tensor;

int failures = 0;
int checks = 0;

void check(bool good, const char* what, const std::string& detail = {}) {
  ++checks;
  if (good) return;
  ++failures;
  std::printf("FAILED %s %s\n", what, detail.c_str());
}

template <class T>
Result<T> finish(const sinter::Engine& engine, sinter::Task<T> task) {
#ifdef __wasm__
  std::optional<Result<T>> result;
  sinter::spawn(engine.executor(), std::move(task), [&result](Result<T> value) { result.emplace(std::move(value)); });
  while (!result) engine.turn();
  return std::move(*result);
#else
  return engine.wait(std::move(task));
#endif
}

template <class T>
void expect(const sinter::Engine& engine, const char* what, const Tensor& tensor, const sinter::Shape& shape,
            std::initializer_list<T> values) {
  const auto data = finish(engine, tensor.data(engine));
  if (!data) return check(false, what, sinter::to_string(data.error()));
  check(data->shape() == shape, what, "has shape " + sinter::to_string(data->shape()));
  const auto actual = data->template data<T>();
  if (actual.size() != values.size()) return check(false, what, "has another type or size");
  size_t i = 0;
  for (const T value : values) {
    const double difference = std::abs(static_cast<double>(actual[i++]) - static_cast<double>(value));
    check(difference <= 1e-5 * (1 + std::abs(static_cast<double>(value))), what, "at " + std::to_string(i - 1));
  }
}

void operators(const sinter::Engine& engine) {
  const Tensor x(engine, {2, 3}, {1.0f, -2.0f, 3.0f, -4.0f, 5.0f, -6.0f});
  const Tensor row(engine, {3}, {10.0f, 20.0f, 30.0f});
  expect<float>(engine, "broadcast", x + row, {2, 3}, {11, 18, 33, 6, 25, 24});
  expect<float>(engine, "arithmetic", (2 * x - 1) / 2 + -x, {2, 3}, {-0.5f, -0.5f, -0.5f, -0.5f, -0.5f, -0.5f});
  expect<bool>(engine, "less", x < 0, {2, 3}, {false, true, false, true, false, true});
  expect<float>(engine, "where", sinter::where(x > 0, x, Tensor(engine, sinter::Shape{}, {0.0f})), {2, 3},
                {1, 0, 3, 0, 5, 0});
  expect<float>(engine, "relu", sinter::relu(x), {2, 3}, {1, 0, 3, 0, 5, 0});
  expect<float>(engine, "clip", sinter::clip(x, -1, 2), {2, 3}, {1, -1, 2, -1, 2, -1});
  expect<float>(engine, "reduce_sum", sinter::reduce_sum(x, {1}, {.keepdims = 0}), {2}, {2, -5});
  expect<float>(engine, "reduce_mean", sinter::reduce_mean(x, {0}), {1, 3}, {-1.5f, 1.5f, -1.5f});
  expect<int64_t>(engine, "arg_max", sinter::arg_max(x, {.axis = 1, .keepdims = 0}), {2}, {2, 1});
  expect<float>(engine, "matmul", sinter::matmul(x, sinter::transpose(x, {.perm = {1, 0}})), {2, 2},
                {14, -32, -32, 77});
  expect<float>(engine, "reshape", sinter::reshape(x, {3, -1}), {3, 2}, {1, -2, 3, -4, 5, -6});
  expect<float>(engine, "concat", sinter::concat({x, x}, {.axis = 0}), {4, 3},
                {1, -2, 3, -4, 5, -6, 1, -2, 3, -4, 5, -6});
  const auto parts = sinter::split(3, x, {}, {.axis = 1, .num_outputs = 3});
  expect<float>(engine, "split", parts[1], {2, 1}, {-2, 5});
  const auto [values, indices] = sinter::top_k(x, {1}, {.axis = 1});
  expect<float>(engine, "top_k values", values, {2, 1}, {3, 5});
  expect<int64_t>(engine, "top_k indices", indices, {2, 1}, {2, 1});
  expect<float>(engine, "slice", sinter::slice(x, {0, 1}, {2, 3}), {2, 2}, {-2, 3, 5, -6});
  expect<float>(engine, "gather", sinter::gather(x, {1}, {.axis = 0}), {1, 3}, {-4, 5, -6});
  expect<int32_t>(engine, "cast", sinter::cast(x, DType::i32), {2, 3}, {1, -2, 3, -4, 5, -6});
  expect<float>(engine, "softmax", sinter::softmax(Tensor(engine, {2}, {0.0f, 0.0f})), {2}, {0.5f, 0.5f});
  expect<float>(engine, "exp", sinter::exp(Tensor(engine, {2}, {0.0f, 1.0f})), {2}, {1, 2.7182818f});
}

void images(const sinter::Engine& engine) {
  const Tensor image(engine, {1, 1, 3, 3}, {1.0f, 2.0f, 3.0f, 4.0f, 5.0f, 6.0f, 7.0f, 8.0f, 9.0f});
  const auto kernel = Tensor::constant<float>({1, 1, 2, 2}, {1.0f, 0.0f, 0.0f, 1.0f});
  const auto bias = Tensor::constant<float>({1}, {0.5f});
  expect<float>(engine, "conv", sinter::conv(image, kernel, bias), {1, 1, 2, 2}, {6.5f, 8.5f, 12.5f, 14.5f});
  expect<float>(engine, "max_pool", sinter::max_pool(image, {.kernel_shape = {2, 2}}), {1, 1, 2, 2}, {5, 6, 8, 9});
  expect<float>(engine, "average_pool", sinter::nn::AvgPool2d{3, 1}(image), {1, 1, 1, 1}, {5});
  const auto one = Tensor::constant<float>({1}, {1.0f});
  expect<float>(engine, "batch_normalization",
                sinter::batch_normalization(image, one, bias, one, one, {.epsilon = 0.0f}), {1, 1, 3, 3},
                {0.5f, 1.5f, 2.5f, 3.5f, 4.5f, 5.5f, 6.5f, 7.5f, 8.5f});
  // The same structure again with other data: the session of the first is used.
  const Tensor zeros(engine, {1, 1, 3, 3}, {0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f});
  expect<float>(engine, "conv of zeros", sinter::conv(zeros, kernel, bias), {1, 1, 2, 2}, {0.5f, 0.5f, 0.5f, 0.5f});
}

std::string failure(const sinter::Engine& engine, const Tensor& tensor) {
  const auto data = finish(engine, tensor.data());
  return data ? std::string("no error") : sinter::to_string(data.error());
}

void mistakes(const sinter::Engine& engine) {
  const auto contains = [](const std::string& text, std::string_view part) {
    return text.find(part) != std::string::npos;
  };
  const Tensor x(engine, {2, 3}, {1.0f, 2.0f, 3.0f, 4.0f, 5.0f, 6.0f});
  const int line = __LINE__ + 1;
  const Tensor wrong = sinter::matmul(x, x);
  const std::string text = failure(engine, sinter::relu(wrong + 1));
  check(contains(text, "MatMul at main.cc:" + std::to_string(line)), "the error names the expression and its line",
        text);
  check(contains(text, "[2,3] and [2,3]"), "the error names the shapes", text);
  const std::string sum = failure(engine, x + Tensor(engine, {2}, {1.0f, 2.0f}));
  check(contains(sum, "Add at main.cc:" + std::to_string(__LINE__ - 1)), "an operator names its line", sum);
  const std::string typed = failure(
      engine, sinter::apply("Relu", {x}, sinter::Attributes().set("alpha", 1.0f), 1, sinter::Source::current())[0]);
  check(contains(typed, "Relu has no attribute 'alpha'"), "unknown attributes are refused", typed);
  const std::string unknown = failure(engine, sinter::apply("Rellu", {x}, {}, 1, sinter::Source::current())[0]);
  check(contains(unknown, "there is no operator Rellu") && contains(unknown, "Relu?"), "unknown operators are refused",
        unknown);
  const sinter::Engine other(engine.options());
  const std::string mixed = failure(engine, x + Tensor(other, {3}, {1.0f, 2.0f, 3.0f}));
  check(contains(mixed, "on another engine"), "engines are not mixed", mixed);
  const std::string size = failure(engine, sinter::relu(Tensor(engine, {2}, {1.0f})));
  check(contains(size, "has 2 elements, given are 1"), "data fits its shape", size);
  check(contains(failure(engine, Tensor(1.0f) + 1), "no data on an engine"), "an engine is needed");
}

void functions(const sinter::Engine& engine) {
  const auto x = Tensor::input("x", DType::f32, {"n", 2});
  const auto doubled = x * 2;
  std::vector<Tensor> inputs = {x};
  std::vector<sinter::Output> outputs = {{"doubled", doubled}, {"sum", sinter::reduce_sum(doubled, {0})}};
  const auto function = finish(engine, sinter::Function::create(engine, inputs, outputs));
  if (!function) return check(false, "function", sinter::to_string(function.error()));
  for (int64_t rows = 1; rows < 4; ++rows) {
    const std::vector<float> data(static_cast<size_t>(rows * 2), 3.0f);
    const auto given = HostTensor::of<float>({rows, 2}, data);
    const auto results = finish(engine, function->run({*given}));
    if (!results) return check(false, "function", sinter::to_string(results.error()));
    check((*results)[0].shape() == sinter::Shape{rows, 2}, "a named dimension takes any size");
    check((*results)[1].data<float>()[0] == 6.0f * static_cast<float>(rows), "a function's second output");
  }
  check(function->session().outputs()[1].name == "sum", "outputs have their names");
}

// Expressions go through the same passes as model files: an activation becomes part of the convolution's kernel.
void fusion(const sinter::Engine& engine) {
  if (engine.options().backend != sinter::Backend::webgpu) return;  // only there kernels are counted
  size_t dispatches[2] = {};
  for (const bool fused : {false, true}) {
    const auto x = Tensor::input("x", DType::f32, {1, 1, 3, 3});
    const auto kernel = Tensor::constant<float>({1, 1, 2, 2}, {1.0f, 0.0f, 0.0f, 1.0f});
    std::vector<Tensor> inputs = {x};
    std::vector<sinter::Output> outputs = {{"y", sinter::relu(sinter::conv(x, kernel))}};
    const auto function = finish(engine, sinter::Function::create(engine, inputs, outputs, {.fusion = fused}));
    if (!function) return check(false, "fusion", sinter::to_string(function.error()));
    dispatches[fused] = function->session().report().dispatches;
  }
  check(dispatches[true] > 0 && dispatches[true] + 1 == dispatches[false], "an activation is fused into a convolution",
        std::to_string(dispatches[true]) + " kernels for " + std::to_string(dispatches[false]));
}

// Shapes that are computed from shapes, and shapes that are inputs: known only when the function runs.
void shapes(const sinter::Engine& engine) {
  const auto x = Tensor::input("x", DType::f32, {"n", "m"});
  const auto target = Tensor::input("target", DType::i64, {2});
  const auto end = Tensor::input("end", DType::i64, {1});
  const auto count = sinter::shape(x, {.end = 1, .start = 0});
  const auto column = sinter::reshape(x, sinter::concat({{-1}, count}, {.axis = 0}));
  std::vector<Tensor> inputs = {x, target, end};
  std::vector<sinter::Output> outputs = {{"column", column},
                                         {"reshaped", sinter::reshape(x, target)},
                                         {"expanded", sinter::expand(sinter::reduce_sum(x, {}), target)},
                                         {"sliced", sinter::slice(x, {0}, end, {1})}};
  const auto function = finish(engine, sinter::Function::create(engine, inputs, outputs));
  if (!function) return check(false, "shapes", sinter::to_string(function.error()));
  struct Round {
    int64_t n, m, rows, columns, end;
  };
  for (const Round& round : {Round{2, 6, 3, 4, 2}, Round{4, 3, 2, 6, 1}, Round{2, 6, 12, 1, 6}}) {
    const std::vector<float> ones(static_cast<size_t>(round.n * round.m), 1.0f);
    const int64_t rows[] = {round.rows, round.columns}, ends[] = {round.end};
    const auto results =
        finish(engine, function->run({*HostTensor::of<float>({round.n, round.m}, ones),
                                      *HostTensor::of<int64_t>({2}, rows), *HostTensor::of<int64_t>({1}, ends)}));
    if (!results) return check(false, "shapes", sinter::to_string(results.error()));
    check((*results)[0].shape() == sinter::Shape{round.m, round.n}, "a shape computed from a shape");
    check((*results)[1].shape() == sinter::Shape{round.rows, round.columns}, "a shape given at run time");
    check((*results)[2].shape() == sinter::Shape{round.rows, round.columns}, "an expansion given at run time");
    check((*results)[3].shape() == sinter::Shape{round.n, round.end}, "a slice given at run time");
    check((*results)[2].data<float>()[0] == static_cast<float>(round.n * round.m), "the sum, expanded");
  }
}

using Bytes = std::vector<std::byte>;

std::shared_ptr<const Bytes> read_file(const char* path) {
  FILE* file = std::fopen(path, "rb");
  if (!file) return std::make_shared<Bytes>();
  std::fseek(file, 0, SEEK_END);
  auto bytes = std::make_shared<Bytes>(static_cast<size_t>(std::ftell(file)));
  std::rewind(file);
  const size_t got = std::fread(bytes->data(), 1, bytes->size(), file);
  std::fclose(file);
  bytes->resize(got);
  return bytes;
}

void mobilenet(const sinter::Engine& engine, const char* path) {
  const auto bytes = read_file(path);
  const auto weights = sinter::Weights::from(*bytes, bytes);
  const auto session = finish(engine, engine.load(*bytes, bytes));
  if (!weights || !session) return check(false, "the model file");
  auto image = HostTensor::zeros(DType::f32, {1, 3, 224, 224});
  auto pixels = image->mutable_data<float>();
  for (size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<float>((i * 2654435761u) % 1000) / 500 - 1;
  const auto actual = by_hand::MobileNetV2(*weights).forward(Tensor(engine, *image));
  const auto read = finish(engine, actual.data());
  const auto expected = finish(engine, session->run({{"input", *image}}));
  if (!read || !expected) {
    return check(false, "mobilenet", sinter::to_string(read ? expected.error() : read.error()));
  }
  for (size_t i = 0; i < 10; ++i) {
    const float a = read->data<float>()[i], b = (*expected)[0].tensor.data<float>()[i];
    check(std::abs(a - b) <= 1e-3f, "MobileNetV2 by hand agrees with its ONNX file",
          std::to_string(a) + " for " + std::to_string(b));
  }
}

#ifndef __wasm__
sinter::Task<float> waits_in_a_task(Tensor tensor) {
  const auto data = tensor.to_data();
  if (!data) co_return std::unexpected(data.error());
  co_return data->data<float>()[0];
}

// What waits, and opens files: there is neither on the web.
void native_only(const sinter::Engine& engine, const char* path) {
  const auto doubled = (Tensor(engine, {2}, {1.0f, 2.0f}) * 2).to_data();
  check(doubled && doubled->data<float>()[1] == 4.0f, "to_data waits");
  const auto nested = engine.wait(waits_in_a_task(Tensor(engine, {2}, {1.0f, 2.0f}) * 2));
  check(!nested && nested.error().code == sinter::Code::InvalidInput, "a task cannot wait",
        nested ? std::string("no error") : sinter::to_string(nested.error()));
  check(bool((Tensor(engine, {1}, {1.0f}) * 3).to_data()), "after that, the engine waits again");
  const auto opened = sinter::Weights::open(path);
  check(opened && !opened->names().empty(), "weights of a file");
  check(bool(engine.wait(engine.load(std::string(path)))), "a model of a file");
}
#else
template <class T>
concept Waits = requires(const T& t) { t.to_data(); };
static_assert(!Waits<Tensor>, "on the web nothing may block");
#endif

}  // namespace

int main(int argc, char** argv) {
  const std::string_view backend = argc > 1 ? argv[1] : "cpu";
  sinter::EngineOptions options;
  options.backend = backend == "webgpu"      ? sinter::Backend::webgpu
                    : backend == "reference" ? sinter::Backend::reference
                                             : sinter::Backend::cpu;
  const sinter::Engine engine(options);
  operators(engine);
  images(engine);
  mistakes(engine);
  functions(engine);
  fusion(engine);
  shapes(engine);
  if (argc > 2) mobilenet(engine, argv[2]);
#ifndef __wasm__
  if (argc > 2) native_only(engine, argv[2]);
#endif
  std::printf("%d of %d checks good\n", checks - failures, checks);
  return failures != 0;
}
