"""sqlite://folder/in/it: objects as rows of an SQLite database, whose file the storage option `file` names."""

import secrets
import sqlite3
from contextlib import contextmanager

from zvcore.errors import NotFoundError, StoreError
from zvcore.stores import check_options
from zvcore.stores.clients import ChangedError, Client, Found, Version
from zvcore.stores.remote import RemoteStore
from zvcore.stores.writing import ANYTHING


def open_sqlite(url, mode, options):
    check_options(url, options, known=("file", "timeout"))
    if "file" not in options:
        raise ValueError(f"{url} needs storage_options={{'file': ...}}")
    client = Rows(**options)
    prefix = url.partition("://")[2].strip("/")
    if mode != "w" and not client.list(f"{prefix}/" if prefix else ""):
        raise NotFoundError("there is nothing here", key=url)
    return RemoteStore(client, url, prefix, place=("sqlite", client.file), read_only=mode == "r")


class Rows(Client):
    def __init__(self, file, timeout=60.0):
        self.file, self.timeout = str(file), timeout
        with self._database() as database:
            database.execute("create table if not exists objects (path text primary key, data blob, version text)")

    def __reduce__(self):
        return Rows, (self.file, self.timeout)

    @contextmanager
    def _database(self):
        """A transaction; what is not committed is rolled back on closing."""
        try:
            database = sqlite3.connect(self.file, timeout=self.timeout, isolation_level=None)
            try:
                database.execute("begin immediate")
                yield database
                database.execute("commit")
            finally:
                database.close()
        except sqlite3.Error as error:
            raise StoreError(f"{self.file}: {error}") from error

    def get(self, path, start, stop, version):
        with self._database() as database:
            row = database.execute("select data, version from objects where path = ?", (path,)).fetchone()
        if row is None:
            return None
        data, found = memoryview(row[0]), Version(None, row[1], None, len(row[0]))
        if version is not None and version != found:
            raise ChangedError("the object has changed", key=path)
        return Found(data[start:stop], found)

    def head(self, path):
        with self._database() as database:
            return self._version(database, path)

    def _version(self, database, path):
        row = database.execute("select version, length(data) from objects where path = ?", (path,)).fetchone()
        return None if row is None else Version(None, row[0], None, row[1])

    def put(self, path, parts, condition):
        row = (path, b"".join(parts), secrets.token_hex(8))
        with self._database() as database:
            if condition is not ANYTHING and self._version(database, path) != condition:
                raise ChangedError("the object has changed", key=path)
            database.execute("insert or replace into objects values (?, ?, ?)", row)

    def delete(self, paths):
        with self._database() as database:
            database.executemany("delete from objects where path = ?", [(path,) for path in paths])

    def list(self, folder):
        with self._database() as database:
            found = database.execute("select path from objects where substr(path, 1, ?) = ?", (len(folder), folder))
            return [path for (path,) in found]

    def list_dir(self, folder):
        below = [path[len(folder) :].partition("/") for path in self.list(folder)]
        folders = {folder + name for name, slash, _ in below if slash}
        return sorted(folders), [folder + name for name, slash, _ in below if not slash]
