"""The list of data sets, pictures, and what the server makes for Neuroglancer."""

import errno
import json
import re
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np
import pytest

import zvcore
from tests.processes import PATIENCE
from tests.serving.conftest import Client, image, served
from zvcore import zvf
from zvcore.precomputed import Skeleton
from zvcore.serving import site
from zvcore.serving.paths import Root
from zvcore.serving.site import Site
from zvcore.stores import LocalStore
from zvcore.stores.confined import Confinement


@pytest.fixture
def datasets(client: Client) -> dict[str, dict]:
    answer = client.ask("/.zvcore/datasets.json")
    return {found["path"]: found for found in json.loads(answer.body)["datasets"]}


def test_all_are_found(datasets: dict[str, dict]) -> None:
    assert list(datasets) == [
        "a.zarr", "b.n5/gzip", "b.n5/lz4", "broken.zarr", "c", "lines.zarrvectors", "points.zarrvectors",
    ]  # fmt: skip
    a = datasets["a.zarr"]
    assert (a["format"], a["shape"], a["chunks"], a["shards"], a["codec"]) == (
        "zarr3", [20, 40, 50], [10, 16, 16], [20, 32, 32], "zstd",
    )  # fmt: skip
    assert datasets["c"]["levels"] == 2
    assert datasets["c"]["kind"] == "segmentation"
    assert datasets["lines.zarrvectors"]["objects"] == 5
    assert "MetadataError" in datasets["broken.zarr"]["error"]


def test_what_is_passed_over_is_said(tmp_path: Path) -> None:
    for name in ("new\nline.zarr", "back\\slash.zarr", "a.zarr", "sub/b.zip"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        zvcore.create(tmp_path / name, format="zarr3", shape=(4, 4), dtype="u1", chunks=(4, 4))
    for number in range(9):
        (tmp_path / f"x{number}.ozx").touch()
    (tmp_path / ".hidden.zip").touch()
    with served(tmp_path) as client:
        found = json.loads(client.ask("/.zvcore/datasets.json").body)
        page = client.ask("/").body.decode()
    assert [one["path"] for one in found["datasets"]] == ["a.zarr"]
    archives, names = found["incomplete"].split(". ")
    assert archives.endswith("by itself: sub/b.zip, x0.ozx, x1.ozx, x2.ozx, x3.ozx and 5 more")
    assert names.endswith(": back\\slash.zarr, new\\x0aline.zarr.")
    assert "sub/b.zip" in page and "new\\x0aline.zarr" in page
    with served(tmp_path / "a.zarr") as client:
        assert json.loads(client.ask("/.zvcore/datasets.json").body)["incomplete"] is None


def test_a_folder_that_cannot_be_looked_into_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    zvcore.create(tmp_path / "a/b.zarr", format="zarr3", shape=(4, 4), dtype="u1", chunks=(4, 4))
    (tmp_path / "closed").mkdir()
    real = Root.listing

    def refused(root: Root, names: list[bytes]) -> object:
        if names == [b"closed"]:
            raise PermissionError(errno.EACCES, "Permission denied")
        return real(root, names)

    monkeypatch.setattr(Root, "listing", refused)
    with served(tmp_path) as client:
        found = json.loads(client.ask("/.zvcore/datasets.json").body)
    assert [one["path"] for one in found["datasets"]] == ["a/b.zarr"]
    assert found["incomplete"] == "Could not be looked into: closed."


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE])
def test_a_view_is_not_called_missing_when_no_more_files_can_be_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """Readers take blocks that are not found for fill values."""
    zvcore.create(tmp_path / "a", format="zarr3", shape=(4, 4), dtype="u1", chunks=(4, 4))[...] = 7

    def none_left(*_: object) -> object:
        raise OSError(number, "Too many open files")

    with served(tmp_path) as client:
        assert client.ask("/.zvcore/view/a/-/0/0-4_0-4_0-1").status == 200
        monkeypatch.setattr(Confinement, "look_here", none_left)
        answer = client.ask("/.zvcore/view/a/-/0/0-4_0-4_0-1")
        assert answer.status == 500 and b"Too many open files" in answer.body


