// SPDX-License-Identifier: Apache-2.0
// The C library's elementary functions, from the host's Math: theirs come with tables and polynomials that weigh 5 percent of
// the download, and a browser has them anyway (V8 calls its own Math from wasm as directly as a function of the module).
// Compiled without link-time optimisation: the compiler may ask for any of them by name at the last moment.
#include <cmath>

#define SINTER_MATH1(name)                                                                                 \
  extern "C" __attribute__((import_module("sinter_math"), import_name(#name))) double host_##name(double); \
  extern "C" double name(double x) { return host_##name(x); }                                              \
  extern "C" float name##f(float x) { return static_cast<float>(host_##name(x)); }

SINTER_MATH1(exp)
SINTER_MATH1(expm1)
SINTER_MATH1(log)
SINTER_MATH1(log2)
SINTER_MATH1(log10)
SINTER_MATH1(log1p)
SINTER_MATH1(sin)
SINTER_MATH1(cos)
SINTER_MATH1(tan)
SINTER_MATH1(asin)
SINTER_MATH1(acos)
SINTER_MATH1(atan)
SINTER_MATH1(sinh)
SINTER_MATH1(cosh)
SINTER_MATH1(tanh)
SINTER_MATH1(asinh)
SINTER_MATH1(acosh)
SINTER_MATH1(atanh)

extern "C" {
__attribute__((import_module("sinter_math"), import_name("pow"))) double host_pow(double, double);

double pow(double x, double y) {
  // Where C and JavaScript differ.
  if (x == 1 || (x == -1 && std::isinf(y))) return 1;
  return host_pow(x, y);
}

float powf(float x, float y) { return static_cast<float>(pow(x, y)); }
}
