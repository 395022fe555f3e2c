"""The pages of the server: the list of data sets, their pictures, and their other views."""

from __future__ import annotations

import json
import math
import threading
import time
from html import escape
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote

from zvcore.errors import UnsupportedError, ZvcoreError
from zvcore.format import get_format
from zvcore.serving import neuroglancer
from zvcore.serving.catalog import Dataset, dataset_at, fault_of, find_datasets, is_dataset_file, marks
from zvcore.serving.limits import refuse_if_too_large
from zvcore.serving.paths import split_path
from zvcore.serving.turns import Busy, Turns
from zvcore.serving.views import LinesView, PointsView, VoxelView, view_for
from zvcore.wording import human_size

if TYPE_CHECKING:
    from zvcore.array import Array
    from zvcore.serving.catalog import Catalog
    from zvcore.serving.place import Place

__all__ = ["Site", "folder_page"]

Made = tuple[str, bytes]
Version = tuple[tuple[bytes, ...], tuple[Any, ...]]

_HTML = "text/html; charset=utf-8"
_PICTURE = "picture.png"
_THUMBNAIL = 320
# A picture reads at most about so many voxels along each side of its window.
_WINDOW = 2048
_SECONDS_FOR_SIZES = 3.0
# When a page has taken so long, it does without the contrast of what has not been drawn before.
_SECONDS_FOR_PICTURES = 5.0
_KEPT = 256
# For so many seconds a picture is that of what is stored. Documents tell when they change themselves, values do not.
_FRESH = 60.0
# Segments that are selected at first, and layers that one view has at most.
_FIRST_SEGMENTS = 20
_MOST_LAYERS = 24


class _Drawn(NamedTuple):
    """A picture, the values that are black and white in it, and when its making began."""

    png: bytes
    limits: tuple[float, float] | None
    at: float