def test_what_a_decoded_view_has_no_place_for_is_said(tmp_path: Path) -> None:
    for name, shape, names in (
        ("five", (2, 3, 4, 5, 6), ("t", "c", "z", "y", "x")), ("long", (30, 20, 4, 5, 6), ("t", "c", "z", "y", "x")),
        ("four", (2, 4, 5, 6), ("c", "z", "y", "x")), ("one", (1, 2, 4, 5, 6), ("t", "c", "z", "y", "x")),
    ):  # fmt: skip
        zvcore.create(tmp_path / name, format="zarr3", shape=shape, dtype="u2", chunks=shape, dimension_names=names)
    with served(tmp_path) as client:
        listed = json.loads(client.ask("/.zvcore/datasets.json").body)["datasets"]
    assert {one["path"]: one["why"] for one in listed} == {
        "five": "decoded by zvcore, only the first of 2 along t is shown",
        "long": "decoded by zvcore, only the first of 30 along t and the first of 20 along c is shown",
        "four": "",
        "one": "",
    }


@pytest.mark.parametrize("shape", [(0, 4), (4, 0, 4), ()])
def test_an_array_without_values_has_no_decoded_view(tmp_path: Path, shape: tuple[int, ...]) -> None:
    zvcore.create(tmp_path / "a", format="zarr3", shape=shape, dtype="u1", chunks=tuple(n or 1 for n in shape))
    with served(tmp_path) as client:
        [found] = json.loads(client.ask("/.zvcore/datasets.json").body)["datasets"]
        assert (found["view"], found["neuroglancer_view"], found["error"]) == (None, None, None)
        assert client.ask("/.zvcore/view/a/-/info").status == 404


def test_sizes(datasets: dict[str, dict], shelf: Path) -> None:
    for name, found in datasets.items():
        files = [file for file in (shelf / name).rglob("*") if file.is_file()]
        assert (found["stored_bytes"], found["files"]) == (sum(f.stat().st_size for f in files), len(files))


def test_codecs_are_those_that_chunks_go_through(tmp_path: Path) -> None:
    """The encoding of a volume is no codec of its arrays; without it, labels seemed to be stored as they are."""
    common: dict[str, Any] = {"format": "precomputed", "shape": (16, 16, 16), "dtype": "u8", "resolution": (8, 8, 8)}
    zvcore.create(tmp_path / "raw", **common, encoding="raw", codec=None)[...] = 1
    zvcore.create(tmp_path / "labels", **common, encoding="compressed_segmentation", codec=None)[...] = 1
    zvcore.create(tmp_path / "packed", **common, encoding="compressed_segmentation", codec="gzip")[...] = 1
    zvcore.create(tmp_path / "shards", **common, encoding="compressed_segmentation", sharding="advise")[...] = 1
    with served(tmp_path) as client:
        listed = json.loads(client.ask("/.zvcore/datasets.json").body)["datasets"]
    assert {facts["path"]: facts["codec"] for facts in listed} == {
        "raw": "raw",
        "labels": "compressed_segmentation",
        "packed": "compressed_segmentation, gzip",
        "shards": "compressed_segmentation, gzip",
    }


def test_what_neuroglancer_reads_by_itself(client: Client, datasets: dict[str, dict]) -> None:
    base = f"http://127.0.0.1:{client.server.server_port}"
    assert datasets["a.zarr"]["source"] == f"zarr3://{base}/a.zarr/"
    assert datasets["b.n5/gzip"]["source"] == f"n5://{base}/b.n5/gzip/"
    assert datasets["c"]["source"] == f"precomputed://{base}/c/"
    for name, reason in (("b.n5/lz4", "lz4"), ("lines.zarrvectors", "Zarr Vectors")):
        assert datasets[name]["source"] is None
        assert reason in datasets[name]["why"]
        assert datasets[name]["view"] == f"precomputed://{base}/.zvcore/view/{name}/-/"


