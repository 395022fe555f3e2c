"""What the engine says of broken bytes, and what it never does: guess, crash, take memory for a claim, hang."""

from __future__ import annotations

import contextlib
import gc
import os
import random
import re
import subprocess
import sys
import textwrap
import threading
import time

import numpy as np
import pytest

import zvcore.codecs
from tests.engine.toy import toy
from tests.processes import PATIENCE
from zvcore.codecs import CodecChain
from zvcore.engine import ABSENT, Buffers, Keys, Sources, encode_many, fetch
from zvcore.errors import CorruptDataError, ZvcoreError
from zvcore.stores import LocalStore

GZIP = zvcore.codecs.get("gzip")
ZSTD = zvcore.codecs.get("zstd", checksum=True)


class Reversed(zvcore.codecs.Codec):
    """A codec without a C table."""

    name = "reversed"

    def _encode(self, data):
        return bytes(data)[::-1]

    def _decode(self, data, max_size):
        if bytes(data[:4]) == b"oops":
            raise RuntimeError("told to fail")
        return bytes(data)[::-1]


def filled(store, codecs=(GZIP,), per_shard=None, **form):
    array = toy(store, (20, 30), (8, 10), "u2", per_shard, codecs, **form)
    array[...] = np.arange(600).reshape(20, 30)
    return array


@pytest.mark.parametrize("threads", [1, 4])
def test_a_broken_chunk_is_named_with_everything_that_is_known(store, threads):
    array = filled(store)
    data = bytes(store.get("c.1.2"))
    store.put("c.1.2", data[:-9])
    with pytest.raises(CorruptDataError) as caught:
        array.read(threads=threads)
    assert (caught.value.key, caught.value.chunk, caught.value.codec) == ("c.1.2", (1, 2), "gzip")
    assert "libdeflate" in str(caught.value)
    assert (array[:8] == np.arange(240).reshape(8, 30)).all()


def test_a_broken_chunk_in_a_shard_is_named_with_its_byte_range(store):
    array = filled(store, (ZSTD,), (2, 2))
    data = bytearray(store.get("s0.0"))
    offset, length = np.frombuffer(data[:64], "<u8").reshape(-1, 2)[3].tolist()
    data[offset + length - 2] ^= 0x40
    store.put("s0.0", bytes(data))
    with pytest.raises(CorruptDataError, match="checksum") as caught:
        array[...]
    error = caught.value
    assert (error.key, error.chunk, error.offset, error.length) == ("s0.0", (1, 1), offset, length)


@pytest.mark.parametrize(
    ("offset", "length"),
    [(2**64 - 2, 1), (2**63, 2**63 - 1), (10**6, 1), (64, 10**15), (64, 2**40), (2**62, 1), (1, 2**64 - 2)],
)
def test_ranges_beyond_the_object(store, offset, length):
    array = filled(store, (), (2, 2))
    data = bytearray(store.get("s0.0"))
    data[16:32] = np.array([offset, length], "<u8").tobytes()
    store.put("s0.0", bytes(data))
    with pytest.raises(CorruptDataError, match=r"beyond|outside|past|range") as caught:
        array[...]
    assert caught.value.key == "s0.0"
    assert array[0, 0] == 0


@pytest.mark.parametrize("size", [0, 1, 159, 161, 320])
def test_raw_chunks_of_the_wrong_size(store, size):
    array = filled(store, ())
    store.put("c.0.0", bytes(size))
    with pytest.raises(CorruptDataError, match=re.escape(f"expected 160 bytes, found {size}")):
        array[...]
    with pytest.raises(CorruptDataError):
        array[0, 0] = 1


def test_a_bomb_is_refused_before_memory_is_taken(store):
    array = filled(store, (ZSTD,))
    store.put("c.0.0", zvcore.codecs.get("zstd").encode(bytes(50_000_000)))
    with pytest.raises(CorruptDataError) as caught:
        array[...]
    assert caught.value.key == "c.0.0"


def test_a_stored_object_far_too_large_is_not_read(tmp_path):
    store = LocalStore(tmp_path)
    array = filled(store, (GZIP,))
    with open(tmp_path / "c.0.0", "wb") as sparse:
        sparse.truncate(1 << 40)
    with pytest.raises(CorruptDataError, match="larger"):
        array[...]


