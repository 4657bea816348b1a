// Special functions of mathematics, element by element: of one number or of two.
#include <string>

#include "ops/pointwise.h"

namespace saker::ops {

namespace {

// Polynomials of degree n: both may be given as numbers.
void addPolynomial(Rows& rows, const std::string& name, InferFn rule) {
  addForms(rows, name + "(Tensor x, Tensor n)", rule, {.inplace = false});
  addForms(rows, name + ".x_scalar(Scalar x, Tensor n)", rule, {.inplace = false, .out = "x_scalar_out"});
  addForms(rows, name + ".n_scalar(Tensor x, Scalar n)", rule, {.inplace = false, .out = "n_scalar_out"});
}

void addPair(Rows& rows, const std::string& name, InferFn rule) {
  addForms(rows, name + "(Tensor self, Tensor other)", rule, {.inplace = false});
  addForms(rows, name + ".self_scalar(Scalar self, Tensor other)", rule, {.inplace = false, .out = "self_scalar_out"});
  addForms(rows, name + ".other_scalar(Tensor self, Scalar other)", rule,
           {.inplace = false, .out = "other_scalar_out"});
}

}  // namespace

void addSpecial(Rows& rows) {
  Forms noInplace{.inplace = false};
  for (std::string name : {"entr", "i0e", "i1", "i1e"}) {
    addForms(rows, "special_" + name + "(Tensor self)", unary<kFloats, Gives::Float>, noInplace);
  }
  for (std::string name :
       {"bessel_j0", "bessel_j1", "bessel_y0", "bessel_y1", "erfcx", "log_ndtr", "modified_bessel_i0",
        "modified_bessel_i1", "modified_bessel_k0", "modified_bessel_k1", "ndtri"}) {
    addForms(rows, "special_" + name + "(Tensor self)", unary<kFull, Gives::Float>, noInplace);
  }
  for (std::string name :
       {"airy_ai", "scaled_modified_bessel_k0", "scaled_modified_bessel_k1", "spherical_bessel_j0"}) {
    addForms(rows, "special_" + name + "(Tensor x)", unary<kFull, Gives::Float>, noInplace);
  }
  for (std::string name :
       {"chebyshev_polynomial_t", "chebyshev_polynomial_u", "chebyshev_polynomial_v", "chebyshev_polynomial_w",
        "hermite_polynomial_h", "hermite_polynomial_he", "laguerre_polynomial_l", "legendre_polynomial_p",
        "shifted_chebyshev_polynomial_t", "shifted_chebyshev_polynomial_u", "shifted_chebyshev_polynomial_v",
        "shifted_chebyshev_polynomial_w"}) {
    addPolynomial(rows, "special_" + name, binary<kFull, Gives::Float>);
  }
  addPair(rows, "special_zeta", binary<kFull, Gives::Float>);
  addPair(rows, "special_xlog1py", binary<kFloats, Gives::Float>);
  for (std::string name : {"igamma", "igammac"}) addForms(rows, name + "(Tensor self, Tensor other)", binary<kFloats>);
}

}  // namespace saker::ops