def test_links_hold_a_state(datasets: dict[str, dict]) -> None:
    url, _, fragment = datasets["a.zarr"]["neuroglancer"].partition("#!")
    assert url.startswith("https://")
    state = json.loads(unquote(fragment))
    [layer] = state["layers"]
    assert (layer["type"], layer["source"]) == ("image", datasets["a.zarr"]["source"])
    black, white = layer["shaderControls"]["normalized"]["range"]
    assert image().min() <= black < white <= image().max()
    assert list(state["dimensions"]) == state["displayDimensions"] == ["x", "y", "z"]
    lines = json.loads(unquote(datasets["lines.zarrvectors"]["neuroglancer_view"].partition("#!")[2]))
    assert lines["layers"][0]["segments"] == ["0", "1", "2", "3", "4"]
    assert min(lines["position"]) > 30 and max(lines["position"]) < 70 and 0 < lines["projectionScale"] < 100
    labels = json.loads(unquote(datasets["c"]["neuroglancer"].partition("#!")[2]))["layers"][0]
    assert labels["type"] == "segmentation"


def test_the_page_lists_them(client: Client, datasets: dict[str, dict]) -> None:
    page = client.ask("/").body.decode()
    for name, found in datasets.items():
        assert f"<h2>{name}</h2>" in page
        for key in ("preview", "neuroglancer", "neuroglancer_view"):
            if found[key]:
                assert f"'{found[key]}'" in page
    assert page.count("<section>") == len(datasets)


def test_names_do_not_become_markup(tmp_path: Path) -> None:
    from zvcore.serving.paths import Root
    from zvcore.serving.site import Site, folder_page

    name = "<img src=x onerror='alert(1)'>&.zarr"
    zvcore.create(tmp_path / name, format="zarr3", shape=(4, 4), dtype="u1", chunks=(2, 2))[...] = 3
    root = Root(tmp_path)
    site: Any = Site(root)
    _, page = site.answer("/", "", "http://localhost:1")
    assert b"<img src=x" not in page
    assert b"&lt;img src=x onerror=&#x27;alert(1)&#x27;&gt;&amp;.zarr" in page
    assert b"<img" not in folder_page([], [(name.encode(), True)])
    [link] = re.findall(rb"src='(/\.zvcore/preview/[^']+)'", page)
    assert site.answer(link.decode(), "", "")[1].startswith(b"\x89PNG")
    root.close()


def test_pictures(client: Client, datasets: dict[str, dict]) -> None:
    for name, found in datasets.items():
        if name == "broken.zarr":
            assert found["preview"] is None
            continue
        answer = client.ask(found["preview"])
        assert answer.headers["Content-Type"] == "image/png"
        assert answer.body.startswith(b"\x89PNG\r\n")


@pytest.mark.parametrize("name", ["a.zarr", "b.n5/lz4", "b.n5/gzip"])
def test_decoded_voxels(client: Client, name: str) -> None:
    base = f"/.zvcore/view/{name}/-/"
    info = json.loads(client.ask(base + "info").body)
    [scale] = info["scales"]
    assert (info["data_type"], info["type"], scale["size"]) == ("uint8", "image", [50, 40, 20])
    values = image().T
    block = client.ask(f"{base}0/0-50_0-40_0-20")
    assert block.status == 200
    assert np.array_equal(np.frombuffer(block.body, "u1").reshape((50, 40, 20), order="F"), values)
    part = client.ask(f"{base}0/16-40_32-40_3-4")
    assert np.array_equal(np.frombuffer(part.body, "u1").reshape((24, 8, 1), order="F"), values[16:40, 32:40, 3:4])
    for wrong in ("1/0-50_0-40_0-20", "0/0-51_0-40_0-20", "0/5-5_0-40_0-20", "0/9-3_0-40_0-20", "0/x", "infos", ""):
        assert client.ask(base + wrong).status == 404


