"""Models and datasets from the hub, or from a folder that mirrors it.

Only this module and `package` may use the network; everywhere else the hub is offline. Only data are downloaded, never
a repository's code.

A mirror has `models/{owner}/{name}/` as written by `save_pretrained`, and
`datasets/{owner}/{name}/{split}.parquet` or `.csv`, for a dataset with configs
`datasets/{owner}/{name}/{config}/{split}.parquet` or `.csv`.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from gnorm.data.saved import model_files
from gnorm.errors import UserError
from gnorm.files import atomic
from gnorm.logs import log

if TYPE_CHECKING:
    import datasets

LOCATION = ("id", "revision", "config", "split")
MIRROR = "hub_mirror"
RETRIES = 3  # a network may recover, but a file missing from a mirror stays missing
TIMEOUT = 20  # seconds for the hub's first answer


def fetch_model(entry: dict, path: str | Path, mirror: str | None, archive: str | None = None) -> None:
    """Put a model's configuration, tokenizer and weights into the folder `path`."""
    name = entry["id"]
    place = _mirrored(mirror, "models", name)
    with atomic(path) as temporary:
        temporary.mkdir()
        if mirror:
            _check_mirror(mirror, place)
            if not place.is_dir():
                raise UserError(f"the mirror has no model {name}: put what save_pretrained writes into {place}/")
            for needed in model_files((one.name for one in place.iterdir() if one.is_file()), str(place)):
                shutil.copyfile(place / needed, temporary / needed)
        else:
            instead = f"put what save_pretrained writes into {place}/ and run with --config hub_mirror=DIR"
            wanted = partial(model_files, where=f"the model {name}")
            _download("model", name, entry["revision"], wanted, temporary, instead)


def fetch_dataset(entry: dict, path: str | Path, mirror: str | None, archive: str | None = None) -> None:
    """Put one split of a dataset into the parquet file `path`."""
    from gnorm.data import records

    name, config, split = entry["id"], entry["config"], entry["split"]
    place = _mirrored(mirror, "datasets", name, *filter(None, [config]))
    files = [place / f"{split}{suffix}" for suffix in (".parquet", ".csv")]
    put = f"put the split into {files[0]} or {files[1].name}"
    if mirror:
        _check_mirror(mirror, files[0])
        present = next((one for one in files if one.is_file()), None)
        if present is None:
            have = ", ".join(sorted(one.name for one in place.iterdir())) if place.is_dir() else ""
            instead = f"; the folder has {have}" if have else ""
            raise UserError(f"the mirror has no split {split!r} of the dataset {name}: {put}{instead}")
        records.write(records.read(present), path)
        return
    instead = f"{put} and run with --config hub_mirror=DIR"
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="fetching-", dir=Path(path).parent) as scratch:
        repository, cache = Path(scratch, "repository"), Path(scratch, "cache")
        _download("dataset", name, entry["revision"], dataset_files, repository, instead)
        records.write(_read_repository(repository, cache, name, config, split, instead), path)


def dataset_files(names: Iterable[str]) -> list[str]:
    return [name for name in names if not name.endswith((".py", ".gitattributes"))]


def _mirrored(mirror: str | None, *parts: str) -> Path:
    return Path(mirror or "DIR").expanduser().joinpath(*parts)


def _check_mirror(mirror: str, place: Path) -> None:
    if not Path(mirror).expanduser().is_dir():
        raise UserError(f"hub_mirror: there is no folder {mirror}; it must exist and hold {place}")


