"""Settings for S3 in the environment and the files of the AWS command line, read as AWS's own library reads them."""

from __future__ import annotations

import importlib.util
import os
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from pathlib import Path
from typing import Any

from zvcore.errors import UnsupportedError

__all__ = ["ProfileCredentials", "with_aws_settings"]

# botocore renews credentials ten minutes before they expire, at the latest.
_ASKED_AGAIN = timedelta(minutes=5)
_ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")
_IGNORED = "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS"
_REGIONS = ("AWS_REGION", "AWS_DEFAULT_REGION")
# Where the environment has credentials that obstore finds there by itself.
_CREDENTIALS = ("AWS_ACCESS_KEY_ID", "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
                "AWS_CONTAINER_CREDENTIALS_FULL_URI", "AWS_SKIP_SIGNATURE")  # fmt: skip
_TOLD = {"access_key_id", "skip_signature", "credential_provider"}


def with_aws_settings(options: dict[str, Any]) -> tuple[dict[str, Any], bool]:
    """The options with what is set elsewhere; and whether there are no credentials anywhere.

    Options that are given come first, then the environment, then the profile: the one named by `profile`, which comes
    before the environment, by AWS_PROFILE, or the default one.
    """
    found = dict(options)
    name = found.pop("profile", None)
    given = {option.lower().removeprefix("aws_") for option in found}
    endpoint = next(filter(None, map(os.environ.get, _ENDPOINTS)), None)
    if endpoint is not None and "endpoint" not in given and not _is_true(os.environ.get(_IGNORED)):
        found["endpoint"] = endpoint
    needs = {
        "credentials": not given & _TOLD and (name is not None or not any(map(os.environ.get, _CREDENTIALS))),
        "region": not given & {"region", "default_region"} and not any(map(os.environ.get, _REGIONS)),
        "endpoint": "endpoint" not in given and endpoint is None,
    }
    profile = _profile(name) if any(needs.values()) else None
    if profile is not None:
        for setting in ("region", "endpoint"):
            if needs[setting] and profile[setting]:
                found[setting] = profile[setting]
        if needs["credentials"] and profile["credentials"] is not None:
            found["credential_provider"] = ProfileCredentials(name)
            needs["credentials"] = False
    return found, needs["credentials"]


class ProfileCredentials:
    """The credentials of a profile, wherever they come from: keys, SSO, a role, a process, a web identity.

    A copy in another process looks them up there. Two are equal if nothing that they look at differs.
    """

    def __init__(self, profile: str | None) -> None:
        self.profile = profile
        self.config: dict[str, Any] = {}
        self._seen = (profile, _stamps())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ProfileCredentials) and self._seen == other._seen

    def __hash__(self) -> int:
        return hash(self._seen)

    def __call__(self) -> dict[str, Any]:
        from botocore.exceptions import BotoCoreError

        found = _profile(self.profile)
        if found is None or found["credentials"] is None:
            raise ValueError("the AWS files of this process have no credentials")
        try:
            keys = found["credentials"].get_frozen_credentials()
        except BotoCoreError as error:
            raise ValueError(f"no credentials come from the AWS profile: {error}") from error
        return {
            "access_key_id": keys.access_key,
            "secret_access_key": keys.secret_key,
            "token": keys.token,
            "expires_at": datetime.now(UTC) + _ASKED_AGAIN,
        }

    def __reduce__(self) -> tuple[Any, ...]:
        return (ProfileCredentials, (self.profile,))


def _profile(name: str | None) -> dict[str, Any] | None:
    """Region, endpoint and credentials of a profile; None where there are no files of AWS and none is named."""
    files, stamps = _files(), _stamps()
    named = name or os.environ.get("AWS_PROFILE") or os.environ.get("AWS_DEFAULT_PROFILE")
    if not any(stamps) and not named:
        return None
    if importlib.util.find_spec("botocore") is None:
        if named:
            raise UnsupportedError(f'AWS profiles need botocore: pip install "zvcore[remote]" (profile {named})')
        return None
    return _read(name, named, tuple(map(str, files)), stamps)


def _files() -> list[Path]:
    return [_file("AWS_SHARED_CREDENTIALS_FILE", "credentials"), _file("AWS_CONFIG_FILE", "config")]


def _file(variable: str, name: str) -> Path:
    return Path(os.environ.get(variable) or Path.home() / ".aws" / name).expanduser()


def _stamps() -> tuple[tuple[int, int] | None, ...]:
    """Which versions of the files there are."""
    return tuple((file.stat().st_mtime_ns, file.stat().st_size) if file.is_file() else None for file in _files())


@lru_cache(maxsize=16)
def _read(name: str | None, named: str | None, files: tuple[str, ...], stamps: tuple[Any, ...]) -> dict[str, Any]:
    """The settings that botocore reads in the files, kept until these change: no role is assumed for each store."""
    import botocore.session
    from botocore.configprovider import ConfiguredEndpointProvider
    from botocore.exceptions import BotoCoreError, ProfileNotFound

    session = botocore.session.Session(profile=name)
    try:
        # The machine's own role is asked for last of all, and not by botocore.
        session.get_component("credential_provider").remove("iam-role")
        scoped = session.get_scoped_config()
        endpoint = None
        if not _is_true(os.environ.get(_IGNORED) or scoped.get("ignore_configured_endpoint_urls")):
            endpoint = ConfiguredEndpointProvider(session.full_config, scoped, client_name="s3").provide()
        return {
            "region": scoped.get("region"),
            "endpoint": endpoint,
            "credentials": session.get_credentials(),
        }
    except ProfileNotFound as error:
        raise ValueError(f"the AWS files have no profile {named!r}") from error
    except BotoCoreError as error:
        raise ValueError(f"the AWS files ({', '.join(files)}) cannot be used: {error}") from error


def _is_true(value: object) -> bool:
    return str(value).lower() in ("true", "1")
