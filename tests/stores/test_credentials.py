"""Who is asking an object store, and where it is: by options, the environment, AWS's files, the machine's role."""

from __future__ import annotations

import http.server
import json
import pickle
import sys
import threading
import uuid
from collections import Counter
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pytest

import zvcore
from tests.stores.servers import KEY, SECRET
from zvcore.commands import cli
from zvcore.errors import AccessRefusedError, UnsupportedError
from zvcore.stores import aws, open_store
from zvcore.stores.opening import usual_options

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.stores.servers import S3, Proxy, Request


@pytest.fixture(autouse=True)
def nothing_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An environment, and a home, that say nothing of any cloud."""
    import os

    for name in [*os.environ]:
        if name.startswith(("AWS_", "GOOGLE_", "AZURE_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("AWS_METADATA_ENDPOINT", "http://127.0.0.1:9")


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of AWS's files."""
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    return tmp_path


@pytest.fixture
def url(s3_process: S3) -> str:
    """An array in a bucket."""
    url = s3_process.url(f"credentials-{uuid.uuid4()}/a.zarr")
    zvcore.create(url, format="zarr3", data=[3, 3, 3, 3], storage_options=s3_process.options)
    return url


def signed_by(proxy: Proxy) -> set[str | None]:
    """The access keys by which the requests were signed, in a field or in the address."""
    texts = [one.headers.get("authorization") or unquote(one.path) for one in proxy.requests]
    return {text.partition("Credential=")[2].partition("/")[0] or None for text in texts}


def is_signed(request: Request) -> bool:
    return "authorization" in request.headers or "X-Amz-Signature=" in request.path


def test_credentials_from_files_and_the_environment(url: str, s3: S3, proxy: Proxy, files: Path, monkeypatch) -> None:
    (files / "credentials").write_text(
        f"[default]\naws_access_key_id = {KEY}\naws_secret_access_key = {SECRET}\n"
        "[other]\naws_access_key_id = nobody\naws_secret_access_key = nothing\n"
    )
    (files / "config").write_text(
        f"[default]\nregion = us-east-1\nendpoint_url = {s3.endpoint}\n[profile other]\nregion = eu-west-1\n"
    )
    assert zvcore.open(url)[...].tolist() == [3] * 4
    assert signed_by(proxy) == {KEY}
    settings, nobody = aws.with_aws_settings({"profile": "other"})
    assert not nobody
    assert settings.pop("credential_provider")()["access_key_id"] == "nobody"
    assert settings == {"region": "eu-west-1"}
    # What is said outright, and the environment, come first; a profile that is named before the environment.
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    assert "credential_provider" not in aws.with_aws_settings({})[0]
    assert "credential_provider" in aws.with_aws_settings({"profile": "other"})[0]
    assert aws.with_aws_settings({"endpoint": "http://one"})[0]["endpoint"] == "http://one"


def test_a_process_that_gives_credentials_is_asked(url: str, s3: S3, proxy: Proxy, files: Path) -> None:
    answer = {"Version": 1, "AccessKeyId": KEY, "SecretAccessKey": SECRET}
    (files / "keys.json").write_text(json.dumps(answer))
    script = f"{sys.executable} -c \"print(open('{files}/keys.json').read())\""
    (files / "config").write_text(
        f"[profile lab]\nregion = us-east-1\nendpoint_url = {s3.endpoint}\ncredential_process = {script}\n"
    )
    assert zvcore.open(url, storage_options={"profile": "lab"})[...].tolist() == [3] * 4
    assert signed_by(proxy) == {KEY}
    store = open_store(url, "r", {"profile": "lab"})
    assert pickle.loads(pickle.dumps(store)).exists("zarr.json")


def test_a_role_is_taken_on_by_the_service_for_it(files: Path, s3_process: S3, monkeypatch) -> None:
    """moto has that service too."""
    if s3_process.name != "moto":
        pytest.skip("needs moto")
    (files / "credentials").write_text(f"[base]\naws_access_key_id = {KEY}\naws_secret_access_key = {SECRET}\n")
    (files / "config").write_text(
        "[profile role]\nregion = us-east-1\nrole_arn = arn:aws:iam::123456789012:role/lab\nsource_profile = base\n"
    )
    monkeypatch.setenv("AWS_ENDPOINT_URL_STS", s3_process.endpoint)
    found = aws.with_aws_settings({"profile": "role"})[0]["credential_provider"]()
    assert found["access_key_id"].startswith("ASIA") and found["token"]


