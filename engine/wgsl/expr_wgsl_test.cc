// SPDX-License-Identifier: Apache-2.0
#include "engine/wgsl/expr_wgsl.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace sinter::wgsl {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

Expr clamp(double lo, double hi) {
  Expr e;
  e.binary(ScalarOp::min, e.binary(ScalarOp::max, e.input(0), e.constant(lo)), e.constant(hi));
  return e;
}

Kernel kernel_of(const Expr& expr, std::string_view type) {
  const Target target;
  Writer writer("test", target);
  writer.output("y", 0, type);
  const std::string names[] = {"y[0]"};
  writer.body("  y[0] = " + print_expr(writer, expr, names, type) + ";\n");
  return *writer.finish();
}

TEST(ExprWgsl, ConstantsAreUniformsSoThatTextIsShared) {
  const Kernel a = kernel_of(clamp(0, 6), "f32"), b = kernel_of(clamp(-1, 1), "f32");
  EXPECT_EQ(a.text, b.text);
  EXPECT_NE(a.uniforms, b.uniforms);
  EXPECT_THAT(a.text, HasSubstr("k0: f32"));
}

TEST(ExprWgsl, FloatClampsKeepNanAndIntegerOnesNeedNot) {
  EXPECT_THAT(kernel_of(clamp(0, 6), "f32").text, HasSubstr("0x7f800000u"));
  EXPECT_THAT(kernel_of(clamp(0, 6), "vec4<f32>").text, HasSubstr("vec4<u32>(0x7f800000u)"));
  EXPECT_THAT(kernel_of(clamp(0, 6), "i32").text, Not(HasSubstr("0x7f800000u")));
}

TEST(ExprWgsl, HelpersAreDeclaredOnce) {
  Expr e;
  e.unary(ScalarOp::tanh, e.unary(ScalarOp::tanh, e.input(0)));
  const std::string text = kernel_of(e, "f32").text;
  const size_t first = text.find("fn tanh_f1");
  ASSERT_NE(first, std::string::npos);
  EXPECT_EQ(text.find("fn tanh_f1", first + 1), std::string::npos);
}

TEST(ExprWgsl, NothingToDoIsTheInputItself) {
  const Target target;
  Writer writer("test", target);
  const std::string names[] = {"v"};
  EXPECT_EQ(print_expr(writer, Expr(), names, "f32"), "v");
}

}  // namespace
}  // namespace sinter::wgsl