def test_decoded_labels_keep_their_scales(client: Client, shelf: Path) -> None:
    info = json.loads(client.ask("/.zvcore/view/c/-/info").body)
    assert (info["type"], info["data_type"]) == ("segmentation", "uint64")
    assert [scale["resolution"] for scale in info["scales"]] == [[4, 4, 40], [8, 8, 80]]
    coarse = zvcore.open(shelf / "c")[1][...]
    x, y, z = coarse.shape[:3]
    body = client.ask(f"/.zvcore/view/c/-/1/0-{x}_0-{y}_0-{z}").body
    assert np.array_equal(np.frombuffer(body, "<u8").reshape(coarse.shape, order="F"), coarse)


def test_lines_as_skeletons(client: Client, shelf: Path) -> None:
    base = "/.zvcore/view/lines.zarrvectors/-/"
    assert json.loads(client.ask(base + "info").body)["@type"] == "neuroglancer_skeletons"
    ids = json.loads(client.ask(base + "properties/info").body)["inline"]["ids"]
    level = zvf.open(shelf / "lines.zarrvectors").level(0)
    assert ids == [str(i) for i in level.object_ids()]
    for name in ids:
        skeleton = Skeleton.from_bytes(client.ask(base + name).body)
        expected = level.read_object(int(name)).astype("f4")
        assert np.array_equal(skeleton.vertices, expected)
        assert skeleton.edges.tolist() == [[i, i + 1] for i in range(len(expected) - 1)]
    for wrong in ("99", "-1", "x", "1e3"):
        assert client.ask(base + wrong).status == 404


def test_points_as_annotations(client: Client, shelf: Path) -> None:
    base = "/.zvcore/view/points.zarrvectors/-/"
    info = json.loads(client.ask(base + "info").body)
    assert (info["@type"], info["annotation_type"]) == ("neuroglancer_annotations_v1", "POINT")
    body = client.ask(base + "all/0_0_0").body
    count = int(np.frombuffer(body, "<u8", 1)[0])
    points = np.frombuffer(body, "<f4", 3 * count, 8).reshape(-1, 3)
    expected = zvf.open(shelf / "points.zarrvectors").level(0).read().positions.astype("f4")
    assert sorted(map(tuple, points)) == sorted(map(tuple, expected))
    assert client.ask(base + "by_id/7").body == points[7].tobytes()
    assert (points >= info["lower_bound"]).all() and (points < info["upper_bound"]).all()
    assert client.ask(base + "by_id/100").status == 404


def test_lines_and_points_are_shown_in_the_units_of_their_store(tmp_path: Path) -> None:
    axes = [{"name": name, "unit": "micrometer"} for name in "xyz"]
    zvf.write_polylines(tmp_path / "lines", [np.eye(3)], chunk_shape=(8, 8, 8), axes=axes)
    zvf.write_points(tmp_path / "points", np.eye(3), axes=axes)
    root = Root(tmp_path)
    try:
        site = Site(root)
        skeletons, annotations = (site.answer(f"/.zvcore/view/{name}/-/info", "", "") for name in ("lines", "points"))
        states = [_state(one["neuroglancer_view"]) for one in site.describe("http://here")["datasets"]]
    finally:
        root.close()
    assert skeletons is not None and annotations is not None
    assert json.loads(skeletons[1])["transform"] == [1000, 0, 0, 0, 0, 1000, 0, 0, 0, 0, 1000, 0]
    assert json.loads(annotations[1])["dimensions"] == {name: [1e-6, "m"] for name in "xyz"}
    assert [state["position"] for state in states] == [[500, 500, 500]] * 2


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_points_that_are_nowhere_leave_a_document_that_browsers_read(tmp_path: Path, bad: float) -> None:
    zvf.write_points(tmp_path / "points", np.arange(1, 10, dtype="f4").reshape(3, 3))
    chunk = tmp_path / "points/0/vertices/c/0/0/0"
    stored = chunk.read_bytes()
    chunk.write_bytes(stored.replace(np.float32(5).tobytes(), np.float32(bad).tobytes()))
    assert chunk.read_bytes() != stored
    root = Root(tmp_path)
    try:
        answers = [Site(root).answer(f"/.zvcore/view/points/-/{name}", "", "") for name in ("info", "all/0_0_0")]
    finally:
        root.close()
    info, values = (answer[1] for answer in answers if answer is not None)

    def refused(text: str) -> None:
        raise AssertionError(f"{text} is no JSON")

    assert json.loads(info, parse_constant=refused)["upper_bound"] == [8, 9, 10]
    assert np.frombuffer(values, "<f4", 6, 8).tolist() == [1, 2, 3, 7, 8, 9]


