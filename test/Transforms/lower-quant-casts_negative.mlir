// What does not concern the pass stays as it is, dead ops and duplicate constants included; what cannot be lowered has
// one diagnostic.

// RUN: sed '/^\/\/ -----/,$d' %s > %t.mlir
// RUN: qtranspose-opt %t.mlir -o %t.before
// RUN: qtranspose-opt %t.mlir --qtranspose-lower-quant-casts -o %t.after
// RUN: diff %t.before %t.after
// RUN: qtranspose-opt %s --split-input-file --verify-diagnostics --qtranspose-lower-quant-casts > /dev/null

func.func @no_quantized_types(%a: tensor<2x4xi8>, %s: tensor<4xf32>) -> tensor<2x4xf32> {
  %dead = arith.constant 7 : i32
  %again = arith.constant 7 : i32
  %e = tensor.empty() : tensor<2x4xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d1)>,
                                        affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]}
      ins(%a, %s : tensor<2x4xi8>, tensor<4xf32>) outs(%e : tensor<2x4xf32>) {
  ^bb0(%q: i8, %scale: f32, %out: f32):
    %f = arith.sitofp %q : i8 to f32
    %m = arith.mulf %f, %scale : f32
    linalg.yield %m : f32
  } -> tensor<2x4xf32>
  return %r : tensor<2x4xf32>
}

// -----

// The type would have to say where the axis went.

!axis = !quant.uniform<i8:f32:0, {0.5, 0.25:3}>
// PITFALL 3
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

// -----

// The blocks say nothing of which row they belong to once rows and columns are one dim.

!block = !quant.uniform<i8:f32:{0:1, 1:2}, {{0.5:3, 0.25}, {0.125, 2.0}}>
func.func @flattened(%a: tensor<2x4x!block>) -> tensor<8x!block> {
  // expected-error @+1 {{on a tensor whose quantized type has an axis}}
  %c = "tensor.collapse_shape"(%a) <{reassociation = [[0, 1]]}> : (tensor<2x4x!block>) -> tensor<8x!block>
  return %c : tensor<8x!block>
}