def test_a_codec_without_a_table_gives_the_same_results(store):
    array = filled(store, (Reversed(), GZIP))
    assert (array[...] == np.arange(600).reshape(20, 30)).all()
    array[3:9, 5:25] = 1
    assert (array[3:9, 5:25] == 1).all()
    assert array[0, 1] == 1


@pytest.mark.parametrize("threads", [1, 3])
def test_an_exception_in_a_codec_is_the_cause_of_the_error(store, threads):
    array = filled(store, (Reversed(),))
    store.put("c.0.1", b"oops" + bytes(156))
    with pytest.raises(CorruptDataError, match="told to fail") as caught:
        array.read(threads=threads)
    assert (caught.value.key, caught.value.chunk, caught.value.codec) == ("c.0.1", (0, 1), "reversed")
    assert isinstance(caught.value.__cause__, RuntimeError)


def open_below(folder):
    """How many files in this folder are open; of others, threads of other tests may open and close some meanwhile."""
    count = 0
    for descriptor in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):
            count += os.readlink(f"/proc/self/fd/{descriptor}").startswith(str(folder))
    return count


def test_failed_reads_leave_no_files_open(tmp_path):
    array = filled(LocalStore(tmp_path), (GZIP,), (2, 2))
    data = bytearray((tmp_path / "s0.0").read_bytes())
    data[70:90] = bytes(20)
    (tmp_path / "s0.0").write_bytes(data)
    with pytest.raises(CorruptDataError):
        array[...]
    before = open_below(tmp_path)
    for _ in range(50):
        with pytest.raises(CorruptDataError):
            array[...]
    assert open_below(tmp_path) <= before


def test_more_shards_than_files_may_be_open(tmp_path):
    import resource

    array = toy(LocalStore(tmp_path), (40, 40), (1, 1), "u1", (1, 2), (), fill_value=9)
    values = np.arange(1600).reshape(40, 40).astype("u1")
    array[...] = values
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) + 80, hard))
    try:
        assert (array[...] == values).all()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.parametrize(
    "read", [lambda a: a[...], lambda a: np.frombuffer(a.read_encoded((0, 0)), "u2")], ids=["values", "encoded"]
)
def test_a_shard_replaced_between_index_and_chunks_is_read_again(tmp_path, read):
    array = filled(LocalStore(tmp_path), (), (2, 2))
    other = toy(LocalStore(tmp_path / "other"), (20, 30), (8, 10), "u2", (2, 2), ())
    other[...] = 7
    original = array.layout.locate

    def locate_then_replace(positions):
        sources = original(positions)
        for name in ("s0.0", "s0.1", "s1.0", "s1.1"):
            if (tmp_path / "other" / name).exists():
                os.replace(tmp_path / "other" / name, tmp_path / name)
        return sources

    array.layout.locate = locate_then_replace
    assert (read(array) == 7).all()


def test_progress_is_reported_and_may_stop_the_batch(store):
    array = filled(store)
    told = []
    array.read(progress=lambda done, total: told.append((done, total)))
    assert told[-1] == (9, 9)

    def stop(done, total):
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        array.read(progress=stop)
    assert (array[...] == np.arange(600).reshape(20, 30)).all()


def test_threads_argument_and_environment(store):
    array = filled(store)
    for wrong in (0, -1):
        with pytest.raises(ValueError, match="threads"):
            array.read(threads=wrong)
    code = "import zvcore.engine; print(zvcore.engine.default_thread_count())"
    for value, expected in (("3", "3"), (None, str(len(os.sched_getaffinity(0))))):
        env = {key: text for key, text in os.environ.items() if key != "ZVCORE_THREADS"}
        env |= {} if value is None else {"ZVCORE_THREADS": value}
        assert (
            subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True).stdout.strip()
            == expected
        )
    env["ZVCORE_THREADS"] = "many"
    assert (
        "ZVCORE_THREADS" in subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True).stderr
    )


