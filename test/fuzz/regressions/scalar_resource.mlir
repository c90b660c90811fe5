// '' then 'qtranspose-lower-quantized-matmul'
// Upstream aborted when it folded an element of a resource.
func.func @f(%x0: tensor<5x11xi8>, %z0: tensor<i8>, %init: tensor<5x7xi32>) -> tensor<5x7xi32> {
  %x1 = arith.constant dense_resource<x1> : tensor<11x7xi8>
  %z1 = arith.constant dense_resource<z1> : tensor<i8>
  %r = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d2)>, affine_map<(d0, d1, d2) -> (d2, d1)>, affine_map<(d0, d1, d2) -> ()>, affine_map<(d0, d1, d2) -> ()>, affine_map<(d0, d1, d2) -> (d0, d1)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x0, %x1, %z0, %z1 : tensor<5x11xi8>, tensor<11x7xi8>, tensor<i8>, tensor<i8>) outs(%init : tensor<5x7xi32>) {
  ^bb0(%a0: i8, %a1: i8, %b0: i8, %b1: i8, %acc: i32):
    %w0 = arith.extsi %a0 : i8 to i32
    %w1 = arith.extsi %a1 : i8 to i32
    %y0 = arith.extsi %b0 : i8 to i32
    %d0 = arith.subi %w0, %y0 : i32
    %y1 = arith.extsi %b1 : i8 to i32
    %d1 = arith.subi %w1, %y1 : i32
    %p = arith.muli %d0, %d1 : i32
    %t = arith.addi %acc, %p : i32
    linalg.yield %t : i32
  } -> tensor<5x7xi32>
  return %r : tensor<5x7xi32>
}
{-# dialect_resources: { builtin: { x1: "0x01000000C51A0278DFC9403A3FFF5C216781AB0B6D3FD60F8768E06FCCB780C7CD475B5030103E2BE8F83380707566E43F58FE5B9F15670DF3901988F9534F4387334A3A26A73958C94477AC8EFF5B96BA", z1: "0x0100000059" } } #-}