def test_an_endpoint_for_one_service_only_is_read_from_the_files(files: Path) -> None:
    (files / "config").write_text(
        "[default]\nservices = lab\nregion = us-east-1\n[services lab]\ns3 =\n  endpoint_url = http://minio.lab:9000\n"
    )
    assert aws.with_aws_settings({})[0]["endpoint"] == "http://minio.lab:9000"


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ("[default]\nregion", "AWS files"),
        ("[profile a]\nrole_arn = x\nsource_profile = b\n", "AWS files"),
    ],
)
def test_files_that_cannot_be_used_are_told(files: Path, config: str, words: str) -> None:
    (files / "config").write_text(config)
    with pytest.raises(ValueError, match=words):
        zvcore.open("s3://bucket/a", storage_options={"profile": "a"} if "profile" in config else {})


def test_a_profile_without_botocore_is_refused(files: Path, monkeypatch) -> None:
    monkeypatch.setattr(aws.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UnsupportedError, match="botocore"):
        aws.with_aws_settings({"profile": "lab"})
    (files / "config").write_text("[default]\nregion = us-east-1\n")
    assert aws.with_aws_settings({}) == ({}, True)


# --- nobody is asking


class Machine(http.server.BaseHTTPRequestHandler):
    """The address at which a machine of Amazon's tells its role."""

    asked: list[str]

    def do_PUT(self) -> None:
        self._answer(b"a token")

    def do_GET(self) -> None:
        role = {"Code": "Success", "AccessKeyId": "ROLE", "SecretAccessKey": "s", "Token": "t"}
        role |= {"Expiration": "2099-01-01T00:00:00Z", "LastUpdated": "2020-01-01T00:00:00Z", "Type": "AWS-HMAC"}
        self._answer(b"lab" if self.path.endswith("/") else json.dumps(role).encode())

    def _answer(self, data: bytes) -> None:
        self.asked.append(self.path)
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: Any) -> None: ...


@pytest.fixture
def machine(monkeypatch) -> Iterator[list[str]]:
    """What such an address was asked for."""
    asked: list[str] = []
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), type("One", (Machine,), {"asked": asked}))
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    monkeypatch.setenv("AWS_METADATA_ENDPOINT", f"http://127.0.0.1:{server.server_address[1]}")
    yield asked
    server.shutdown()
    server.server_close()
    thread.join()


def refuse_unsigned(request: Request) -> int | None:
    return None if is_signed(request) else 403


def test_public_buckets_are_read_without_a_signature_and_without_asking_the_machine(
    url: str, s3: S3, proxy: Proxy, machine: list[str], monkeypatch
) -> None:
    if s3.name != "moto":
        pytest.skip("needs lists of access as Amazon has them")
    import boto3

    name = url.removeprefix(f"s3://{s3.bucket}/")
    client = boto3.client(
        "s3", endpoint_url=s3.endpoint, aws_access_key_id=KEY, aws_secret_access_key=SECRET, region_name="us-east-1"
    )
    client.create_bucket(Bucket="public", ACL="public-read")
    for one in client.list_objects_v2(Bucket=s3.bucket, Prefix=name)["Contents"]:
        copied = {"Bucket": s3.bucket, "Key": one["Key"]}
        client.copy_object(Bucket="public", Key=one["Key"], CopySource=copied, ACL="public-read")
    client.close()
    proxy.forget()
    url = f"s3://public/{name}"
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3.endpoint)
    assert zvcore.open(url)[...].tolist() == [3] * 4
    assert signed_by(proxy) == {None}
    # Over connections of our own.
    assert {one.headers["user-agent"] for one in proxy.requests} == {"zvcore"}
    assert machine == []


