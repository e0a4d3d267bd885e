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

from gnorm.data import formats
from gnorm.data.saved import check_fetched, model_files
from gnorm.errors import UserError
from gnorm.files import atomic, check_inside, check_yaml
from gnorm.logs import log

if TYPE_CHECKING:
    import datasets

LOCATION = ("id", "revision", "config", "split")
MIRROR = "hub_mirror"
RETRIES = 3  # a network may recover, but a file missing from a mirror stays missing
TIMEOUT = 20  # seconds for the hub's first answer
CARD = "README.md"
# Files of a dataset that are fetched: rows, also packed.
PACKED = ("", ".gz", ".bz2", ".xz")
ROWS = (".parquet", ".zip", *(f"{kind}{packed}" for kind in formats.LINES for packed in PACKED))


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
                check_inside(place / needed, Path(mirror).expanduser())
                shutil.copyfile(place / needed, temporary / needed)
        else:
            instead = f"put what save_pretrained writes into {place}/ and run with --config hub_mirror=DIR"
            wanted = partial(model_files, where=f"the model {name}")
            _download("model", name, entry["revision"], wanted, temporary, instead)
        check_fetched(temporary)


def fetch_dataset(entry: dict, path: str | Path, mirror: str | None, archive: str | None = None) -> None:
    """Put one split of a dataset into the parquet file `path`."""
    from gnorm.data import packed, records

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
        check_inside(present, Path(mirror).expanduser())
        records.write(records.read(present), path)
        return
    instead = f"{put} and run with --config hub_mirror=DIR"
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="fetching-", dir=Path(path).parent) as scratch:
        repository, cache = Path(scratch, "repository"), Path(scratch, "cache")
        _download("dataset", name, entry["revision"], dataset_files, repository, instead)
        check_card(repository / CARD, f"the dataset {name}")
        packed.check(repository, f"the dataset {name}")
        records.write(_read_repository(repository, cache, name, config, split, instead), path)


def dataset_files(names: Iterable[str]) -> list[str]:
    """Choose rows and what describes them; a library would run or unpack other kinds, or take settings from them."""
    return [name for name in names if name == CARD or name.endswith(ROWS)]


def check_card(path: Path, where: str) -> None:
    """Refuse a dataset's card that names rows elsewhere: a library would read or fetch them from where it says."""
    if not path.exists():
        return
    import yaml
    from huggingface_hub.repocard import REGEX_YAML_BLOCK

    block = REGEX_YAML_BLOCK.search(path.read_text(encoding="utf-8", errors="replace"))
    try:
        check_yaml(block[2] if block else "")
        said = yaml.safe_load(block[2]) if block else None
    except (UserError, yaml.YAMLError, ValueError, RecursionError) as error:
        raise UserError(f"{where}: its card cannot be read ({' '.join(str(error).split())})") from error
    configs = said.get("configs") if isinstance(said, dict) else None
    waiting = [
        one[key]
        for one in (configs if isinstance(configs, list) else [])
        for key in ("data_files", "data_dir")
        if isinstance(one, dict) and key in one
    ]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict | list):
            waiting += part.values() if isinstance(part, dict) else part
        elif isinstance(part, str) and not _stays(part):
            raise UserError(f"{where}: its card names rows outside of it, {part!r}: they are not read")


def _stays(name: str) -> bool:
    """Whether a file's name in a repository, or a pattern of names, stays in it."""
    elsewhere = name.startswith(("/", "~")) or ".." in name.split("/")
    return not elsewhere and not any(mark in name for mark in ("::", "://", "\\", "\0"))


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
            if not _stays(needed):
                raise UserError(f"the {kind} {name} has a file called {needed!r}, which would be written elsewhere")
            log.info("downloading %s", needed)
            api.hf_hub_download(name, needed, repo_type=kind, revision=repository.sha, local_dir=folder)
    shutil.rmtree(folder / ".cache", ignore_errors=True)  # the library's notes on its downloads


@contextmanager
def _online() -> Iterator[None]:
    """Allow the network during a download only."""
    from huggingface_hub import constants

    before = constants.HF_HUB_OFFLINE, constants.HF_HUB_DISABLE_XET
    constants.HF_HUB_OFFLINE, constants.HF_HUB_DISABLE_XET = False, True  # Xet would fill a cache in the home folder
    _forget_sessions()
    try:
        yield
    finally:
        constants.HF_HUB_OFFLINE, constants.HF_HUB_DISABLE_XET = before
        _forget_sessions()


def _forget_sessions() -> None:
    """Let a change of mode take effect: sessions before version 1 of the library keep the mode they were made in."""
    from huggingface_hub import utils

    if hasattr(utils, "reset_sessions"):
        utils.reset_sessions()


@contextmanager
def _explained(kind: str, name: str, revision: str, instead: str) -> Iterator[None]:
    """Turn the hub's errors into one line that says what to do."""
    import httpx
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
    except (httpx.HTTPError, requests.RequestException, LocalEntryNotFoundError, FileMetadataError) as error:
        # The library reports a failed download as a missing local file; the reason is in the error's cause.
        first = (error.__cause__ or error) if isinstance(error, LocalEntryNotFoundError) else error
        if isinstance(first, HfHubHTTPError) and first.response is not None:
            failure = f"answers with HTTP status {first.response.status_code}"
        else:
            lost = isinstance(first, httpx.NetworkError | httpx.RemoteProtocolError)
            failure = f"cannot be reached ({'ConnectionError' if lost else type(first).__name__})"
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
        builder = datasets.load_dataset_builder(path, config, cache_dir=str(cache))
        options = {"cache_dir": str(cache), "keep_in_memory": True, "verification_mode": "no_checks"}
        if builder.name == "csv":
            options |= _as_text(builder, split, name)
        return datasets.load_dataset(path, config, split=split, **options)
    except UserError:
        raise
    except Exception as error:  # the type of error depends on the damage
        reason = records.reason(error).replace(path, name)
        raise UserError(f"the dataset {name} cannot be read ({reason}): {instead}") from error


def _as_text(builder: datasets.DatasetBuilder, split: str, name: str) -> dict:
    """Options that keep the cells of CSV files as they are written: types, declared or guessed, would change `007`."""
    import datasets
    import pandas as pd

    columns: dict[str, None] = {}
    for file in builder.config.data_files[split]:
        with pd.read_csv(file, iterator=True, **builder.config.pd_read_csv_kwargs) as lines:
            columns |= dict.fromkeys(map(str, lines.read(1).columns))
    for column in columns:
        first, _, number = column.rpartition(".")
        if number.isdigit() and first in columns:  # as pandas tells two of one name apart
            raise UserError(f"the dataset {name} has the column {first!r} twice: remove one, or rename it")
    text = datasets.Features(dict.fromkeys(columns, datasets.Value("string")))
    return {"features": text, "keep_default_na": False, "na_values": [""]}
