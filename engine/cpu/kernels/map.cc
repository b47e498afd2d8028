// SPDX-License-Identifier: Apache-2.0
// Every elementwise operator on floats, with numpy broadcasting: one Program over blocks of the output.
#include <algorithm>

#include "engine/cpu/kernels/list.h"
#include "engine/cpu/kernels/program.h"
#include "engine/cpu/pool.h"
#include "engine/tensor/strides.h"

namespace sinter::cpu {
namespace {

constexpr size_t kChunksPerThread = 4;
constexpr size_t kMinChunk = 16 << 10;  // elements; below, a second thread does not pay
constexpr int64_t kShortRow = 64;       // rows up to this are gathered into blocks, longer ones are blocks of their own

Result<Expr> expr_of(const Node& node) { return node.expr.empty() ? node.op->scalar(node) : node.expr; }

bool accepts(const Node& node, std::span<const TensorInfo> inputs, std::span<const TensorInfo> outputs) {
  if (node.op->op_class != OpClass::elementwise || (node.expr.empty() && !node.op->scalar)) return false;
  if (outputs.size() != 1 || outputs[0].dtype != DType::f32 || outputs[0].shape->numel() == 0) return false;
  const auto expr = expr_of(node);
  if (!expr) return false;
  const auto program = Program::make(*expr);
  if (!program || inputs.size() > Program::kMaxInputs) return false;
  for (size_t i = 0; i < Program::kMaxInputs; ++i) {
    if (!program->reads(i)) continue;
    if (i >= inputs.size() || !inputs[i].present || inputs[i].dtype != DType::f32) return false;
  }
  return true;
}

// How the output's elements, in order, find those of one operand.
struct Operand {
  enum class Kind : uint8_t { unused, scalar, dense, strided };
  Kind kind = Kind::unused;
  const float* data = nullptr;
  const Shape* strides = nullptr;
};

class Mapper {
 public:
  Mapper(const Program& program, const plan::HostArgs& args, float* out)
      : program_(program), shape_(args.outputs[0].shape()), out_(out) {
    std::vector<Shape> strides;
    for (size_t i = 0; i < args.inputs.size(); ++i) {
      const bool used = program.reads(i);
      strides.push_back(used ? broadcast_strides(args.inputs[i]->shape(), shape_) : Shape::filled(shape_.rank(), 0));
    }
    loop_ = merge_axes(shape_, strides);
    const Shape dense = row_major_strides(loop_.dims);
    for (size_t i = 0; i < args.inputs.size(); ++i) {
      if (!program.reads(i)) continue;
      operands_[i].data = args.inputs[i]->data<float>().data();
      operands_[i].strides = &loop_.strides[i];
      const bool still =
          std::all_of(loop_.strides[i].begin(), loop_.strides[i].end(), [](int64_t s) { return s == 0; });
      operands_[i].kind = still                       ? Operand::Kind::scalar
                          : loop_.strides[i] == dense ? Operand::Kind::dense
                                                      : Operand::Kind::strided;
      strided_ |= operands_[i].kind == Operand::Kind::strided;
    }
    row_ = loop_.dims.rank() == 0 ? 1 : loop_.dims[loop_.dims.rank() - 1];
  }

  void range(size_t first, size_t last) const {
    alignas(64) float gathered[kGathered];
    const size_t readers = static_cast<size_t>(std::count_if(
        operands_.begin(), operands_.end(), [](const Operand& o) { return o.kind == Operand::Kind::strided; }));
    const size_t room = readers == 0 ? program_.block() : std::min(program_.block(), kGathered / readers / 16 * 16);
    std::array<Program::Input, Program::kMaxInputs> inputs;
    while (first < last) {
      size_t count = std::min(room, last - first);
      const size_t in_row = first % static_cast<size_t>(row_);
      const bool whole_rows = row_ <= kShortRow;
      if (strided_ && !whole_rows) count = std::min(count, static_cast<size_t>(row_) - in_row);
      float* place = gathered;
      for (size_t i = 0; i < operands_.size(); ++i) {
        const Operand& operand = operands_[i];
        switch (operand.kind) {
          case Operand::Kind::unused:
            break;
          case Operand::Kind::scalar:
            inputs[i] = {operand.data, true};
            break;
          case Operand::Kind::dense:
            inputs[i] = {operand.data + first, false};
            break;
          case Operand::Kind::strided:
            inputs[i] = fetch(operand, first, count, whole_rows, place);
            place += room;
            break;
        }
      }
      program_.run(inputs, out_ + first, count);
      first += count;
    }
  }

 private:
  static constexpr size_t kGathered = 4096;

  int64_t offset_of(const Operand& operand, size_t element) const {
    int64_t offset = 0, left = static_cast<int64_t>(element);
    for (size_t axis = loop_.dims.rank(); axis-- > 0;) {
      offset += left % loop_.dims[axis] * (*operand.strides)[axis];
      left /= loop_.dims[axis];
    }
    return offset;
  }

  Program::Input fetch(const Operand& operand, size_t first, size_t count, bool whole_rows, float* place) const {
    const int64_t step = (*operand.strides)[loop_.dims.rank() - 1];
    if (!whole_rows) {
      const float* from = operand.data + offset_of(operand, first);
      if (step <= 1) return {from, step == 0};
      for (size_t i = 0; i < count; ++i) place[i] = from[static_cast<int64_t>(i) * step];
      return {place, false};
    }
    size_t in_row = first % static_cast<size_t>(row_);
    for (size_t done = 0; done < count; in_row = 0) {
      const size_t n = std::min(static_cast<size_t>(row_) - in_row, count - done);
      const float* from = operand.data + offset_of(operand, first + done);
      for (size_t i = 0; i < n; ++i) place[done + i] = from[static_cast<int64_t>(i) * step];
      done += n;
    }
    return {place, false};
  }

  const Program& program_;
  const Shape& shape_;
  float* out_;
  StridedLoop loop_;
  std::array<Operand, Program::kMaxInputs> operands_{};
  int64_t row_ = 1;
  bool strided_ = false;
};

Result<> run(const plan::HostArgs& args) {
  const Expr expr = SINTER_TRY(expr_of(args.node));
  const auto program = Program::make(expr);
  if (!program) return fail(Code::Internal, "an expression outgrew the program it was accepted for");
  const Mapper mapper(*program, args, args.outputs[0].mutable_data<float>().data());
  const size_t count = args.outputs[0].numel(), threads = args.pool.threads();
  const size_t chunks = threads == 1 ? 1 : std::clamp<size_t>(count / kMinChunk, 1, threads * kChunksPerThread);
  parallel_for(args.pool, chunks,
               [&](size_t chunk) { mapper.range(count * chunk / chunks, count * (chunk + 1) / chunks); });
  return {};
}

}  // namespace

const plan::HostKernel kMapKernel = {"map_f32", "", "", &accepts, nullptr, nullptr, &run};

}  // namespace sinter::cpu