SETUP = """
import os, sys, time, threading
import numpy as np
import zvcore.codecs
from tests.engine.toy import toy
from zvcore.stores import LocalStore
codec = zvcore.codecs.get({codec!r}, level={level})
array = toy(LocalStore(sys.argv[1]), (128, 256, 512), (32, 32, 32), "u2", None, (codec,))
values = np.cumsum(np.random.default_rng(0).integers(-3, 4, array.shape, "i2"), axis=2, dtype="i2").view("u2")
"""


def script(tmp_path, body, codec="gzip", level=9):
    code = SETUP.format(codec=codec, level=level) + textwrap.dedent(body)
    return [sys.executable, "-c", code, str(tmp_path)]


def test_ctrl_c_is_answered_at_once(tmp_path):
    """What is written until then tells, and no clock: on a busy machine seconds say nothing. One that stands still just
    then is asked again: what does not look for signals answers never.
    """
    body = """
        def written():
            return sum(name.startswith("c.") for name in os.listdir(sys.argv[1]))
        def interrupt():
            while written() < 20:
                pass
            at[0] = written()
            os.kill(os.getpid(), 2)
        at = [0]
        threading.Thread(target=interrupt, daemon=True).start()
        try:
            array[...] = values
        except KeyboardInterrupt:
            print("answered", at[0], written())
    """
    more = []
    for turn in range(5):
        folder = tmp_path / str(turn)
        folder.mkdir()
        out = subprocess.run(script(folder, body), capture_output=True, text=True, timeout=PATIENCE)
        assert out.stdout.startswith("answered"), out.stderr
        then, at_last = map(int, out.stdout.split()[1:])
        more.append(at_last - then)
        if more[-1] < 150:  # of 512 chunks
            break
    assert min(more) < 150


def test_a_fork_works_on_both_sides(tmp_path):
    body = """
        array[:32] = values[:32]
        results = []
        def keep_reading():
            while not results:
                array[:32, :128, :128]
        reader = threading.Thread(target=keep_reading)
        reader.start()
        for _ in range(5):
            pid = os.fork()
            if pid == 0:
                same = (array[:32, :64] == values[:32, :64]).all()
                array[64:128, :64, :64] = values[64:128, :64, :64]
                os._exit(0 if same else 1)
            assert os.waitpid(pid, 0)[1] == 0
        results.append(True)
        reader.join()
        assert (array[64:128, :64, :64] == values[64:128, :64, :64]).all()
        print("fine")
    """
    out = subprocess.run(script(tmp_path, body, level=1), capture_output=True, text=True, timeout=PATIENCE)
    assert out.stdout.strip() == "fine", out.stderr


