// SPDX-License-Identifier: Apache-2.0
// ONNX scalar functions: Exp, Log, Sqrt, Erf and the trigonometric and hyperbolic ones. Floats only.
#include "engine/ops/elementwise.h"

namespace sinter {

using namespace ops;

SINTER_UNARY(op_exp, "Exp", 6, (float_unary_special<-3, 3>), unary(ScalarOp::exp, x))
SINTER_UNARY(op_log, "Log", 6, (float_unary_special<1, 9>), unary(ScalarOp::log, x))
SINTER_UNARY(op_sqrt, "Sqrt", 6, (float_unary_special<0, 9>), unary(ScalarOp::sqrt, x))
SINTER_UNARY(op_erf, "Erf", 9, (float_unary_special<-3, 3>), unary(ScalarOp::erf, x))

SINTER_UNARY(op_sin, "Sin", 7, (float_unary<-99, 99>), unary(ScalarOp::sin, x))
SINTER_UNARY(op_cos, "Cos", 7, (float_unary<-99, 99>), unary(ScalarOp::cos, x))
SINTER_UNARY(op_tan, "Tan", 7, (float_unary<-1, 1>), unary(ScalarOp::tan, x))
SINTER_UNARY(op_asin, "Asin", 7, (float_unary<-1, 1>), unary(ScalarOp::asin, x))
SINTER_UNARY(op_acos, "Acos", 7, (float_unary<-1, 1>), unary(ScalarOp::acos, x))
SINTER_UNARY(op_atan, "Atan", 7, (float_unary_special<-3, 3>), unary(ScalarOp::atan, x))
SINTER_UNARY(op_sinh, "Sinh", 9, (float_unary_special<-3, 3>), unary(ScalarOp::sinh, x))
SINTER_UNARY(op_cosh, "Cosh", 9, (float_unary_special<-3, 3>), unary(ScalarOp::cosh, x))
SINTER_UNARY(op_asinh, "Asinh", 9, (float_unary_special<-3, 3>), unary(ScalarOp::asinh, x))
SINTER_UNARY(op_acosh, "Acosh", 9, (float_unary<2, 9>), unary(ScalarOp::acosh, x))
SINTER_UNARY(op_atanh, "Atanh", 9, (float_unary<0, 0>), unary(ScalarOp::atanh, x))

}  // namespace sinter