class Site:
    """Answers the requests that no file answers. Used by many threads."""

    def __init__(self, root: Place, neuroglancer: str | None = None, threads: int | None = None) -> None:
        self.root = root
        self.viewer = neuroglancer
        self.threads = threads
        self._lock = threading.Lock()
        # All of it costs memory and time: not too many at once.
        self._listing, self._drawing, self._viewing = Turns(2), Turns(2), Turns(4)
        self._pictures: dict[Version, _Drawn] = {}
        self._views: dict[Version, VoxelView | LinesView | PointsView | None] = {}

    def answer(self, path: str, query: str, base: str) -> Made | None:
        """(content type, bytes) for "/" and what lies below "/.zvcore/"; None: there is no such page."""
        if path == "/":
            return _HTML, self._index(base)
        if path == "/.zvcore/datasets.json":
            return "application/json", json.dumps(self.describe(base), indent=1).encode()
        for kind, answer in (("preview", self._picture_at), ("view", self._view_at)):
            start = f"/.zvcore/{kind}/"
            if path.startswith(start):
                return answer(path.removeprefix(start))
        return None

    # --- data sets by path

    def _dataset(self, names: list[bytes]) -> Dataset | None:
        return dataset_at(self.root, names)

    def _version(self, names: list[bytes]) -> Version:
        """Tells a data set as it is now from others: changes when its own document does."""
        ways = [names] if is_dataset_file(self.root, names) else [[*names, name] for name in sorted(marks())]
        documents = self.root.each(self.root.look, ways)
        return tuple(names), tuple(None if found is None else found.version for found in documents)

    def _picture_at(self, rest: str) -> Made | None:
        path, _, name = f"/{rest}".rpartition("/")
        names = split_path(path) if name == _PICTURE else None
        dataset = None if names is None else self._dataset(names)
        if dataset is None:
            return None
        data, _ = self.picture(dataset)
        return "image/png", data

    def _drawn(self, key: Version) -> _Drawn | None:
        """The picture that was made of this, if that is not too long ago."""
        with self._lock:
            known = self._pictures.get(key)
        return known if known is not None and time.monotonic() - known.at < _FRESH else None

    def picture(self, dataset: Dataset) -> tuple[bytes, tuple[float, float] | None]:
        """(PNG, the values that are black and white in it)."""
        from zvcore.pictures import png_bytes
        from zvcore.pictures.lines import draw_vectors
        from zvcore.pictures.preview import Look, picture

        key = self._version(dataset.names)
        known = self._drawn(key)
        if known is not None:
            return known.png, known.limits
        at = time.monotonic()
        with self._drawing.take():
            limits = None
            if dataset.is_vectors:
                pixels = draw_vectors(dataset.node, size=_THUMBNAIL)
            elif dataset.pyramid is not None:
                refuse_if_too_large(dataset.pyramid.at_least(_THUMBNAIL))
                look = Look(labels=dataset.labels, size=_THUMBNAIL, window=_WINDOW)
                pixels, limits = picture(dataset.pyramid, look, self.threads)
            else:
                raise ValueError(f"{dataset.kind} have no picture")
        made = _Drawn(png_bytes(pixels), limits, at)
        with self._lock:
            self._pictures.pop(key, None)
            while len(self._pictures) >= _KEPT:
                del self._pictures[next(iter(self._pictures))]
            self._pictures[key] = made
        return made.png, made.limits

    def _view_at(self, rest: str) -> Made | None:
        """`<path of the data set>/-/<what Neuroglancer asks for>`."""
        path, mark, inner = f"/{rest}".partition("/-/")
        names = split_path(path)
        if not mark or names is None:
            return None
        with self._viewing.take():
            view = self._view(names)
            return None if view is None else view.answer(inner)

    def _view(self, names: list[bytes]) -> VoxelView | LinesView | PointsView | None:
        key = self._version(names)
        with self._lock:
            known = key in self._views
            view = self._views.get(key)
        if not known:
            dataset = self._dataset(names)
            if dataset is None:
                return None
            view = view_for(dataset, self.threads)
            with self._lock:
                while len(self._views) >= _KEPT:
                    del self._views[next(iter(self._views))]
                self._views[key] = view
        return view

    # --- what the pages say

    def describe(self, base: str) -> dict[str, Any]:
        """All that the index page says, for programs."""
        with self._listing.take():
            return self._describe(find_datasets(self.root), base)

    def _describe(self, catalog: Catalog, base: str) -> dict[str, Any]:
        # How long to count the files of one data set, so that the page does not take too long.
        share = _SECONDS_FOR_SIZES / max(1, len(catalog.datasets))
        until = time.monotonic() + _SECONDS_FOR_PICTURES
        datasets = [self._facts(dataset, base, share, until) for dataset in catalog.datasets]
        states = [state for facts in datasets if (state := facts.pop("state", None)) is not None]
        viewer = self.viewer or neuroglancer.DEMO
        # One link to all that Neuroglancer reads by itself, as layers of one view.
        several = len(states) > 1 and sum(len(state["layers"]) for state in states) <= _MOST_LAYERS
        together = neuroglancer.link(viewer, neuroglancer.together(states)) if several else None
        return {"datasets": datasets, "incomplete": catalog.cut, "neuroglancer": together}

    def _facts(self, dataset: Dataset, base: str, seconds: float, until: float) -> dict[str, Any]:
        size, files, complete = self.root.stored_size(dataset.names, seconds) or (None, None, False)
        url = "".join(f"{quote(name)}/" for name in dataset.names)
        facts: dict[str, Any] = {
            "path": dataset.path, "format": dataset.format, "kind": dataset.kind, "error": dataset.error,
            "title": dataset.format_title or get_format(dataset.format).title,
            "unfinished": dataset.unfinished, "stored_bytes": size, "files": files,
            "url": f"{base}/{url if dataset.store.file is None else url[:-1]}",
            "counted_all": complete,
        }  # fmt: skip
        if dataset.pyramid is not None:
            array = dataset.pyramid.arrays[0]
            facts |= {
                "shape": list(array.shape), "dtype": str(array.dtype), "chunks": list(array.chunks),
                "shards": None if array.shards is None else list(array.shards),
                "codec": _codecs(array),
                "levels": len(dataset.pyramid.arrays), "bytes": sum(a.nbytes for a in dataset.pyramid.arrays),
            }  # fmt: skip
        elif dataset.is_vectors:
            facts |= self._facts_of_vectors(dataset)
        facts["preview"] = None
        limits = None
        if dataset.error is None and (dataset.pyramid is not None or dataset.is_vectors):
            facts["preview"] = f"/.zvcore/preview/{url}{_PICTURE}"
            try:
                if time.monotonic() < until or self._drawn(self._version(dataset.names)) is not None:
                    limits = self.picture(dataset)[1]
            except UnsupportedError as error:
                facts["preview"] = None
                facts["why"] = error.told
            except Busy:
                pass  # the picture comes when it is asked for
            except Exception as error:
                facts["preview"] = None
                facts["error"] = fault_of(error)
        try:
            links = self._links(dataset, base, url, limits)
        except Exception as error:
            # A data set that is broken inside shall not take the others' page with it.
            links = dict.fromkeys(("source", "neuroglancer", "view", "neuroglancer_view"))
            facts["error"] = facts["error"] or fault_of(error)
        facts["why"] = links.pop("why", None) or facts.get("why", "")
        return facts | links

    def _facts_of_vectors(self, dataset: Dataset) -> dict[str, Any]:
        store = dataset.node
        try:
            level = store.level(store.levels[0])
            objects = level.objects
            return {
                "levels": len(store.levels), "vertices": level.vertex_count,
                "objects": None if objects is None else len(objects.ids),
            }  # fmt: skip
        except Exception as error:
            return {"error": fault_of(error)}

    def _links(self, dataset: Dataset, base: str, url: str, limits: tuple[float, float] | None) -> dict[str, Any]:
        """source: what Neuroglancer reads by itself; view: the same data as made by this server; why: why not."""
        source, why = neuroglancer.direct_source(dataset, base)
        links: dict[str, Any] = {
            "source": source,
            "why": why,
            "neuroglancer": None,
            "view": None,
            "neuroglancer_view": None,
        }
        kind = {"annotations": "annotation", "skeletons": "segmentation", "meshes": "segmentation"}.get(dataset.kind)
        kind = kind or ("segmentation" if dataset.labels else "image")
        viewer = self.viewer or neuroglancer.DEMO
        if source is not None:
            image = dataset.pyramid
            axes = None if image is None else get_format(dataset.format).viewer_axes(image)
            chosen = self._first_segments(dataset) if kind == "segmentation" else []
            state = neuroglancer.state(dataset.title, source, kind, limits, chosen, axes=axes)
            if image is not None and (beside := get_format(dataset.format).annotations_in(dataset.store)):
                state = neuroglancer.with_annotations(state, source, beside)
            links |= {"neuroglancer": neuroglancer.link(viewer, state), "state": state}
        if dataset.error is not None:
            return links
        view = view_for(dataset)
        if view is None:
            return links
        if isinstance(view, VoxelView):
            try:
                refuse_if_too_large(view.arrays[-1])
                view.info()
            except UnsupportedError as error:
                return links | {"why": links["why"] or error.told}
            links["why"] = "; ".join(filter(None, [links["why"], view.left_out]))
        made = f"precomputed://{base}/.zvcore/view/{url}-/"
        segments = view.segments() if isinstance(view, LinesView) else None
        place = None if isinstance(view, VoxelView) else view.place()
        links["view"] = made
        links["neuroglancer_view"] = neuroglancer.link(
            viewer, neuroglancer.state(dataset.title, made, view.layer, limits, segments, place=place)
        )
        return links

    def _first_segments(self, dataset: Dataset) -> list[str]:
        """Segments of which something is seen at once. Where they cannot be told, none are selected."""
        try:
            return get_format(dataset.format).first_segments(dataset.store, _FIRST_SEGMENTS)
        except (ZvcoreError, OSError):
            return []

    def _index(self, base: str) -> bytes:
        found = self.describe(base)
        cards = [_card(facts) for facts in found["datasets"]]
        note = f"<p class=note>{escape(found['incomplete'])}</p>" if found["incomplete"] else ""
        if not cards:
            note += "<p class=note>No data set was found below this folder.</p>"
        if found["neuroglancer"]:
            note += f"<p><a class=go href='{escape(found['neuroglancer'])}'>Open all in one view</a></p>"
        count = f"{len(cards)} data set{'' if len(cards) == 1 else 's'}"
        viewer = escape(self.viewer or neuroglancer.DEMO)
        more = "<a href='/.zvcore/datasets.json'>as JSON</a>"
        foot = f"<footer>{count} · links open <a href='{viewer}'>{viewer}</a> · {more}</footer>"
        return _page("zvcore", f"<h1>zvcore</h1>{note}{''.join(cards)}{foot}")


