// SPDX-License-Identifier: Apache-2.0
// Cut: a part of an ONNX model as a model of its own, with its inputs. Nodes stay as they are in the file.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/diag/capture.h"
#include "engine/onnx/model.h"

namespace sinter::diag {

/// A file that is made but not written yet: the caller has a disk, or a page.
struct File {
  std::string name;  // "test_data_set_0/input_0.pb"
  std::string bytes;
};

struct CutNode {
  std::string name, op;
  std::string bytes;  // the NodeProto
  std::vector<std::string> inputs, outputs;
  int64_t group = 0;  // the attribute, 0 where there is none
  bool even = false;  // splits into equal parts, which opsets before 18 insist on
};

struct Cut {
  int64_t ir_version = 0;
  std::vector<std::pair<std::string, int64_t>> opsets;
  std::vector<CutNode> nodes;
  std::vector<NamedTensor> constants, inputs;
  std::vector<NamedTensor> outputs;  // expected; without tensors until they are known

  /// The ONNX file. Outputs without a tensor have no shape in it.
  std::string model() const;
  /// model.onnx and test_data_set_0/{input,output}_N.pb: an ONNX backend test directory.
  std::vector<File> files() const;
};

/// A model whose parts can be cut out.
class Cutter {
 public:
  static Result<Cutter> make(const ModelSource& source);

  /// As imported: no pass has run.
  const Graph& graph() const { return *graph_; }
  const onnx::Model& model() const { return model_; }
  /// "name (Op): attribute=value ..." of a node; empty where there is none of that name.
  std::string attributes_of(std::string_view node) const;

  /// The nodes by name, with the nodes next to them `rings` times. In execution order.
  std::vector<std::string> grown(const std::vector<std::string>& nodes, int rings) const;
  std::vector<std::string> all_nodes() const;

  /// `values` finds what was captured (null where it was not). Values computed from initialisers alone become initialisers.
  Result<Cut> cut(const std::vector<std::string>& nodes, const std::vector<NamedTensor>& inputs,
                  const std::map<std::string, CapturedValue>& values) const;

 private:
  Cutter() = default;
  size_t index_of(std::string_view node) const;  // into model().graph.nodes; its size where absent

  onnx::Model model_;
  std::vector<std::span<const std::byte>> raw_;  // the NodeProtos
  std::shared_ptr<const Graph> graph_;
  std::vector<bool> constant_;               // by ValueId of graph_
  std::map<std::string_view, ValueId> ids_;  // of graph_
  std::vector<size_t> order_;                // of the model's nodes, in execution order
};

/// The cut with every axis of extent `from` given extent `to`, in inputs and (where `constants`) in constants and `group`
/// attributes; only axis `axis` where that is not negative. Keeps the first elements of an axis, or the last.
Result<Cut> resized(const Cut& cut, int64_t from, int64_t to, bool constants, int axis, bool keep_last);

/// A serialised TensorProto.
std::string tensor_bytes(std::string_view name, const Tensor& tensor);

}  // namespace sinter::diag
