"""Loads, stores, copies and calls of the PTX emulator, and the accesses that it refuses."""

import numpy as np
import pytest
from ptx_programs import elementwise, execute, wrap
from qtranspose.gpu import ptx

THREAD = ".reg .b32 %t, %b; .reg .b64 %p, %i, %a; mov.u32 %t, %tid.x; mov.u32 %b, %ctaid.x; ld.param.b64 %p, [p];"


def run(body, data, size=None, declarations="", **launch):
    """Launch on a copy of `data` (parameter p) and return its contents afterwards."""
    memory = ptx.Memory()
    address = memory.upload(data)
    execute(wrap(THREAD + body + " ret;", declarations), [address], memory=memory, **launch)
    return memory.view(address, data.nbytes).view(data.dtype)


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.uint16, np.int16, np.uint32, np.int64])
def test_loads_extend_to_the_register(dtype):
    info = np.iinfo(dtype)
    data = np.array([info.min, info.max, 0, 1] * 8, dtype)
    name = f"{'s' if info.min else 'u'}{8 * data.itemsize}"
    got = elementwise(f"ld.global.{name} %d, [%at];", [data], np.int64)
    np.testing.assert_array_equal(got, data.astype(np.int64))


@pytest.mark.parametrize(
    ("count", "type", "dtype"), [(2, "b32", np.uint32), (4, "b32", np.uint32), (2, "b64", np.uint64)]
)
def test_vector_accesses(count, type, dtype):
    data = np.arange(32 * count, dtype=dtype)
    names = [f"%x{n}" for n in range(count)]
    body = (
        f".reg .{type} {', '.join(names)}; mul.wide.u32 %i, %t, {count * data.itemsize}; add.s64 %a, %p, %i;"
        f"ld.global.nc.L1::no_allocate.v{count}.{type} {{{', '.join(names)}}}, [%a];"
        f"st.global.v{count}.{type} [%a], {{{', '.join(reversed(names))}}};"
    )
    np.testing.assert_array_equal(run(body, data), data.reshape(-1, count)[:, ::-1].reshape(-1))


def test_offsets_and_generic_addresses():
    data = np.arange(64, dtype=np.uint32)
    body = "mul.wide.u32 %i, %t, 4; add.s64 %a, %p, %i; ld.u32 %b, [%a+128]; st.u32 [%a], %b;"
    np.testing.assert_array_equal(run(body, data)[:32], data[32:])


def test_variables_of_the_program():
    body = (
        ".reg .b64 %g; .reg .b32 %x; mov.b64 %g, table; cvta.global.u64 %g, %g; and.b32 %x, %t, 3;"
        "mul.wide.u32 %i, %x, 2; add.s64 %g, %g, %i; .reg .b16 %h; ld.global.b16 %h, [%g]; cvt.u32.u16 %x, %h;"
        "mul.wide.u32 %i, %t, 4; add.s64 %a, %p, %i; st.global.b32 [%a], %x;"
    )
    got = run(body, np.zeros(32, np.uint32), declarations=".global .align 2 .b16 table[4] = {1, 20, 300, 65535};")
    np.testing.assert_array_equal(got, np.tile(np.uint32([1, 20, 300, 65535]), 8))


def test_local_memory_belongs_to_each_thread():
    body = (
        ".local .align 4 .b8 depot[8]; .reg .b64 %sp, %spl; .reg .b32 %x; mov.b64 %spl, depot;"
        "cvta.local.u64 %sp, %spl; st.local.u32 [%spl+4], %t; ld.u32 %x, [%sp+4];"
        "mul.wide.u32 %i, %t, 4; add.s64 %a, %p, %i; st.global.b32 [%a], %x;"
    )
    np.testing.assert_array_equal(run(body, np.zeros(32, np.uint32)), np.arange(32))
    with pytest.raises(ptx.PTXError, match="out of bounds: local"):
        run(body.replace("+4]", "+8]"), np.zeros(32, np.uint32))


REVERSE = """
  .shared .align 4 .b8 tile[256];
  .reg .b32 %s, %x, %y; .reg .b64 %g;
  shl.b32 %x, %t, 2; mov.b32 %s, tile; add.s32 %x, %s, %x; st.shared.b32 [%x], %t;
  bar.sync 0;
  sub.s32 %y, 63, %t; shl.b32 %y, %y, 2; add.s32 %y, %s, %y; ld.shared.b32 %x, [%y];
  mad.lo.s32 %y, %b, 64, %t; mul.wide.u32 %i, %y, 4; add.s64 %a, %p, %i; st.global.b32 [%a], %x;
"""


def test_shared_memory_belongs_to_each_block():
    got = run(REVERSE, np.zeros(192, np.uint32), grid=3, block=64)
    np.testing.assert_array_equal(got, np.tile(np.arange(63, -1, -1), 3))