def _codecs(array: Array[Any]) -> str:
    """What chunks go through before they are stored: in volumes, their encoding and then what compresses it."""
    layout = array.layout
    chains = [layout.chains[number] for number in layout.chains_of_new[:1]]
    encoding = [codec.name for chain in chains for codec in chain.codecs if not codec.identity]
    return ", ".join(dict.fromkeys([*encoding, *(codec.name for codec in array.codecs)])) or "raw"


def _card(facts: dict[str, Any]) -> str:
    title = escape(facts["path"] or "/")
    rows = [("format", f"{facts['title']}, {facts['kind']}")]
    if "shape" in facts:
        rows.append(("shape", " × ".join(map(str, facts["shape"])) + f", {facts['dtype']}"))
        chunks = " × ".join(map(str, facts["chunks"]))
        if facts["shards"]:
            chunks += f" in shards of {' × '.join(map(str, facts['shards']))}"
        rows += [("chunks", f"{chunks}, {facts['codec']}")]
        if facts["levels"] > 1:
            rows.append(("levels", str(facts["levels"])))
    for name in ("objects", "vertices"):
        if facts.get(name) is not None:
            rows.append((name, f"{facts[name]:,}"))
    if facts["stored_bytes"] is not None:
        rows.append(("stored", _stored(facts)))
    links = []
    if facts["neuroglancer"]:
        links.append(f"<a class=go href='{escape(facts['neuroglancer'])}'>Open in Neuroglancer</a>")
    if facts["neuroglancer_view"]:
        text = "Open decoded by zvcore" if facts["neuroglancer"] else "Open in Neuroglancer, decoded by zvcore"
        links.append(f"<a class=go href='{escape(facts['neuroglancer_view'])}'>{text}</a>")
    links.append(f"<a href='{escape(facts['url'])}'>Files</a>")
    sources = [facts["source"] or facts["view"]]
    if facts["why"]:
        rows.append(("note", facts["why"]))
    if facts["unfinished"]:
        rows.append(("state", facts["unfinished"]))
    if facts["error"]:
        rows.append(("broken", facts["error"]))
    image = (
        f"<img loading=lazy alt='' src='{escape(facts['preview'])}'>" if facts["preview"] else "<div class=none></div>"
    )
    table = "".join(f"<tr><th>{name}<td>{escape(text)}" for name, text in rows)
    code = "".join(f"<code>{escape(source)}</code>" for source in sources if source)
    return (
        f"<section>{image}<div><h2>{title}</h2><table>{table}</table><p>{' '.join(links)}</p>{code}</div></section>\n"
    )