def _download(
    kind: str,
    name: str,
    revision: str,
    wanted: Callable[[list[str]], list[str]],
    folder: Path,
    instead: str,
) -> None:
    """Download the files of a repository that `wanted` picks; `instead` tells people without the hub what to do."""
    from huggingface_hub import HfApi
    from huggingface_hub.utils import disable_progress_bars

    disable_progress_bars()
    with _online(), _explained(kind, name, revision, instead):
        api = HfApi()
        repository = api.repo_info(name, repo_type=kind, revision=revision, timeout=TIMEOUT)
        log.info("%s %s, revision %s, is commit %s", kind, name, revision, repository.sha)
        for needed in wanted([one.rfilename for one in repository.siblings]):
            log.info("downloading %s", needed)
            api.hf_hub_download(name, needed, repo_type=kind, revision=repository.sha, local_dir=folder)
    shutil.rmtree(folder / ".cache", ignore_errors=True)  # the library's notes on its downloads


@contextmanager
def _online() -> Iterator[None]:
    """Allow the network during a download only."""
    from huggingface_hub import constants
    from huggingface_hub.utils import reset_sessions

    before = constants.HF_HUB_OFFLINE, constants.HF_HUB_DISABLE_XET
    constants.HF_HUB_OFFLINE, constants.HF_HUB_DISABLE_XET = False, True  # Xet would fill a cache in the home folder
    reset_sessions()
    try:
        yield
    finally:
        constants.HF_HUB_OFFLINE, constants.HF_HUB_DISABLE_XET = before
        reset_sessions()


@contextmanager
def _explained(kind: str, name: str, revision: str, instead: str) -> Iterator[None]:
    """Turn the hub's errors into one line that says what to do."""
    import requests
    from huggingface_hub import constants
    from huggingface_hub.errors import (
        FileMetadataError,
        GatedRepoError,
        HfHubHTTPError,
        LocalEntryNotFoundError,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    try:
        yield
    except GatedRepoError as error:
        message = f"the {kind} {name} is gated: accept its terms on the hub and set HF_TOKEN"
        raise UserError(f"{message}, or {instead}") from error
    except RepositoryNotFoundError as error:
        message = f"the hub has no {kind} {name}, or it is private: correct `id:` in the suite or set HF_TOKEN"
        raise UserError(f"{message}, or {instead}") from error
    except RevisionNotFoundError as error:
        message = f"the {kind} {name} has no revision {revision!r} on the hub: correct `revision:` in the suite"
        raise UserError(f"{message}, or {instead}") from error
    except (requests.RequestException, FileMetadataError) as error:
        # The library reports a failed download as a missing local file; the reason is in the error's cause.
        first = (error.__cause__ or error) if isinstance(error, LocalEntryNotFoundError) else error
        if isinstance(first, HfHubHTTPError) and first.response is not None:
            failure = f"answers with HTTP status {first.response.status_code}"
        else:
            failure = f"cannot be reached ({type(first).__name__})"
        message = f"the hub {constants.ENDPOINT} {failure} for the {kind} {name}: run again once it can be reached"
        raise UserError(f"{message}, or {instead}") from error


def _read_repository(
    folder: Path, cache: Path, name: str, config: str | None, split: str, instead: str
) -> datasets.Dataset:
    """Read a split of a downloaded dataset; its files and its card say which configs and splits exist."""
    import datasets

    from gnorm.data import records

    path = str(folder)
    try:
        configs = datasets.get_dataset_config_names(path)
        if config is not None and config not in configs:
            raise UserError(f"the dataset {name} has no config {config!r}; allowed: {', '.join(configs)}")
        if config is None and datasets.get_dataset_default_config_name(path) is None:
            raise UserError(f"the dataset {name} has several configs; set `config:` to one of {', '.join(configs)}")
        splits = datasets.get_dataset_split_names(path, config, cache_dir=str(cache))
        if split not in splits:
            raise UserError(f"the dataset {name} has no split {split!r}; allowed: {', '.join(splits)}")
        return datasets.load_dataset(
            path, config, split=split, cache_dir=str(cache), keep_in_memory=True, verification_mode="no_checks"
        )
    except (FileNotFoundError, *records.UNREADABLE) as error:
        reason = records.reason(error).replace(path, name)
        raise UserError(f"the dataset {name} cannot be read ({reason}): {instead}") from error
