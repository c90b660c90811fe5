// These stay: small ones, splats, elements that are not whole bytes, state that changes, names that are taken.

// RUN: qtranspose-opt %s -o %t.before
// RUN: qtranspose-opt %s --pass-pipeline='builtin.module(qtranspose-externalize-constants{smallest=8})' -o %t.after
// RUN: diff %t.before %t.after

memref.global "private" constant @small : memref<4xi8> = dense<[1, 2, 3, 4]>
memref.global "private" constant @splat : memref<16xi8> = dense<3>
memref.global "private" constant @bits : memref<64xi1> = dense<[true, false, true, false, true, false, true, false,
  true, false, true, false, true, false, true, false, true, false, true, false, true, false, true, false,
  true, false, true, false, true, false, true, false, true, false, true, false, true, false, true, false,
  true, false, true, false, true, false, true, false, true, false, true, false, true, false, true, false,
  true, false, true, false, true, false, true, false]>
memref.global "private" @state : memref<4xi32> = dense<[1, 2, 3, 4]>
memref.global "private" constant @taken : memref<4xi32> = dense<[1, 2, 3, 4]>
memref.global "private" constant @_mlir_ciface_taken : memref<1xi32> = dense<[1]>
func.func @main() -> memref<4xi32> {
  %0 = memref.get_global @taken : memref<4xi32>
  return %0 : memref<4xi32>
}