def _stored(facts: dict[str, Any]) -> str:
    more = "" if facts["counted_all"] else "more than "
    stored = f"{more}{human_size(facts['stored_bytes'])} in {facts['files']:,} files"
    if facts.get("bytes") and facts["stored_bytes"] and facts["counted_all"]:
        stored += f", ratio {ratio(facts['bytes'], facts['stored_bytes'])}"
    return stored


def ratio(plain: int, stored: int) -> str:
    value = plain / stored
    return f"{value:.1f}" if value < 1000 else f"{math.floor(value):,}"


def folder_page(names: list[bytes], entries: list[tuple[bytes, bool]]) -> bytes:
    """A folder's entries as links, which is also how Neuroglancer completes what one types."""
    title = "/" + "".join(f"{name.decode('utf-8', 'backslashreplace')}/" for name in names)
    rows = ["<li><a href='../'>../</a>"]
    for name, is_folder in entries:
        slash = "/" if is_folder else ""
        text = escape(name.decode("utf-8", "backslashreplace"))
        # A colon in the first part would make it another scheme.
        rows.append(f"<li><a href='./{escape(quote(name))}{slash}'>{text}{slash}</a>")
    return _page(title, f"<h1>{escape(title)}</h1><ul>{''.join(rows)}</ul>")


def _page(title: str, body: str) -> bytes:
    text = (
        "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>"
        f"<link rel=icon href='data:,'><title>{escape(title)}</title><style>{_STYLE}</style>"
        f"<body>{body}</body></html>\n"
    )
    return text.encode("utf-8", "backslashreplace")


_STYLE = """
:root{color-scheme:light dark}
body{font:15px/1.45 system-ui,sans-serif;max-width:70em;margin:1.5em auto;padding:0 1em}
h1{font-size:1.4em}h2{font-size:1.1em;margin:0 0 .3em;overflow-wrap:anywhere}
section{display:flex;gap:1.2em;border-top:1px solid #8886;padding:1.1em 0}
section>div:last-child{min-width:0;flex:1}
img,.none{width:160px;height:160px;object-fit:contain;background:#000;flex:none;image-rendering:pixelated}
.none{background:#8883}
th{text-align:left;font-weight:normal;opacity:.65;padding:0 1em 0 0;vertical-align:top}td{overflow-wrap:anywhere}
code{display:block;font-size:.85em;overflow-wrap:anywhere;opacity:.8}
.go{font-weight:600}p{margin:.4em 0}a{margin-right:.8em}
footer,.note{opacity:.75;border-top:1px solid #8886;padding:1em 0}
"""
