// RUN: qtranspose-opt %s --split-input-file --verify-diagnostics --qtranspose-lower-quant-casts

// The type would have to say where the axis went.

!axis = !quant.uniform<i8:f32:0, {0.5, 0.25:3}>
func.func @moved_axis(%a: tensor<2x2x!axis>, %o: tensor<2x2x!axis>) -> tensor<2x2x!axis> {
  // expected-error @+1 {{on a tensor whose quantized type has an axis; cast it to its storage type (quant.scast) first}}
  %t = linalg.transpose ins(%a : tensor<2x2x!axis>) outs(%o : tensor<2x2x!axis>) permutation = [1, 0]
  return %t : tensor<2x2x!axis>
}

// -----

// expected-error @+1 {{quant.calibrated types have no storage and cannot be lowered}}
func.func @calibrated(%a: tensor<2x!quant.calibrated<f32<-0.5:1.0>>>) {
  return
}

// -----

func.func @unranked(%a: tensor<*xi8>) -> tensor<*x!quant.uniform<i8:f32, 0.5>> {
  %q = quant.scast %a : tensor<*xi8> to tensor<*x!quant.uniform<i8:f32, 0.5>>
  // expected-error @+1 {{unranked tensors are not supported}}
  %r = quant.dcast %q : tensor<*x!quant.uniform<i8:f32, 0.5>> to tensor<*xf32>
  return %q : tensor<*x!quant.uniform<i8:f32, 0.5>>
}
