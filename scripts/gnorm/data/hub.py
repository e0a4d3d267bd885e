"""Models and datasets from the hub, or from a folder that mirrors it.

The one module that may use the network; the package itself keeps the hub offline. What is
downloaded is data: code in a repository is left there.

A mirror has `models/{owner}/{name}/` as written by `save_pretrained`, and
`datasets/{owner}/{name}/{split}.parquet` or `.csv`, for a dataset with configs
`datasets/{owner}/{name}/{config}/{split}.parquet` or `.csv`.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from fnmatch import fnmatch
from functools import partial
from pathlib import Path

import datasets
import requests
from huggingface_hub import HfApi, constants
from huggingface_hub.errors import (
    FileMetadataError,
    GatedRepoError,
    HfHubHTTPError,
    LocalEntryNotFoundError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)
from huggingface_hub.utils import disable_progress_bars, reset_sessions

from gnorm.data import records
from gnorm.errors import UserError
from gnorm.files import atomic
from gnorm.logs import log

disable_progress_bars()
TIMEOUT = 20  # seconds for the hub's first answer
WEIGHTS = (
    ("model*.safetensors", "model.safetensors.index.json"),
    ("pytorch_model*.bin", "pytorch_model.bin.index.json"),
)
TOKENIZERS = ("tokenizer.json", "vocab.txt", "vocab.json", "spiece.model", "sentencepiece.bpe.model")
OTHERS = (".json", ".txt", ".model")  # configurations, vocabularies, merges, sentencepiece models


def fetch_model(name: str, revision: str, mirror: str | None, folder: str | Path) -> None:
    """Configuration, tokenizer and weights of a model, into `folder`."""
    place = _mirrored(mirror, "models", name)
    with atomic(folder) as temporary:
        temporary.mkdir()
        if mirror:
            _check_mirror(mirror, place)
            if not place.is_dir():
                raise UserError(f"the mirror has no model {name}: put what save_pretrained writes into {place}/")
            for file in model_files((path.name for path in place.iterdir() if path.is_file()), str(place)):
                shutil.copyfile(place / file, temporary / file)
        else:
            instead = f"put what save_pretrained writes into {place}/ and run with --config hub_mirror=DIR"
            needed = partial(model_files, where=f"the model {name}")
            _download("model", name, revision, needed, temporary, instead)


def fetch_dataset(
    name: str, revision: str, config: str | None, split: str, mirror: str | None, path: str | Path
) -> None:
    """One split of a dataset, into a parquet file."""
    place = _mirrored(mirror, "datasets", name, *filter(None, [config]))
    files = [place / f"{split}{suffix}" for suffix in (".parquet", ".csv")]
    put = f"put the split into {files[0]} or {files[1].name}"
    if mirror:
        _check_mirror(mirror, files[0])
        found = next((file for file in files if file.is_file()), None)
        if found is None:
            have = ", ".join(sorted(file.name for file in place.iterdir())) if place.is_dir() else ""
            there = f"; the folder has {have}" if have else ""
            raise UserError(f"the mirror has no split {split!r} of the dataset {name}: {put}{there}")
        records.write(records.read(found), path)
        return
    instead = f"{put} and run with --config hub_mirror=DIR"
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="fetching-", dir=Path(path).parent) as scratch:
        repository, cache = Path(scratch, "repository"), Path(scratch, "cache")
        _download("dataset", name, revision, dataset_files, repository, instead)
        records.write(_read_repository(repository, cache, name, config, split, instead), path)


def model_files(names: Iterable[str], where: str) -> list[str]:
    """Of all files of a model those that are needed; weights as safetensors if there are any."""
    names = sorted(name for name in names if "/" not in name)
    weights: list[str] = []
    for patterns in WEIGHTS:
        weights = weights or [name for name in names if any(fnmatch(name, pattern) for pattern in patterns)]
    others = [name for name in names if name.endswith(OTHERS) and not name.endswith(".index.json")]
    for what, there in (
        ("config.json", "config.json" in others),
        ("weights (model.safetensors or pytorch_model.bin)", bool(weights)),
        (f"tokenizer ({', '.join(TOKENIZERS)})", any(name in TOKENIZERS for name in others)),
    ):
        if not there:
            raise UserError(f"{where} has no {what}: a model saved by save_pretrained, and its tokenizer, are needed")
    return others + weights


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
    """Those files of a repository that `wanted` picks; `instead` is what someone without the hub can do."""
    with _online(), _explained(kind, name, revision, instead):
        api = HfApi()
        found = api.repo_info(name, repo_type=kind, revision=revision, timeout=TIMEOUT)
        log.info("%s %s, revision %s, is commit %s", kind, name, revision, found.sha)
        for file in wanted([entry.rfilename for entry in found.siblings]):
            log.info("downloading %s", file)
            api.hf_hub_download(name, file, repo_type=kind, revision=found.sha, local_dir=folder)
    shutil.rmtree(folder / ".cache", ignore_errors=True)  # the library's notes on its downloads


@contextmanager
def _online() -> Iterator[None]:
    """The hub within reach, for a download alone."""
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
    """The hub's errors as one line that says what to do."""
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
        # A file that cannot be had is a missing local file to the library; why is in its cause.
        first = (error.__cause__ or error) if isinstance(error, LocalEntryNotFoundError) else error
        if isinstance(first, HfHubHTTPError) and first.response is not None:
            said = f"answers with HTTP status {first.response.status_code}"
        else:
            said = f"cannot be reached ({type(first).__name__})"
        message = f"the hub {constants.ENDPOINT} {said} for the {kind} {name}: run again once it can be reached"
        raise UserError(f"{message}, or {instead}") from error


def _read_repository(
    folder: Path, cache: Path, name: str, config: str | None, split: str, instead: str
) -> datasets.Dataset:
    """A split of a downloaded dataset; its files and its card say which configs and splits there are."""
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
        said = records.reason(error).replace(path, name)
        raise UserError(f"the dataset {name} cannot be read ({said}): {instead}") from error
