// RUN: qtranspose-opt %s --split-input-file --verify-diagnostics --allow-unregistered-dialect --qtranspose-check-cpu-input

// expected-error @+1 {{the CPU target does not support unranked shapes ('tensor<*xf32>')}}
func.func @unranked(%a: tensor<*xf32>) {
  return
}

// -----

// expected-error @+1 {{the CPU target does not support complex numbers ('complex<f32>')}}
func.func @complex(%a: tensor<2xcomplex<f32>>) {
  return
}

// -----

// expected-error @+1 {{the CPU target does not support f80, f128 and tf32 ('tf32')}}
func.func @float(%a: tensor<2xtf32>) {
  return
}

// -----

// expected-error @+1 {{the CPU target does not support tensors of integers of 0 or more than 64 bits ('tensor<2xi65>')}}
func.func @wide(%a: tensor<2xi65>) {
  return
}

// -----

// expected-error @+1 {{the CPU target does not support sparse tensors}}
func.func @sparse(%a: tensor<2xf32, #sparse_tensor.encoding<{map = (d0) -> (d0 : compressed)}>>) {
  return
}

// -----

func.func @nested(%a: memref<2xf32>) {
  %c0 = arith.constant 0 : index
  scf.for %i = %c0 to %c0 step %c0 {
    // expected-error @+1 {{the CPU target does not support opaque and tuple types ('tuple<i8>')}}
    %t = ub.poison : tuple<i8>
  }
  return
}

// -----

func.func @unregistered() {
  // expected-error @+1 {{unregistered operation 'test.op' cannot be executed}}
  "test.op"() : () -> ()
  return
}

// -----

func.func private @outside(i32)
func.func @external(%a: i32) {
  // expected-error @+1 {{calls 'outside', which has no body}}
  func.call @outside(%a) : (i32) -> ()
  return
}

// -----

// expected-error @+1 {{the CPU target does not support complex numbers ('complex<f32>')}}
func.func @inside_another_type(%a: vector<2xf32>, %f: (tensor<2xcomplex<f32>>) -> i1) {
  return
}

// -----

func.func @in_a_block(%p: i1) {
  cf.cond_br %p, ^bb1, ^bb1
^bb1:
  // expected-error @+1 {{the CPU target does not support f80, f128 and tf32 ('f128')}}
  %c = ub.poison : f128
  return
}

// -----

// expected-error @+1 {{the CPU target does not support more elements than 64 bits can address ('tensor<4294967296x?x2147483648xi8>')}}
func.func @strides_overflow(%a: tensor<4294967296x?x2147483648xi8>, %b: tensor<1152921504606846975xi8>) {
  return
}

// -----

// expected-error @+1 {{the CPU target does not support more elements than 64 bits can address ('tensor<0x4294967296x4294967296xi8>')}}
func.func @empty_and_too_large(%a: tensor<0x4294967296x4294967296xi8>) {
  return
}

// -----

func.func @no_such_dim(%a: tensor<2x?xf32>) -> index {
  %two = arith.constant 2 : index
  // expected-error @+1 {{asks for the size of dim 2 of 'tensor<2x?xf32>'}}
  %size = tensor.dim %a, %two : tensor<2x?xf32>
  return %size : index
}
