// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include "engine/base/str.h"
#include "engine/onnx/parse.h"

namespace sinter::onnx {
namespace {

// The fields of TensorProto that can hold elements.
enum DataField : uint32_t {
  kFloatData = 4,
  kInt32Data = 5,
  kStringData = 6,
  kInt64Data = 7,
  kRawData = 9,
  kDoubleData = 10,
  kUint64Data = 11,
};

struct TypeRow {
  uint8_t type;
  uint8_t field;  // where the elements are, if not in raw_data
  const char* name;
};
constexpr TypeRow kTypes[] = {
    {1, kFloatData, "float32"},
    {2, kInt32Data, "uint8"},
    {3, kInt32Data, "int8"},
    {4, kInt32Data, "uint16"},
    {5, kInt32Data, "int16"},
    {6, kInt32Data, "int32"},
    {7, kInt64Data, "int64"},
    {8, kStringData, "string"},
    {9, kInt32Data, "bool"},
    {10, kInt32Data, "float16"},
    {11, kDoubleData, "float64"},
    {12, kUint64Data, "uint32"},
    {13, kUint64Data, "uint64"},
    {14, kFloatData, "complex64"},
    {15, kDoubleData, "complex128"},
    {16, kInt32Data, "bfloat16"},
    {17, 0, "float8e4m3fn"},
    {18, 0, "float8e4m3fnuz"},
    {19, 0, "float8e5m2"},
    {20, 0, "float8e5m2fnuz"},
    {21, 0, "uint4"},
    {22, 0, "int4"},
    {23, 0, "float4e2m1"},
    {24, 0, "float8e8m0"},
    {25, 0, "uint2"},
    {26, 0, "int2"},
};

const TypeRow* type_row(int64_t type) {
  for (const TypeRow& row : kTypes) {
    if (row.type == type) return &row;
  }
  return nullptr;
}

/// What the first walk over the message finds; the elements are decoded in a second one, when their number is known.
struct Found {
  std::span<const std::byte> raw;
  bool has_raw = false;
  uint32_t field = 0;     // the typed data field that is used, 0 for none
  uint64_t elements = 0;  // in that field
};

bool is_fixed(uint32_t field) { return field == kFloatData || field == kDoubleData; }
size_t fixed_size(uint32_t field) { return field == kFloatData ? 4 : 8; }

Result<> count_elements(const Wire& wire, const Field& field, Found& found) {
  if (found.field && found.field != field.number) return wire.damaged("elements in two different data fields");
  if (field.type == WireType::bytes && field.bytes.empty()) return {};
  found.field = field.number;
  if (field.number == kStringData || field.type != WireType::bytes) {
    ++found.elements;
  } else if (is_fixed(field.number)) {
    if (field.bytes.size() % fixed_size(field.number)) return wire.damaged("a data field that ends inside an element");
    found.elements += field.bytes.size() / fixed_size(field.number);
  } else {
    for (const std::byte byte : field.bytes) found.elements += static_cast<uint8_t>(byte) < 0x80;
  }
  return {};
}

Result<> parse_external(Wire wire, TensorProto& out) {
  std::string_view key, value;
  while (!wire.done()) {
    const Field field = SINTER_TRY(wire.next());
    if (field.number == 1) key = SINTER_TRY(wire.text(field));
    if (field.number == 2) value = SINTER_TRY(wire.text(field));
  }
  if (key == "location") {
    out.external.location = value;
    return {};
  }
  if (key != "offset" && key != "length") return {};
  uint64_t number = 0;
  for (const char c : value) {
    if (c < '0' || c > '9' || __builtin_mul_overflow(number, 10, &number) ||
        __builtin_add_overflow(number, static_cast<uint64_t>(c - '0'), &number)) {
      return wire.damaged(StrCat("the external data's ", key, " is not a number"));
    }
  }
  if (value.empty()) return wire.damaged(StrCat("the external data's ", key, " is empty"));
  if (key == "offset") {
    out.external.offset = number;
  } else {
    out.external.length = number;
    out.external.has_length = true;
  }
  return {};
}

Result<Found> walk(Wire wire, StructureBudget& budget, TensorProto& out) {
  Found found;
  while (!wire.done()) {
    const Field field = SINTER_TRY(wire.next());
    switch (field.number) {
      case 1:
        SINTER_CHECK_OK(budget.take(field.type == WireType::bytes ? field.bytes.size() * 8 : 8, wire));
        SINTER_CHECK_OK(wire.append(field, out.dims));
        break;
      case 2:
        out.data_type = SINTER_TRY(wire.integer(field));
        break;
      case 3:
        return wire.damaged("segmented tensors are not part of any ONNX release");
      case kFloatData:
      case kInt32Data:
      case kStringData:
      case kInt64Data:
      case kDoubleData:
      case kUint64Data:
        SINTER_CHECK_OK(count_elements(wire, field, found));
        break;
      case 8:
        out.name = SINTER_TRY(wire.text(field));
        break;
      case kRawData:
        found.raw = SINTER_TRY(wire.payload(field));
        found.has_raw = true;
        break;
      case 13:
        SINTER_CHECK_OK(parse_external(SINTER_TRY(wire.message(field, "an external data entry")), out));
        break;
      case 14:
        out.is_external = SINTER_TRY(wire.integer(field)) == 1;
        break;
      default:
        break;
    }
  }
  return found;
}

void store(Tensor& tensor, size_t i, uint64_t bits) {
  // int32_data holds the bit patterns of the 16-bit floats, and everything else sign-extended.
  std::memcpy(tensor.mutable_bytes().data() + i * size_of(tensor.dtype()), &bits, size_of(tensor.dtype()));
}

Result<Tensor> decode(Wire wire, uint32_t data_field, DType dtype, const Shape& shape) {
  Tensor tensor = SINTER_TRY(Tensor::alloc(dtype, shape, "a weight"));
  const uint64_t mask = dtype == DType::boolean ? 1 : ~0ull;
  size_t i = 0;
  while (!wire.done()) {
    const Field field = SINTER_TRY(wire.next());
    if (field.number != data_field) continue;
    if (field.type != WireType::bytes) {
      const WireType wanted = !is_fixed(data_field)      ? WireType::varint
                              : data_field == kFloatData ? WireType::fixed32
                                                         : WireType::fixed64;
      if (field.type != wanted) return wire.damaged("an element of another wire type than its data field");
      store(tensor, i++, field.value & mask);
    } else if (is_fixed(data_field)) {
      if (field.bytes.empty()) continue;
      std::memcpy(tensor.mutable_bytes().data() + i * size_of(dtype), field.bytes.data(), field.bytes.size());
      i += field.bytes.size() / size_of(dtype);
    } else {
      for (size_t at = 0; at < field.bytes.size();) {
        uint64_t value = 0;
        if (!read_varint(field.bytes, at, value)) return wire.damaged("a number that does not end");
        store(tensor, i++, value & mask);
      }
    }
  }
  return tensor;
}

Result<Shape> checked_shape(const Wire& wire, const TensorProto& out, uint64_t& elements) {
  elements = 1;
  Shape shape;
  bool empty = false;
  for (const int64_t dim : out.dims) {
    if (dim < 0) return wire.damaged(StrCat("dimension ", dim, " of tensor '", out.name, "' is negative"));
    empty |= dim == 0;
    shape.push_back(dim);
  }
  for (const int64_t dim : out.dims) {
    if (!empty && __builtin_mul_overflow(elements, static_cast<uint64_t>(dim), &elements)) elements = UINT64_MAX;
    if (elements > INT64_MAX / 16) return wire.damaged(StrCat("tensor '", out.name, "' has impossibly many elements"));
  }
  if (empty) elements = 0;
  return shape;
}

Result<> finish(const Wire& wire, const Found& found, const std::shared_ptr<const void>& owner, TensorProto& out) {
  uint64_t elements = 0;
  const Shape shape = SINTER_TRY(checked_shape(wire, out, elements));
  const TypeRow* row = type_row(out.data_type);
  if (!row)
    return wire.damaged(
        StrCat("tensor '", out.name, "' has element type ", out.data_type, ", which ONNX does not define"));
  const DType dtype = dtype_of(out.data_type);
  if (dtype == DType::undefined || dtype == DType::string) {
    out.refusal = StrCat("tensor '", out.name, "' has element type ", row->name);
    return {};
  }
  if (out.dims.size() > kMaxRank) {
    out.refusal =
        StrCat("tensor '", out.name, "' has ", out.dims.size(), " dimensions; at most ", kMaxRank, " are supported");
    return {};
  }
  out.bytes = elements * size_of(dtype);
  if (out.is_external) {
    if (out.external.location.empty()) return wire.damaged(StrCat("external tensor '", out.name, "' names no file"));
    if (out.external.has_length && out.external.length != out.bytes) {
      return wire.damaged(StrCat("external tensor '", out.name, "' has ", out.external.length,
                                 " bytes, but its shape and type need ", out.bytes));
    }
    return {};
  }
  if (found.has_raw) {
    if (found.field) return wire.damaged(StrCat("tensor '", out.name, "' has both raw and typed data"));
    if (found.raw.size() != out.bytes) {
      return wire.damaged(StrCat("tensor '", out.name, "' has ", found.raw.size(), " bytes of data, but its shape ",
                                 to_string(shape), " and type ", row->name, " need ", out.bytes));
    }
    out.tensor = Tensor::view(dtype, shape, found.raw, owner);
    return {};
  }
  if (found.elements != elements || (found.field && found.field != row->field)) {
    return wire.damaged(StrCat("tensor '", out.name, "' of shape ", to_string(shape), " and type ", row->name,
                               " needs ", elements, " elements, but has ",
                               found.field == row->field ? found.elements : 0));
  }
  out.tensor = SINTER_TRY(decode(wire, row->field, dtype, shape));
  return {};
}

}  // namespace

std::string type_name(int64_t data_type) {
  const TypeRow* row = type_row(data_type);
  return row ? std::string(row->name) : StrCat("type ", data_type);
}

DType dtype_of(int64_t data_type) {
  // 14 and 15 are complex, 17 and up are narrower than a byte or float8.
  return data_type > 0 && data_type <= 16 && data_type != 14 && data_type != 15 ? static_cast<DType>(data_type)
                                                                                : DType::undefined;
}

Result<> parse_tensor(Wire wire, StructureBudget& budget, const std::shared_ptr<const void>& owner, TensorProto& out) {
  const Found found = SINTER_TRY(walk(wire, budget, out));
  return finish(wire, found, owner, out);
}

Result<TensorProto> parse_tensor_file(std::span<const std::byte> bytes, std::shared_ptr<const void> owner) {
  TensorProto tensor;
  StructureBudget budget;
  SINTER_CHECK_OK(parse_tensor(Wire(bytes, "a tensor file"), budget, owner, tensor));
  return tensor;
}

}  // namespace sinter::onnx
