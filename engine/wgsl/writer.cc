// SPDX-License-Identifier: Apache-2.0
#include "engine/wgsl/writer.h"

#include <bit>
#include <cstring>

#include "engine/base/str.h"

namespace sinter::wgsl {

std::string_view element_type(Storage storage) {
  switch (storage) {
    case Storage::f32:
      return "f32";
    case Storage::f16:
      return "f16";
    case Storage::i32:
      return "i32";
    case Storage::u32:
      return "u32";
    case Storage::words2:
      return "vec2<u32>";
    case Storage::none:
      return "";
  }
  return "";
}

std::string indexed(std::string_view base, size_t i) { return StrCat(base, i); }

Writer::Writer(std::string_view kernel_name, const Target& target) : target_(target) { kernel_.name = kernel_name; }

void Writer::binding(std::string_view var, std::string_view type, Binding binding) {
  StrAppend(bindings_, "@group(0) @binding(");
  StrAppend(bindings_, kernel_.bindings.size());
  bindings_ += binding.writes ? ") var<storage, read_write> " : ") var<storage, read> ";
  bindings_ += StrCat(var, ": array<", type, ">;\n");
  if (type.find("f16") != std::string_view::npos) f16_ = true;
  kernel_.bindings.push_back(binding);
}

void Writer::input(std::string_view var, uint32_t operand, std::string_view type, bool weight, const Packer* packer,
                   int64_t packer_arg) {
  binding(var, type, {Binding::Role::input, operand, !weight, packer, packer_arg});
}

void Writer::output(std::string_view var, uint32_t output, std::string_view type) {
  binding(var, type, {Binding::Role::output, output, true, nullptr, 0});
}

void Writer::scratch(std::string_view var, uint32_t index, std::string_view type, bool) {
  binding(var, type, {Binding::Role::scratch, index, true, nullptr, 0});
}

void Writer::uniform(std::string_view name, std::string_view type, uint32_t bits) {
  fields_ += StrCat("  ", name, ": ", type, ",\n");
  const size_t at = kernel_.uniforms.size();
  kernel_.uniforms.resize(at + 4);
  std::memcpy(kernel_.uniforms.data() + at, &bits, 4);
}

void Writer::u32(std::string_view name, uint32_t value) { uniform(name, "u32", value); }
void Writer::i32(std::string_view name, int32_t value) { uniform(name, "i32", static_cast<uint32_t>(value)); }
void Writer::f32(std::string_view name, float value) { uniform(name, "f32", std::bit_cast<uint32_t>(value)); }

void Writer::declare(std::string_view text) { declarations_ += text; }
void Writer::declare_once(std::string_view text) {
  if (declarations_.find(text) == std::string::npos) declarations_ += text;
}
void Writer::body(std::string_view text) { body_ += text; }

void Writer::linear(uint64_t items, uint32_t group) {
  const uint64_t total = (items + group - 1) / group;
  const uint64_t columns = total < target_.max_groups ? total : target_.max_groups;
  const uint64_t rows = columns ? (total + columns - 1) / columns : 0;
  grid({static_cast<uint32_t>(columns), static_cast<uint32_t>(rows), 1}, {group, 1, 1});
  u32("count_", static_cast<uint32_t>(items));
  u32("row_", static_cast<uint32_t>(columns * group));
  body("  let i: u32 = gid.y * p.row_ + gid.x;\n  if (i >= p.count_) { return; }\n");
}

void Writer::groups(uint64_t items, uint32_t threads, uint32_t layers) {
  const uint64_t columns = items < target_.max_groups ? items : target_.max_groups;
  const uint64_t rows = columns ? (items + columns - 1) / columns : 0;
  grid({static_cast<uint32_t>(columns), static_cast<uint32_t>(rows), layers}, {threads, 1, 1});
  u32("groups_", static_cast<uint32_t>(items));
  u32("columns_", static_cast<uint32_t>(columns));
  body("  let group: u32 = wid.y * p.columns_ + wid.x;\n  if (group >= p.groups_) { return; }\n");
}

void Writer::grid(std::array<uint32_t, 3> groups, std::array<uint32_t, 3> group_size) {
  kernel_.groups = groups;
  kernel_.group_size = group_size;
}

void Writer::offsets(std::string_view index, const StridedLoop& loop, std::initializer_list<std::string_view> names) {
  std::vector<std::string> copies(names.begin(), names.end());
  offsets(index, loop, copies);
}

void Writer::offsets(std::string_view index, const StridedLoop& loop, std::span<const std::string> names) {
  const size_t rank = loop.dims.rank();
  for (const std::string& name : names) body(StrCat("  var ", name, ": u32 = 0u;\n"));
  if (rank == 0) return;
  const std::string rest = StrCat("rest_", names[0]);
  body(StrCat("  var ", rest, ": u32 = ", index, ";\n"));
  for (size_t axis = rank; axis-- > 0;) {
    std::string coordinate = rest;
    std::string open = "  {\n";
    if (axis > 0) {
      const std::string dim = StrCat("d_", names[0], "_", axis);
      u32(dim, static_cast<uint32_t>(loop.dims[axis]));
      open += StrCat("    let c = ", rest, " % p.", dim, ";\n    ", rest, " = ", rest, " / p.", dim, ";\n");
      coordinate = "c";
    }
    body(open);
    for (size_t k = 0; k < names.size(); ++k) {
      const std::string stride = StrCat("s_", names[k], "_", axis);
      u32(stride, static_cast<uint32_t>(loop.strides[k][axis]));
      body(StrCat("    ", names[k], " += ", coordinate, " * p.", stride, ";\n"));
    }
    body("  }\n");
  }
}

Result<Kernel> Writer::finish() {
  if (kernel_.bindings.size() > target_.max_storage_buffers) {
    return fail(Code::Unsupported, StrCat("kernel ", kernel_.name, " binds ", kernel_.bindings.size(),
                                          " storage buffers, the device allows ", target_.max_storage_buffers));
  }
  if (kernel_.uniforms.size() > target_.max_uniform_bytes) {
    return fail(Code::Unsupported, StrCat("kernel ", kernel_.name, " needs ", kernel_.uniforms.size(),
                                          " bytes of uniforms, the device allows ", target_.max_uniform_bytes));
  }
  const auto& size = kernel_.group_size;
  for (size_t i = 0; i < 3; ++i) {
    if (kernel_.groups[i] > target_.max_groups || size[i] > target_.max_group_size[i]) {
      return fail(Code::Unsupported, StrCat("kernel ", kernel_.name, " launches ", kernel_.groups[i], " groups of ",
                                            size[i], " in dimension ", i, ", the device allows ", target_.max_groups,
                                            " of ", target_.max_group_size[i]));
    }
  }
  if (size[0] * size[1] * size[2] > target_.max_invocations) {
    return fail(Code::Unsupported, StrCat("kernel ", kernel_.name, " has workgroups of ", size[0] * size[1] * size[2],
                                          " threads, the device allows ", target_.max_invocations));
  }
  // Uniform blocks are 16-byte multiples.
  if (!kernel_.uniforms.empty()) kernel_.uniforms.resize((kernel_.uniforms.size() + 15) / 16 * 16);
  std::string& text = kernel_.text;
  if (f16_) text += "enable f16;\n";
  if (!fields_.empty()) text += StrCat("struct Params {\n", fields_, "}\n");
  text += bindings_;
  if (!fields_.empty()) {
    text += StrCat("@group(0) @binding(", kernel_.bindings.size(), ") var<uniform> p: Params;\n");
  }
  text += declarations_;
  text +=
      StrCat("@compute @workgroup_size(", size[0], ", ", size[1], ", ", size[2],
             ")\nfn main(@builtin(global_invocation_id) gid: vec3<u32>, @builtin(local_invocation_id) lid: vec3<u32>, "
             "@builtin(workgroup_id) wid: vec3<u32>, @builtin(local_invocation_index) lindex: u32) {\n",
             body_, "}\n");
  return std::move(kernel_);
}

}  // namespace sinter::wgsl