def test_dynamic_shared_memory():
    declared = ".extern .shared .align 16 .b8 tile[];"
    body = REVERSE.replace(".shared .align 4 .b8 tile[256];", "")
    got = run(body, np.zeros(64, np.uint32), declarations=declared, block=64, dynamic_shared=256)
    np.testing.assert_array_equal(got, np.arange(63, -1, -1))
    with pytest.raises(ptx.PTXError, match="out of bounds: shared store"):
        run(body, np.zeros(64, np.uint32), declarations=declared, block=64, dynamic_shared=252)


def test_a_missing_barrier_is_a_race():
    with pytest.raises(ptx.PTXError, match="race on shared memory"):
        run(REVERSE.replace("bar.sync 0;", ""), np.zeros(64, np.uint32), block=64)


def test_a_race_within_a_warp():
    body = REVERSE.replace("63", "31")
    for barrier in ("bar.sync 0;", "bar.warp.sync -1;"):
        run(body.replace("bar.sync 0;", barrier), np.zeros(32, np.uint32))
    with pytest.raises(ptx.PTXError, match="race on shared memory"):
        run(body.replace("bar.sync 0;", ""), np.zeros(32, np.uint32))
    # A barrier of a warp says nothing to the other one.
    with pytest.raises(ptx.PTXError, match="race on shared memory"):
        run(REVERSE.replace("bar.sync 0;", "bar.warp.sync -1;"), np.zeros(64, np.uint32), block=64)


def test_a_store_after_a_load_is_a_race():
    late = REVERSE.replace(
        "mad.lo.s32 %y", "shl.b32 %y, %t, 2; add.s32 %y, %s, %y; st.shared.b32 [%y], %t; mad.lo.s32 %y"
    )
    with pytest.raises(ptx.PTXError, match=r"race on shared memory: thread \d+ of a block writes"):
        run(late, np.zeros(64, np.uint32), block=64)
    run(late.replace("shl.b32 %y, %t, 2;", "bar.sync 0; shl.b32 %y, %t, 2;"), np.zeros(64, np.uint32), block=64)


def test_two_threads_that_store_to_one_place():
    store = ".shared .align 4 .b8 one[4]; st.shared.b32 [one], {};"
    with pytest.raises(ptx.PTXError, match="race on shared memory"):
        run(store.format("%t"), np.zeros(1, np.uint32))
    run(store.format("7"), np.zeros(1, np.uint32))
    with pytest.raises(ptx.PTXError, match="different values to one address of global memory"):
        run("st.global.b32 [%p], %t;", np.zeros(1, np.uint32))
    assert run("st.global.b32 [%p], 7;", np.zeros(1, np.uint32)) == 7


def test_memory_that_was_not_written_is_not_zero():
    memory = ptx.Memory()
    assert (memory.view(memory.allocate(64), 64) == 0xCD).all()


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("mul.wide.u32 %i, %t, 4; add.s64 %a, %p, %i; st.global.b32 [%a+4], %t;", "out of bounds: global store"),
        ("mul.wide.u32 %i, %t, 4; add.s64 %a, %p, %i; ld.global.b32 %t, [%a+-4];", "out of bounds: global load"),
        ("mul.wide.u32 %i, %t, 4; add.s64 %a, %p, %i; ld.global.b32 %t, [%a+2];", "misaligned global load of 4 bytes"),
        (".reg .b32 %x<5>; ld.global.v4.b32 {%x0, %x1, %x2, %x3}, [%p+8];", "misaligned global load of 16 bytes"),
        ("ld.global.b32 %t, [64];", "out of bounds: global load"),
        (".shared .align 4 .b8 s[64]; .reg .b64 %x<2>; st.shared.v2.b64 [s], {%x0, %x1};", "misaligned shared store"),
        (".shared .align 4 .b8 s[64]; ld.shared.b32 %t, [s+64];", "out of bounds: shared load"),
    ],
)
def test_refused_accesses(body, message):
    with pytest.raises(ptx.PTXError, match=message) as error:
        run(body, np.zeros(32, np.uint32))
    # The message names the instruction.
    assert body.rstrip(";").split(";")[-1].strip() in str(error.value)


def test_freed_and_read_only_memory():
    memory = ptx.Memory()
    address = memory.upload(np.zeros(32, np.uint32), read_only=True)
    with pytest.raises(ptx.PTXError, match="store to read-only memory"):
        execute(wrap(THREAD + "st.global.b32 [%p], 1; ret;"), [address], memory=memory)
    memory.free(address)
    with pytest.raises(ptx.PTXError, match="out of bounds"):
        execute(wrap(THREAD + "ld.global.b32 %t, [%p]; ret;"), [address], memory=memory)
    with pytest.raises(ptx.PTXError, match="freed, but not allocated"):
        memory.free(address)