def test_a_changed_data_set_is_looked_at_again(tmp_path: Path) -> None:
    from zvcore.serving.paths import Root
    from zvcore.serving.site import Site

    root = Root(tmp_path)
    site = Site(root)
    sizes = []
    for extent in (4, 8):
        zvcore.create(tmp_path / "a", format="zarr3", shape=(extent, 4), dtype="u1", chunks=(2, 2), overwrite=True)[
            ...
        ] = 1
        made = site.answer("/.zvcore/view/a/-/info", "", "")
        assert made is not None
        sizes.append(json.loads(made[1])["scales"][0]["size"])
    assert sizes == [[4, 4, 1], [4, 8, 1]]
    root.close()


def test_the_root_itself(shelf: Path) -> None:
    from zvcore.serving.paths import Root
    from zvcore.serving.site import Site

    root = Root(shelf / "a.zarr")
    site: Any = Site(root)
    [found] = site.describe("http://localhost:1")["datasets"]
    assert found["source"] == "zarr3://http://localhost:1/"
    assert site.answer(found["preview"], "", "")[0] == "image/png"
    view = found["view"].removeprefix("precomputed://http://localhost:1")
    assert json.loads(site.answer(view + "info", "", "")[1])["scales"]
    root.close()


def test_the_command(shelf: Path) -> None:
    command = [sys.executable, "-m", "zvcore", "serve", str(shelf), "--port", "0", "-q"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    url = process.stdout.readline().strip()
    assert url.startswith("http://127.0.0.1:")
    with urllib.request.urlopen(url + "plain.txt", timeout=PATIENCE) as answer:
        assert answer.status == 200
    process.send_signal(signal.SIGINT)
    _, words = process.communicate(timeout=PATIENCE)
    assert (process.returncode, words) == (0, "")


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        (["no-such-folder"], 2),
        ([".", "--port", "70000"], 2),
        (["memory://nothing-is-called-so"], 2),
        ([".", "--origin", ""], 2),
    ],
)
def test_wrong_commands(arguments: list[str], status: int, capsys: pytest.CaptureFixture[str]) -> None:
    from zvcore import codecs
    from zvcore.commands.cli import main

    limit = codecs.max_decoded_size
    assert main(["serve", *arguments]) == status
    assert "Traceback" not in capsys.readouterr().err
    assert codecs.max_decoded_size == limit, "the process goes on with the limit of a server"


@pytest.mark.parametrize(
    ("shape", "chunks", "expected"),
    [
        ((300, 300, 300), (64, 64, 64), [64, 64, 64]),
        ((300, 300, 300), (128, 128, 128), [128, 128, 64]),
        ((9, 9000, 9000), (1, 4096, 4096), [1024, 1024, 1]),
        ((100, 100, 100), (10, 10, 10), [80, 80, 40]),
        ((300, 300, 300), (96, 96, 96), [96, 96, 96]),
        ((3, 3), (2, 2), [4, 4, 1]),
    ],
)
def test_blocks_suit_the_chunks(
    tmp_path: Path, shape: tuple[int, ...], chunks: tuple[int, ...], expected: list[int]
) -> None:
    """Neuroglancer asks for blocks that take few chunks each, and none that are too large."""
    from zvcore.serving.catalog import open_dataset
    from zvcore.serving.views import VoxelView

    zvcore.create(tmp_path / "a", format="zarr3", shape=shape, dtype="u1", chunks=chunks)
    dataset = open_dataset(LocalStore(tmp_path / "a", read_only=True), [b"a"])
    assert dataset is not None
    [scale] = VoxelView(dataset).info()["scales"]
    assert scale["chunk_sizes"] == [expected]


