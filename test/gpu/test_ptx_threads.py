"""Control flow, barriers, and instructions of whole warps in the PTX emulator."""

import ml_dtypes
import numpy as np
import pytest
from ptx_programs import elementwise, execute, wrap
from qtranspose.gpu import ptx


def lanes(code, count=64, block=None):
    """Run code on thread numbers, in blocks of all threads unless told otherwise."""
    body = (
        ".reg .b32 %t, %b, %n, %d; .reg .b64 %o, %i; .reg .pred %p; mov.u32 %t, %tid.x; mov.u32 %b, %ctaid.x;"
        f"mov.u32 %n, %ntid.x; mad.lo.s32 %n, %b, %n, %t; mov.b32 %d, 0; {code}"
        "ld.param.b64 %o, [p]; mul.wide.u32 %i, %n, 4; add.s64 %o, %o, %i; st.global.b32 [%o], %d; ret;"
    )
    memory = ptx.Memory()
    out = memory.allocate(4 * count)
    block = block or count
    execute(wrap(body), [out], grid=count // block, block=block, memory=memory)
    return memory.view(out, 4 * count).view(np.int32)


def test_threads_and_blocks_have_numbers():
    names = [f"%{kind}.{axis}" for kind in ("ctaid", "tid", "nctaid", "ntid") for axis in "xyz"]
    body = ".reg .b64 %o, %i; .reg .b32 %x<12>, %n; ld.param.b64 %o, [p];"
    body += " ".join(f"mov.u32 %x{n}, {name};" for n, name in enumerate(names))
    linear = "mad.lo.s32 %n, %x{0}, {1}, %x{2}; mad.lo.s32 %n, %n, {3}, %x{4};"
    body += ".reg .b32 %m; " + linear.format(2, 3, 1, 2, 0) + "mov.b32 %m, %n;" + linear.format(5, 4, 4, 5, 3)
    body += "mad.lo.s32 %n, %m, 60, %n; mul.wide.u32 %i, %n, 48; add.s64 %o, %o, %i;"
    body += " ".join(f"st.global.b32 [%o+{4 * n}], %x{n};" for n in range(12)) + "ret;"
    memory = ptx.Memory()
    grid, block = (2, 3, 2), (5, 4, 3)
    out = memory.allocate(12 * 60 * 48)
    execute(wrap(body), [out], grid=grid, block=block, memory=memory)
    got = memory.view(out, 12 * 60 * 48).view(np.int32).reshape(2, 3, 2, 3, 4, 5, 12)
    want = np.stack(np.meshgrid(*map(np.arange, got.shape[:-1]), indexing="ij"), -1)
    np.testing.assert_array_equal(got[..., :6], want[..., [2, 1, 0, 5, 4, 3]])
    np.testing.assert_array_equal(got[..., 6:], np.broadcast_to([*grid, *block], (*want.shape[:-1], 6)))


def test_threads_loop_as_often_as_they_want():
    code = """
      .reg .b32 %k; mov.b32 %k, 0;
    $loop:
      setp.ge.s32 %p, %k, %t; @%p bra $done; add.s32 %d, %d, %k; add.s32 %k, %k, 1; bra.uni $loop;
    $done:
    """
    want = np.arange(64) * (np.arange(64) - 1) // 2
    np.testing.assert_array_equal(lanes(code), want)
    np.testing.assert_array_equal(lanes(code, 64, 16), np.tile(want[:16], 4))


def test_branches_join_again():
    code = """
      .reg .b32 %r; and.b32 %r, %t, 1; setp.eq.s32 %p, %r, 0; @%p bra $even;
      mul.lo.s32 %d, %t, 10; bra.uni $end;
    $even:
      neg.s32 %d, %t;
    $end:
      add.s32 %d, %d, 1;
    """
    t = np.arange(64)
    np.testing.assert_array_equal(lanes(code), np.where(t % 2, 10 * t, -t) + 1)


def test_guards_and_early_exits():
    t = np.arange(64)
    code = "setp.lt.s32 %p, %t, 7; @%p add.s32 %d, %t, 5; @!%p sub.s32 %d, %t, 5;"
    np.testing.assert_array_equal(lanes(code), np.where(t < 7, t + 5, t - 5))
    memory_of_the_others = -842150451
    np.testing.assert_array_equal(
        lanes("setp.gt.s32 %p, %t, 9; @%p ret; mov.b32 %d, 1;"), np.where(t > 9, memory_of_the_others, 1)
    )


def test_registers_that_share_a_value_are_separate():
    # Copies of a register must not follow when some of the threads change it.
    code = ".reg .b32 %x; mov.b32 %x, %t; mov.b32 %d, %x; setp.lt.s32 %p, %t, 9; @%p mov.b32 %x, -1; add.s32 %d, %d, 0;"
    np.testing.assert_array_equal(lanes(code), np.arange(64))
    code = ".reg .b32 %x; setp.lt.s32 %p, %t, 9; @%p mov.b32 %x, %t; mov.b32 %d, %x; @%p mov.b32 %x, -1;"
    np.testing.assert_array_equal(lanes(code), np.where(np.arange(64) < 9, np.arange(64), 0))


def test_branch_tables():
    code = """
      .reg .b32 %r; rem.u32 %r, %t, 3;
      $table: .branchtargets $a, $b, $c;
      brx.idx %r, $table;
    $a: mov.b32 %d, 10; bra.uni $end;
    $b: mov.b32 %d, 20; bra.uni $end;
    $c: mov.b32 %d, 30;
    $end:
    """
    np.testing.assert_array_equal(lanes(code), np.tile([10, 20, 30], 22)[:64])


def test_many_blocks_are_executed_in_parts():
    got = lanes("mov.b32 %d, %n;", count=1 << 18, block=256)
    np.testing.assert_array_equal(got, np.arange(1 << 18))


@pytest.mark.parametrize(
    ("barrier", "message"),
    [
        ("bar.sync 0;", "not all lanes of a warp reach"),
        ("shfl.sync.bfly.b32 %d, %t, 1, 31, -1;", "not all lanes of a warp reach"),
        ("bar.warp.sync -1;", "not all lanes of a warp reach"),
    ],
)
def test_divergent_synchronization(barrier, message):
    with pytest.raises(ptx.PTXError, match=message) as error:
        lanes(f"setp.lt.s32 %p, %t, 9; @%p bra $skip; {barrier} $skip:")
    assert barrier.rstrip(";") in str(error.value)
    lanes(f"setp.lt.s32 %p, %t, 99; @%p bra $skip; bra.uni $end; $skip: {barrier} $end:")


def test_a_barrier_that_one_warp_skips():
    with pytest.raises(ptx.PTXError, match="not all threads of a block reach this barrier"):
        lanes("setp.lt.s32 %p, %t, 32; @%p bra $skip; bar.sync 0; $skip:")


def test_threads_meet_at_a_shuffle_after_a_branch():
    code = """
      .reg .b32 %x; setp.lt.s32 %p, %t, 9; mov.b32 %x, %t; @%p bra $low; add.s32 %x, %x, 100; bra.uni $join;
    $low: add.s32 %x, %x, 200;
    $join: shfl.sync.bfly.b32 %d, %x, 16, 31, -1;
    """
    t = np.arange(64)
    np.testing.assert_array_equal(lanes(code), np.where(t < 9, t + 200, t + 100)[t ^ 16])


def test_a_mask_that_leaves_a_thread_out():
    with pytest.raises(ptx.PTXError, match="whose mask leaves it out"):
        lanes("shfl.sync.bfly.b32 %d, %t, 1, 31, 15;")
    code = "setp.gt.s32 %p, %t, 15; @%p bra $end; shfl.sync.bfly.b32 %d, %t, 1, 31, 65535; $end:"
    t = np.arange(32)
    np.testing.assert_array_equal(lanes(code, 32), np.where(t < 16, t ^ 1, 0))


@pytest.mark.parametrize("clamp", [31, 7 | 24 << 8])
def test_shuffles(clamp):
    t = np.arange(64)
    width = 32 if clamp == 31 else 8
    start = t // width * width
    up = 0 if clamp == 31 else 24 << 8
    for mode, amount, packed, source in [
        ("bfly", 3, clamp, t ^ 3),
        ("up", 3, up, np.where(t - 3 >= start, t - 3, t)),
        ("down", 3, clamp, np.where(t + 3 < start + width, t + 3, t)),
        ("idx", 2, clamp, start + 2),
    ]:
        code = f"add.s32 %d, %t, 1000; shfl.sync.{mode}.b32 %d|%p, %d, {amount}, {packed}, -1;"
        np.testing.assert_array_equal(lanes(code), source + 1000)
        valid = lanes(code + "selp.b32 %d, 1, 0, %p;")
        np.testing.assert_array_equal(valid, ((source != t) | (mode == "idx")).astype(int))


def test_a_shuffle_from_a_lane_that_does_not_exist():
    with pytest.raises(ptx.PTXError, match="not a multiple of 32 threads"):
        lanes("shfl.sync.bfly.b32 %d, %t, 16, 31, -1;", 48)


def test_votes():
    t = np.arange(64)
    odd = "and.b32 %d, %t, 1; setp.eq.s32 %p, %d, 1; "
    some = lanes(odd + "vote.sync.ballot.b32 %d, %p, -1;").view(np.uint32)
    assert (some == 0xAAAAAAAA).all()
    for mode, want in [("any", t >= 32), ("all", np.zeros(64)), ("uni", t < 32)]:
        code = f"setp.gt.s32 %p, %t, 40; vote.sync.{mode}.pred %p, %p, -1; selp.b32 %d, 1, 0, %p;"
        np.testing.assert_array_equal(lanes(code), want.astype(int))


def test_reductions_of_warps():
    values = np.random.default_rng(0).integers(-1000, 1000, 64).astype(np.int32)
    warps = values.reshape(2, 32)
    for name, type, want in [
        ("add", "s32", warps.sum(1)),
        ("min", "s32", warps.min(1)),
        ("max", "u32", warps.view(np.uint32).max(1)),
        ("xor", "b32", np.bitwise_xor.reduce(warps, 1)),
        ("and", "b32", np.bitwise_and.reduce(warps, 1)),
        ("or", "b32", np.bitwise_or.reduce(warps, 1)),
    ]:
        got = elementwise(f"redux.sync.{name}.{type} %d, %a0, -1;", [values], np.int32)
        np.testing.assert_array_equal(got.reshape(2, 32), np.repeat(want.astype(np.int32)[:, None], 32, 1))


def fragments(matrix, packed):
    """Word by word what the manual says lane i holds of an operand of mma.sync: (registers, 32)."""
    rows, columns = matrix.shape
    words = []
    for block in range(columns // (4 * packed)):
        for half in range(rows // 8):
            row = matrix[8 * half : 8 * half + 8, 4 * packed * block : 4 * packed * (block + 1)]
            words.append(np.ascontiguousarray(row).reshape(32, packed))
    return np.stack(words)


@pytest.mark.parametrize(
    ("depth", "types", "dtype"),
    [
        (16, "f32.f16.f16.f32", np.float16),
        (8, "f32.f16.f16.f32", np.float16),
        (16, "f32.bf16.bf16.f32", ml_dtypes.bfloat16),
        (16, "f16.f16.f16.f16", np.float16),
        (32, "s32.s8.s8.s32", np.int8),
        (32, "s32.u8.u8.s32", np.uint8),
    ],
)
def test_mma(depth, types, dtype):
    rng = np.random.default_rng(0)
    integer = np.dtype(dtype).itemsize == 1
    result = np.dtype({"f32": np.float32, "f16": np.float16, "s32": np.int32}[types[:3]])
    draw = (lambda *shape: rng.integers(0, 127, shape)) if integer else (lambda *shape: rng.integers(-8, 8, shape) / 4)
    a, b, c = draw(16, depth).astype(dtype), draw(depth, 8).astype(dtype), draw(16, 8).astype(result)
    packed = 4 // np.dtype(dtype).itemsize
    registers = {
        "a": fragments(a, packed).view(np.uint32)[..., 0],
        "b": fragments(np.ascontiguousarray(b.T), packed).view(np.uint32)[..., 0],
        "c": np.concatenate([fragments(c, 2).view(np.uint32)[..., n] for n in range(result.itemsize // 2)]),
    }
    if result.itemsize == 4:  # Two registers, one element each, per half.
        registers["c"] = registers["c"].reshape(2, 2, 32).transpose(1, 0, 2).reshape(4, 32)
    names, arrays, groups = [], [], {}
    for name, words in registers.items():
        groups[name] = [f"%a{len(arrays) + n}" for n in range(len(words))]
        arrays += [np.ascontiguousarray(word) for word in words]
    names = [f"%r{n}" for n in range(len(groups["c"]))]
    declare = f".reg .{'f32' if types[:3] == 'f32' else 'b32'} {', '.join(names)};"
    got = []
    for name in names:
        code = (
            f"{declare} mma.sync.aligned.m16n8k{depth}.row.col.{types} {{{', '.join(names)}}}, "
            f"{{{', '.join(groups['a'])}}}, {{{', '.join(groups['b'])}}}, {{{', '.join(groups['c'])}}};"
            f"mov.b32 %d, {name};"
        )
        got.append(elementwise(code, arrays, np.uint32))
    want = a.astype(np.float64) @ b.astype(np.float64) + c.astype(np.float64)
    want = fragments(want.astype(result), 2).view(np.uint32)
    if result.itemsize == 4:
        want = want.transpose(0, 2, 1).reshape(4, 32)
    np.testing.assert_array_equal(np.stack(got), want.reshape(len(got), 32))


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("count", [1, 2, 4])
def test_ldmatrix(count, transposed):
    data = np.arange(count * 64, dtype=np.uint16)
    names = [f"%x{n}" for n in range(count)]
    code = f"""
      .shared .align 16 .b8 tile[512]; .reg .b32 %s, %x, %w, %y<2>, {", ".join(names)};
      mov.b32 %s, tile; shl.b32 %x, %t, 2; add.s32 %x, %s, %x;
    """
    for word in range(count):
        code += f"shl.b32 %w, %t, 1; add.s32 %w, %w, {64 * word}; add.s32 %y0, %w, 1; shl.b32 %y0, %y0, 16;"
        code += f"or.b32 %w, %w, %y0; st.shared.b32 [%x+{128 * word}], %w;"
    code += f"bar.sync 0; rem.u32 %w, %t, {8 * count}; mad.lo.s32 %x, %w, 16, %s;"
    code += (
        f"ldmatrix.sync.aligned.m8n8.x{count}{'.trans' if transposed else ''}.shared.b16 {{{', '.join(names)}}}, [%x];"
    )
    for matrix in range(count):
        got = lanes(code + f"mov.b32 %d, %x{matrix};", 32).view(np.uint16).reshape(8, 8)
        want = data.reshape(count, 8, 8)[matrix]
        np.testing.assert_array_equal(got, want.T if transposed else want)


def test_matrix_instructions_need_whole_warps():
    code = ".shared .align 16 .b8 tile[512]; .reg .b32 %x; ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%x}, [tile];"
    with pytest.raises(ptx.PTXError, match="fewer than 32 lanes"):
        lanes(code, 16)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (".func helper(.param .b32 x) { ret; }", "device function"),
        (wrap("bar.sync 0, 64;"), "unsupported instruction: bar.sync 0, 64"),
        (wrap("bra $nowhere;"), "unknown label"),
        (wrap(".reg .b32 %x; mov.b32 %x, %clock;"), "unknown register or name: %clock"),
        (wrap(".reg .b128 %x;"), "unsupported type .b128"),
    ],
)
def test_unsupported_programs(text, message):
    with pytest.raises(ptx.PTXError, match=message):
        execute(text, [0])