def test_leaving_python_while_a_thread_reads(tmp_path):
    body = """
        array[...] = values
        def keep_reading():
            while True:
                array[...]
        threading.Thread(target=keep_reading, daemon=True).start()
        time.sleep(0.2)
        print("bye")
    """
    out = subprocess.run(script(tmp_path, body, level=1), capture_output=True, text=True, timeout=PATIENCE)
    assert (out.returncode, out.stdout.strip()) == (0, "bye"), out.stderr


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="exit is held up by way of glibc")
def test_a_thread_that_reads_longer_than_there_is_an_interpreter_leaves_it_alone(tmp_path):
    """The process stays when Python has gone from it, until it is sent a line: the thread decodes its chunk then."""
    body = """
        import ctypes
        array = toy(LocalStore(sys.argv[1]), (2, 12 << 20), (1, 12 << 20), "u1", None, (codec,))
        array[...] = np.random.default_rng(0).integers(0, 5, 12 << 20, "u1")
        libc = ctypes.CDLL(None)
        libc.__cxa_atexit(ctypes.cast(libc.getchar, ctypes.c_void_p), None, None)
        threading.Thread(target=array.read, kwargs={"threads": 1}, daemon=True).start()
        time.sleep(0.1)
        print("bye", flush=True)
    """
    python = subprocess.Popen(
        script(tmp_path, body, "bzip2"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert python.stdout.readline() == "bye\n"
    with contextlib.suppress(subprocess.TimeoutExpired):
        python.wait(3)
    _, said = python.communicate("\n", timeout=PATIENCE)
    assert python.returncode == 0, said


def test_many_threads_use_one_array(store):
    array = filled(store, (GZIP,), (2, 2))
    expected = np.arange(600).reshape(20, 30)
    barrier = threading.Barrier(10)
    wrong = []

    def work(seed):
        rng = np.random.default_rng(seed)
        barrier.wait()
        for _ in range(30):
            i, j = rng.integers(0, 15, 2)
            if not (array[i : i + 5, j : j + 5] == expected[i : i + 5, j : j + 5]).all():
                wrong.append((i, j))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.parametrize("per_shard", [None, (4, 4)])
def test_processes_that_share_chunks_lose_nothing(tmp_path, per_shard):
    """Each process writes its own rows; every chunk (and shard) is shared by all."""
    body = f"""
        import sys
        sys.path.insert(0, {os.getcwd()!r})
        import numpy as np, zvcore.codecs
        from tests.engine.toy import toy
        from zvcore.stores import LocalStore
        me = int(sys.argv[2])
        array = toy(LocalStore(sys.argv[1]), (64, 64), (8, 8), "u2", {per_shard!r}, (zvcore.codecs.get("zstd"),))
        for row in range(me, 64, 4):
            array[row] = np.arange(64) + 64 * row + 1
    """
    workers = [subprocess.Popen([sys.executable, "-c", textwrap.dedent(body), str(tmp_path), str(i)]) for i in range(4)]
    assert [worker.wait(timeout=PATIENCE) for worker in workers] == [0] * 4
    array = toy(LocalStore(tmp_path), (64, 64), (8, 8), "u2", per_shard, (zvcore.codecs.get("zstd"),))
    assert (array[...] == np.arange(64 * 64).reshape(64, 64) + 1).all()
    assert not [name for name in os.listdir(tmp_path) if name.endswith((".zvtmp", ".zvlock"))]


def test_a_killed_writer_leaves_every_chunk_old_or_new(tmp_path):
    body = """
        while True:
            for value in (1, 2):
                array[:64] = value
                print(value, flush=True)
    """
    array = toy(LocalStore(tmp_path), (128, 256, 512), (32, 32, 32), "u2", None, (zvcore.codecs.get("zstd", level=1),))
    chance = random.Random(0)
    for _ in range(4):
        writer = subprocess.Popen(script(tmp_path, body, "zstd", 1), stdout=subprocess.PIPE, text=True)
        assert writer.stdout.readline() == "1\n"
        time.sleep(0.1 * chance.random())
        writer.kill()
        writer.communicate()
        values = array[:64]
        for corner in np.ndindex(2, 8, 16):
            block = values[tuple(slice(32 * i, 32 * i + 32) for i in corner)]
            assert block.min() == block.max()
            assert block.max() in (1, 2)
        assert not array[64:].any()


@pytest.mark.parametrize("kind", ["chain", "buffers"])
def test_the_garbage_collector_may_end_it_in_any_order(kind):
    """It breaks cycles at the oldest object first, which takes from that what the rest of its end needs."""
    gc.collect()
    chain = CodecChain((zvcore.codecs.get("zstd"),))
    encoded = encode_many([b"a" * 1000, b"b" * 1000], chain)
    some = encoded.select([1])
    expected = bytes(some[0])
    cycle = [chain if kind == "chain" else some]
    cycle.append(cycle)
    del chain, some, cycle
    gc.collect()
    assert zvcore.codecs.get("zstd").decode(encoded[1]) == b"b" * 1000
    assert bytes(encoded[1]) == expected


def test_fetch_gives_decoded_bytes_and_tells_absent_from_empty(store):
    chain = CodecChain((GZIP,))
    items = [b"", b"a", b"b" * 5000, os.urandom(300)]
    encoded = encode_many(items, chain)
    store.put("all", [encoded[i] for i in range(4)])
    sizes = encoded.sizes
    offsets = np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.uint64)
    lengths = sizes.copy()
    order = np.array([2, 0, 3, 1, 2])
    sources = Sources(
        Keys.of(["all"]),
        np.zeros(6, np.int32),
        np.append(offsets[order], 0).astype(np.uint64),
        np.append(lengths[order], ABSENT).astype(np.uint64),
    )
    got = fetch(store, sources, chain, threads=2)
    assert [None if got[i] is None else bytes(got[i]) for i in range(6)] == [items[i] for i in order] + [None]
    pool, bounds = got.joined()
    assert pool.tobytes() == b"".join(items[i] for i in order)
    assert bounds.tolist()[-1] == len(pool)
    with pytest.raises(ZvcoreError, match="too long"):
        fetch(store, sources, chain, max_size=100)
    whole = fetch(store, Sources(Keys.of(["all", "none"])))
    assert bytes(whole[0]) == b"".join(bytes(encoded[i]) for i in range(4))
    assert whole[1] is None


def test_buffers_share_and_outlive():
    buffers = Buffers.of([b"one", None, b"", b"four"])
    chosen = buffers.select([3, 1])
    view = chosen[0]
    del buffers, chosen
    assert bytes(view) == b"four"
    spread = Buffers.of([b"x"]).spread([2], 4)
    assert [None if spread[i] is None else bytes(spread[i]) for i in range(4)] == [None, None, b"x", None]
    assert spread.sizes.tolist() == [ABSENT, ABSENT, 1, ABSENT]
    for wrong in (4, -5):
        with pytest.raises(IndexError):
            spread[wrong]


def test_keys():
    keys = Keys.of(["a/b", "c", "ü"])
    assert list(keys) == ["a/b", "c", "ü"]
    keys = Keys.format(np.array([[1, -2], [30, 4]]), ["c/", ".", "x"])
    assert [keys[0], keys[-1]] == ["c/1.-2x", "c/30.4x"]
    with pytest.raises(ValueError, match="NUL"):
        Keys.of(["a\0b"])


def test_a_stream_that_claims_to_hold_nothing(store):
    """A gzip member whose size field was changed to 0: the room that is offered must grow all the same."""
    data = bytearray(GZIP.encode(b"x" * 100))
    data[-4:] = bytes(4)
    store.put("lie", bytes(data))
    with pytest.raises(CorruptDataError):
        fetch(store, Sources(Keys.of(["lie"])), CodecChain((GZIP,)))


def test_a_frame_that_declares_too_much_gets_no_room_to_prove_it():
    """Not even addresses: with little room left for them it is an error about the data, not about memory."""
    frame = bytearray(zvcore.codecs.get("zstd").encode(b"zvcore" * 20))
    # Frame header descriptor: an eight byte content size, no window: 2**61 bytes.
    frame[4:6] = bytes([0xE0]) + (2**61).to_bytes(8, "little")
    script = """
    import resource, sys
    from zvcore.codecs import CodecChain, get
    from zvcore.engine import Keys, Sources, fetch
    from zvcore.errors import CorruptDataError
    from zvcore.stores import MemoryStore
    import numpy as np
    store, frame = MemoryStore(), bytes.fromhex(sys.argv[1])
    store.put("x", frame)
    chain = CodecChain((get("zstd"),))
    sources = Sources(Keys.of(["x"]), np.zeros(1, np.int32), np.zeros(1, np.uint64), np.array([len(frame)], np.uint64))
    used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + (1 << 30), used + (1 << 30)))
    try:
        fetch(store, sources, chain)
    except CorruptDataError as error:
        print("refused")
    """
    command = [sys.executable, "-c", textwrap.dedent(script), frame.hex()]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    assert answer.stdout == "refused\n", answer.stderr


@pytest.mark.parametrize("limit", [1 << 30, 1 << 62, sys.maxsize, 1 << 70])
def test_stored_bytes_are_read_however_large_the_limit_is(tmp_path, limit):
    """The engine counts several times as much in 64 bits."""
    store = LocalStore(tmp_path, read_only=False)
    store.put("large", bytes(17 << 20))
    assert len(fetch(store, Sources(Keys.of(["large"])), max_size=limit)[0]) == 17 << 20


def test_large_chunks_are_had_as_they_are_stored(tmp_path):
    options = {"shape": (1, 17, 1 << 20), "dtype": "u1", "chunks": (1, 17, 1 << 20), "codec": None}
    array = zvcore.create(tmp_path / "a.zarr", format="zarr3", **options)
    array[...] = 1
    assert array.read_encoded((0, 0, 0)) == bytes([1]) * (17 << 20)
    report = zvcore.convert(tmp_path / "a.zarr", tmp_path / "b", format="precomputed", codec="raw", verify=True)
    assert report.copied == 1