def test_chunks_too_large_for_a_preview(tmp_path: Path) -> None:
    """A page must not take the memory that one chunk claims."""
    from zvcore.serving.paths import Root
    from zvcore.serving.site import Site

    zvcore.create(tmp_path / "a", format="zarr3", shape=(4096, 4096, 4096), dtype="u8", chunks=(4096, 4096, 4096))
    root = Root(tmp_path)
    [found] = Site(root).describe("http://localhost:1")["datasets"]
    assert (found["preview"], found["error"]) == (None, None)
    assert "too large" in found["why"]
    root.close()


def test_pictures_do_not_stay_those_of_values_that_were_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As while data are being written: the documents, by which pictures are known, do not change."""
    path = "/.zvcore/preview/a/picture.png"
    a = zvcore.create(tmp_path / "a", format="zarr3", shape=(64, 64), dtype="u1", chunks=(16, 16))
    with served(tmp_path) as client:
        first = client.ask(path).body
        a[...] = np.arange(4096).reshape(64, 64) % 251
        assert client.ask(path).body == first
        monkeypatch.setattr(site, "_FRESH", 0.0)
        second = client.ask(path)
        assert second.status == 200 and second.body != first
        assert client.ask("/").status == 200


def test_a_page_does_not_wait_for_all_pictures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from zvcore.serving.paths import Root
    from zvcore.serving.site import Site

    monkeypatch.setattr("zvcore.serving.site._SECONDS_FOR_PICTURES", -1.0)
    zvcore.create(tmp_path / "a", format="zarr3", shape=(9, 9), dtype="u2", chunks=(3, 3))[...] = 7
    root = Root(tmp_path)
    site: Any = Site(root)
    [found] = site.describe("http://localhost:1")["datasets"]
    assert "shaderControls" not in unquote(found["neuroglancer"])
    made = site.answer(found["preview"], "", "")
    assert made is not None and made[0] == "image/png"
    [found] = site.describe("http://localhost:1")["datasets"]
    assert "shaderControls" in unquote(found["neuroglancer"])
    root.close()


def test_a_data_set_that_is_broken_inside_takes_nothing_else_with_it(tmp_path: Path) -> None:
    zvcore.create(tmp_path / "fine", format="zarr3", shape=(4, 4), dtype="u1", chunks=(4, 4))
    zvf.write_polylines(tmp_path / "lines", [np.zeros((2, 3), "f4")], chunk_shape=(10.0,) * 3)
    (manifests,) = (tmp_path / "lines").glob("0/object_index/manifests/c/*")
    manifests.write_bytes(b"no frame")
    root = Root(tmp_path)
    try:
        site = Site(root)
        assert site.answer("/", "", "http://here") is not None
        found = {one["path"]: one for one in site.describe("http://here")["datasets"]}
    finally:
        root.close()
    assert "CorruptDataError" in found["lines"]["error"]
    assert found["lines"]["neuroglancer_view"] is None
    assert found["fine"]["error"] is None
    assert found["fine"]["neuroglancer_view"]


def _state(link: str) -> dict:
    return json.loads(unquote(link.partition("#!")[2]))


def test_an_image_and_a_segmentation_with_meshes_are_layers_of_one_view(tmp_path: Path) -> None:
    from tests.precomputed.solids import sphere
    from zvcore.precomputed import Skeleton, write_meshes, write_skeletons
    from zvcore.serving.paths import Root
    from zvcore.serving.site import Site

    options = {"format": "precomputed", "shape": (9, 9, 9), "resolution": (100, 100, 100)}
    zvcore.create(tmp_path / "seg", dtype="u4", type="segmentation", mesh="mesh", **options)[...] = 7
    zvcore.create(tmp_path / "em", dtype="u1", **options)[...] = 7
    for sharding in (None, "advise"):
        write_meshes(tmp_path / "seg/mesh", {7: sphere(5), 2**63: sphere(5)}, sharding=sharding, overwrite=True)
    write_skeletons(tmp_path / "bones", {9: Skeleton(np.zeros((1, 3), "f4"), np.zeros((0, 2), "u4"))})
    root = Root(tmp_path)
    listed = Site(root).describe("http://localhost:1")
    root.close()
    links = {found["path"]: _state(found["neuroglancer"]) for found in listed["datasets"]}
    assert links["seg"]["layers"][0]["segments"] == ["7", str(2**63)]
    assert links["bones"]["layers"][0]["segments"] == ["9"]
    layers = _state(listed["neuroglancer"])["layers"]
    assert [(layer["name"], layer["type"]) for layer in layers] == [
        ("em", "image"), ("bones", "segmentation"), ("seg", "segmentation"),
    ]  # fmt: skip
    assert "segments" not in layers[0] and layers[2]["segments"] == ["7", str(2**63)]


def test_segments_with_meshes_and_those_with_skeletons_are_selected_in_turns(tmp_path: Path) -> None:
    from tests.precomputed.solids import sphere
    from zvcore.format import get_format
    from zvcore.precomputed import write_meshes, write_skeletons
    from zvcore.stores import open_store

    zvcore.create(
        tmp_path, format="precomputed", dtype="u4", shape=(9, 9, 9), type="segmentation", mesh="mesh", skeletons="bones"
    )[...] = 7
    write_meshes(tmp_path / "mesh", dict.fromkeys((1, 2, 3, 7), sphere(5)))
    bone = Skeleton(np.zeros((1, 3), "f4"), np.zeros((0, 2), "u4"))
    write_skeletons(tmp_path / "bones", {7: bone, 90: bone})
    first = get_format("precomputed").first_segments
    assert first(open_store(tmp_path), 20) == ["1", "7", "2", "90", "3"]
    assert first(open_store(tmp_path), 2) == ["1", "7"]


@pytest.mark.parametrize("format", ["zarr2", "zarr3", "n5"])
def test_a_pyramid_is_one_row_and_one_link(format: str, tmp_path: Path) -> None:
    values = np.arange(32**3, dtype="u1").reshape(32, 32, 32)
    a = zvcore.create(tmp_path / "in.zarr", format="zarr3", shape=values.shape, dtype="u1", chunks=(16, 16, 16))
    a[...] = values
    zvcore.convert(tmp_path / "in.zarr", tmp_path / "out/pyramid", format=format, levels=2, codec="gzip")
    root = Root(tmp_path / "out")
    [found] = Site(root).describe("http://localhost:1")["datasets"]
    root.close()
    assert (found["path"], found["levels"], found["error"]) == ("pyramid", 3, None)
    [layer] = _state(found["neuroglancer"])["layers"]
    assert layer["source"].startswith(f"{format}://")


def test_what_broken_meshes_hide_is_only_the_first_selection(tmp_path: Path) -> None:
    from zvcore.serving.paths import Root
    from zvcore.serving.site import Site

    zvcore.create(
        tmp_path / "seg", format="precomputed", dtype="u4", shape=(9, 9, 9), type="segmentation", mesh="gone",
        skeletons="s3://elsewhere/bones",
    )[...] = 7  # fmt: skip
    root = Root(tmp_path)
    [found] = Site(root).describe("http://localhost:1")["datasets"]
    root.close()
    assert found["error"] is None and "segments" not in _state(found["neuroglancer"])["layers"][0]


def test_of_bigdataviewer_a_time_point_is_linked(tmp_path: Path) -> None:
    from zvcore.serving.paths import Root
    from zvcore.serving.site import Site

    group = zvcore.create(tmp_path / "bdv.n5/setup0/timepoint0/s0", format="n5", shape=(9, 9, 9), dtype="u2")
    group[...] = 7
    (tmp_path / "bdv.n5/attributes.json").write_text('{"n5": "4.0.0"}')
    (tmp_path / "bdv.n5/setup0/attributes.json").write_text(
        '{"downsamplingFactors": [[1, 1, 1]], "dataType": "uint16"}'
    )
    (tmp_path / "bdv.n5/setup0/timepoint0/attributes.json").write_text('{"multiScale": true, "resolution": [1, 1, 1]}')
    root = Root(tmp_path)
    [found] = Site(root).describe("http://localhost:1")["datasets"]
    root.close()
    assert found["source"] == "n5://http://localhost:1/bdv.n5/setup0/timepoint0/"


def test_annotations_in_the_folder_of_a_volume_are_layers_of_its_view(tmp_path: Path) -> None:
    from zvcore.precomputed import write_annotations

    nm = dict.fromkeys("xyz", (1e-9, "m"))
    for name, kind in (("one", "segmentation"), ("two", "segmentation"), ("three", "image")):
        dtype = "uint32" if kind == "segmentation" else "uint8"
        a = zvcore.create(tmp_path / name / "em", format="precomputed", shape=(8, 8, 8), type=kind, dtype=dtype)
        a[...] = 7
        points = {"point": np.ones((3, 3), "f4"), "cell": [[7], [9], []]}
        write_annotations(tmp_path / name / "em/my points", "point", points, dimensions=nm, relationships=["cell"])
    (tmp_path / "one/em/broken").mkdir()
    (tmp_path / "one/em/broken/info").write_text("{")
    root = Root(tmp_path)
    described = Site(root).describe("http://localhost:1")
    root.close()
    states = {one["path"]: json.loads(unquote(one["neuroglancer"].partition("#!")[2])) for one in described["datasets"]}
    assert list(states) == ["one/em", "three/em", "two/em"]
    base, points = states["one/em"]["layers"]
    assert base["segments"] == ["7", "9"]
    assert points["source"] == "precomputed://http://localhost:1/one/em/my%20points/"
    assert (points["type"], points["linkedSegmentationLayer"]) == ("annotation", {"cell": "em"})
    assert "linkedSegmentationLayer" not in states["three/em"]["layers"][1]
    layers = json.loads(unquote(described["neuroglancer"].partition("#!")[2]))["layers"]
    linked = {one["name"]: one.get("linkedSegmentationLayer") for one in layers}
    assert linked == {
        "em": None, "em (2)": None, "em (3)": None, "my points": {"cell": "em"}, "my points (2)": None,
        "my points (3)": {"cell": "em (3)"},
    }  # fmt: skip


def test_a_file_that_is_not_what_it_is_called_is_listed_as_broken(tmp_path: Path) -> None:
    np.save(tmp_path / "good.npy", np.zeros((4, 4), "u1"))
    (tmp_path / "damaged.TIF").write_bytes(b"garbage" * 10)
    (tmp_path / "empty.npy").write_bytes(b"")
    (tmp_path / "nothing.zip").write_bytes(b"PK\5\6" + bytes(18))
    root = Root(tmp_path)
    try:
        found = {one["path"]: one for one in Site(root).describe("http://here")["datasets"]}
    finally:
        root.close()
    assert {name: one["kind"] for name, one in found.items()} == {
        "damaged.TIF": "broken", "empty.npy": "broken", "good.npy": "array",
    }  # fmt: skip
    assert found["damaged.TIF"]["format"] == "tiff" and "this is no file of TIFF" in found["damaged.TIF"]["error"]