def test_lanes_in_different_allocations():
    memory = ptx.Memory()
    arrays = [np.arange(n, n + 4, dtype=np.uint64) for n in (0, 100, 200)]
    table = memory.upload(np.array([memory.upload(array) for array in arrays], np.uint64))
    out = memory.allocate(96)
    body = (
        ".reg .b32 %t, %x; .reg .b64 %p, %q, %i; mov.u32 %t, %tid.x; ld.param.b64 %p, [p]; ld.param.b64 %q, [o];"
        "rem.u32 %x, %t, 3; mul.wide.u32 %i, %x, 8; add.s64 %p, %p, %i; ld.global.b64 %p, [%p];"
        "div.u32 %x, %t, 3; mul.wide.u32 %i, %x, 8; add.s64 %p, %p, %i; ld.global.b64 %p, [%p];"
        "mul.wide.u32 %i, %t, 8; add.s64 %q, %q, %i; st.global.b64 [%q], %p; ret;"
    )
    execute(wrap(body, parameters=("p", "o")), [table, out], block=12, memory=memory)
    np.testing.assert_array_equal(memory.view(out, 96).view(np.uint64).reshape(4, 3), np.stack(arrays, 1))


ASYNC = """
  .shared .align 16 .b8 tile[1024];
  .reg .b32 %s, %x<5>; .reg .b64 %g;
  mov.b32 %s, tile; mad.lo.s32 %s, %t, 16, %s; mul.wide.u32 %i, %t, 16; add.s64 %a, %p, %i;
  cp.async.cg.shared.global [%s], [%a], 16;
  cp.async.commit_group;
  cp.async.ca.shared.global [%s+512], [%a], 16, {valid};
  cp.async.commit_group;
  cp.async.wait_group {pending};
  ld.shared.v4.b32 {{%x0, %x1, %x2, %x3}}, [%s+{offset}];
  st.global.v4.b32 [%a+512], {{%x0, %x1, %x2, %x3}};
"""


def test_asynchronous_copies_land_when_they_are_waited_for():
    data = np.arange(256, dtype=np.uint32)
    for pending, offset in ((1, 0), (0, 0), (0, 512)):
        got = run(ASYNC.format(valid=16, pending=pending, offset=offset), data)
        np.testing.assert_array_equal(got[128:], data[:128])
    late = run(ASYNC.format(valid=16, pending=1, offset=512), data)
    assert (late[128:] == 0xCDCDCDCD).all()


def test_asynchronous_copies_fill_with_zeros():
    data = np.arange(1, 257, dtype=np.uint32)
    got = run(ASYNC.format(valid=8, pending=0, offset=512), data)[128:].reshape(-1, 4)
    np.testing.assert_array_equal(got[:, :2], data[:128].reshape(-1, 4)[:, :2])
    assert (got[:, 2:] == 0).all()


def test_asynchronous_copies_race_too():
    body = (
        ASYNC.format(valid=16, pending=0, offset=0)
        .replace("[%s+0]", "[%x4]")
        .replace("ld.shared", "xor.b32 %x4, %t, 1; mov.b32 %s, tile; mad.lo.s32 %x4, %x4, 16, %s; ld.shared")
    )
    with pytest.raises(ptx.PTXError, match="race on shared memory"):
        run(body, np.arange(256, dtype=np.uint32))
    body = body.replace("xor.b32", "bar.sync 0; xor.b32")
    got = run(body, np.arange(256, dtype=np.uint32))
    np.testing.assert_array_equal(got[128:].reshape(32, 4), np.arange(128).reshape(32, 4)[np.arange(32) ^ 1])


def test_failed_assertions_say_what_failed():
    declarations = (
        ".global .align 1 .b8 text[6] = {104, 101, 108, 108, 111, 0};"
        ".extern .func __assertfail (.param .b64 a, .param .b64 b, .param .b32 c, .param .b64 d, .param .b64 e);"
    )
    body = """
      .reg .pred %q; .reg .b64 %m; setp.ne.u32 %q, %t, 5; @%q bra $ok;
      mov.b64 %m, text; cvta.global.u64 %m, %m;
      { // callseq 0, 0
      .param .b64 param0; .param .b64 param1; .param .b32 param2; .param .b64 param3; .param .b64 param4;
      st.param.b64 [param0], %m; st.param.b64 [param1], %m; st.param.b32 [param2], 1; st.param.b64 [param3], %m;
      st.param.b64 [param4], 1;
      call.uni __assertfail, (param0, param1, param2, param3, param4);
      } // callseq 0
      $ok:
    """
    with pytest.raises(ptx.PTXError, match="assertion failed: hello"):
        run(body, np.zeros(32, np.uint32), declarations=declarations)
    run(body, np.zeros(5, np.uint32), declarations=declarations, block=5)


@pytest.mark.parametrize(
    ("launch", "message"),
    [
        ({"block": 1025}, "invalid launch"),
        ({"grid": 0}, "invalid launch"),
        ({"grid": (1, 65536, 1)}, "invalid launch"),
        ({"block": 96}, "blocks of 96 threads, but the kernel allows 64"),
    ],
)
def test_refused_launches(launch, message):
    text = wrap("ret;").replace(")\n{", ")\n.maxntid 64, 1, 1\n{")
    with pytest.raises(ptx.PTXError, match=message):
        execute(text, [0], **launch)
    with pytest.raises(ptx.PTXError, match=r"arguments of \[8, 8\] bytes for parameters of \[8\] bytes"):
        execute(text, [0, 0])