def test_where_that_is_refused_the_role_of_the_machine_is_used(
    url: str, s3: S3, proxy: Proxy, machine: list[str], monkeypatch
) -> None:
    if s3.name != "moto":
        pytest.skip("other servers do not know the role")
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3.endpoint)
    proxy.spoil = refuse_unsigned
    array = zvcore.open(url, "r+")
    array[...] = 4
    assert array[...].tolist() == [4] * 4
    assert signed_by(proxy) == {None, "ROLE"}
    assert machine
    refused = [one for one in proxy.requests if not is_signed(one)]
    # The marks of the formats and the note of a conversion, all asked for at once: first over connections of our own,
    # then by obstore, which says why that fails; and none of them again.
    asked = Counter((one.method, one.path) for one in refused)
    assert len(asked) <= 8 and max(asked.values()) <= 2, "asked again and again without a signature"
    assert pickle.loads(pickle.dumps(array))[...].tolist() == [4] * 4


def test_a_refusal_says_that_there_are_no_credentials(url: str, s3: S3, proxy: Proxy, monkeypatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3.endpoint)
    proxy.spoil = refuse_unsigned
    with pytest.raises(AccessRefusedError, match="refused") as caught:
        zvcore.open(url)
    assert any("nothing here has credentials" in note for note in caught.value.__notes__)


def test_a_refusal_of_the_role_is_not_said_to_be_for_want_of_credentials(
    url: str, s3: S3, proxy: Proxy, machine: list[str], monkeypatch
) -> None:
    if s3.name != "moto":
        pytest.skip("other servers do not know the role")
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3.endpoint)
    proxy.spoil = refuse_unsigned
    array = zvcore.open(url)
    assert array[...].tolist() == [3] * 4
    proxy.spoil = lambda request: 403
    for _ in range(2):
        with pytest.raises(AccessRefusedError, match="refused") as caught:
            array.store.get("another")
        assert not getattr(caught.value, "__notes__", [])


# --- the command line


@pytest.fixture
def options(s3: S3) -> list[str]:
    given = {name: str(value).lower() if value is True else value for name, value in s3.options.items()}
    return [word for name, value in given.items() for word in ("--storage-option", f"{name}={value}")]


def test_storage_options_on_the_command_line(url: str, options: list[str], capsys) -> None:
    assert cli.main(["info", url, *options]) == 0
    assert cli.main([*options, "ls", url.rpartition("/")[0]]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "a.zarr"
    assert cli.main(["verify", "-q", *options, url]) == 0
    assert cli.main(["convert", "-q", "--format", "n5", *options, url, url.replace(".zarr", ".n5")]) == 0
    assert cli.main(["ls", "-l", url.rpartition("/")[0], *options]) == 0
    assert "a.n5" in capsys.readouterr().out


def test_they_are_refused_where_no_path_is_a_url(tmp_path: Path, capsys) -> None:
    zvcore.create(tmp_path / "a", format="n5", data=[1])
    assert cli.main(["info", str(tmp_path / "a"), "--storage-option", "region=x"]) == 2
    assert "none of these is" in capsys.readouterr().err


def test_the_bucket_itself_is_listed(url: str, s3: S3, options: list[str], capsys) -> None:
    assert cli.main(["ls", f"s3://{s3.bucket}", *options]) == 0
    assert url.split("/")[3] in capsys.readouterr().out.split()


def test_the_endpoint_and_plain_http_from_the_environment(url: str, s3: S3, monkeypatch, capsys) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3.endpoint)
    assert cli.main(["info", url]) == 0
    # Elsewhere than on this machine, plain http must be asked for.
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://no-such-host.invalid:9000")
    assert cli.main(["info", url]) == 1
    assert "--storage-option allow_http=true" in capsys.readouterr().err
    monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
    with usual_options({"retry_config": {"max_retries": 0}}):
        assert cli.main(["info", url]) == 1
    assert "not encrypted" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "value"),
    [("a=true", True), ("a=12", 12), ("a=012", "012"), ("a=1e5", "1e5"), ('a={"b": 1}', {"b": 1}), ("a=b=c", "b=c")],
)
def test_values_of_storage_options(text: str, value: Any) -> None:
    assert cli.storage_option(text) == ("a", value)


def test_a_key_of_digits_is_a_key() -> None:
    options = {"access_key_id": 123, "secret_access_key": 456, "region": "us-east-1"}
    assert open_store("s3://bucket/a", "r", options).root == "s3://bucket/a"
