"""A model's folder, which anyone may have written: checked before anything else reads it.

Libraries open the files that a configuration names, follow links, download the kernels that it asks for and build any
size that it gives. So nothing in the folder may lead out of it, and nothing may ask for more than its weights can hold.
"""

from __future__ import annotations

import json
import os
import re
import stat
import zipfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from fnmatch import fnmatch
from functools import lru_cache
from pathlib import Path
from typing import Any

from gnorm.errors import UserError
from gnorm.files import ROOM, check_inside, digest, read_json, within_memory, write_json, write_text
from gnorm.logs import log

WEIGHTS = (
    ("model*.safetensors", "model.safetensors.index.json"),
    ("pytorch_model*.bin", "pytorch_model.bin.index.json"),
)
CONFIGURATIONS = (  # that libraries read
    *("config.json", "generation_config.json", "tokenizer_config.json", "special_tokens_map.json"),
    *("processor_config.json", "preprocessor_config.json", "video_preprocessor_config.json", "chat_template.json"),
    *("model*.index.json", "pytorch_model*.index.json"),
)
ADAPTER = "belongs to an adapter: merge it into its model (merge_and_unload), and save that in its place"
UNFIT = {  # names in the folder, and what is wrong with them
    "custom_generate": "holds code that replaces how the model writes, which is not run: remove it",  # 4.53 would
    "adapter_config.json": ADAPTER,
    "adapter_model.*": ADAPTER,
    "shard-*-model-*.safetensors": "is a part of a distributed run's weights: save the model with save_pretrained",
}
SUMS = "SHA256SUMS"  # beside the files of a checkpoint that a run has made or fetched, as sha256sum writes and reads it
LARGEST = 2**26  # bytes of a configuration
CODE = ("auto_map", "custom_pipelines", "custom_generate")  # keys that name code
# Keys under which a tokenizer takes the path of a file; the files that it needs have names that it knows by itself.
NAMES_A_FILE = re.compile(r".*_files?(_.*)?|.*_(spm|ckpt)|vocab|merges|init_inputs")
OF_TOKENIZERS = ("tokenizer_config.json", "special_tokens_map.json")  # where these keys are looked at
LEFT_OVER = ("special_tokens_map_file", "full_tokenizer_file", "name_or_path", "_name_or_path")  # nobody opens them
IN_THE_FOLDER = ("fast_tokenizer_files", "transformers_weights")  # names within it
KERNELS = ("attn_implementation", "experts_implementation")  # a value with a slash is a repository of code
QUANTIZED = ("quantization_config", "compression_config")
# Counts that a loop runs over while a model is built, and how many are possible whatever its weights hold: layers may
# share weights, and experts, heads and classes may lie side by side in one tensor.
COUNTED = (
    (re.compile(r"(num|n)_.*(layer|block)s?(_.*)?|(.*_)?(layers|depth)"), 100),
    (re.compile(r"(num|n)_.*(expert|stage)s?(_.*)?"), 1_000),
    (re.compile(r"(num|n)_.*(head|group|label)s?(_.*)?"), 1_000_000),
)
LONGEST = 100_000_000  # bytes of the header of safetensors, as the library has it
UNKNOWN = 10_000  # tensors in weights that do not say how many they are


def vet(folder: str | Path) -> None:
    """Raise a `UserError` about a folder that leads out of itself, or whose configurations name files or code."""
    folder, root = Path(folder), _root(folder)
    for path in _everything(folder):
        check_inside(path, root)
        if not path.is_symlink() and not stat.S_ISREG(path.stat().st_mode) and not path.is_dir():
            raise UserError(f"{path} is neither a file nor a folder: remove it")
        for pattern, problem in UNFIT.items() if path.parent == folder else ():
            if fnmatch(path.name, pattern):
                raise UserError(f"{path} {problem}")
    for path in _configurations(folder):
        _check_configuration(path, folder, root)


@contextmanager
def explained(
    what: str, folder: str | Path | None = None, why: Callable[[Exception], str | None] = lambda _: None
) -> Iterator[None]:
    """Turn what a library makes of a stranger's files into one line about `what`; the log file has all of it.

    `why` may know a better line. A block about a whole `folder` takes a few times its weights in memory, and no more.
    """
    with ExitStack() as bounds:
        if folder:
            bounds.enter_context(within_memory(ROOM + 8 * sum(path.stat().st_size for path in weights(folder))))
        try:
            yield
        except (UserError, KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # a panic of a library in Rust is no Exception
            log.debug("%s", what, exc_info=error)
            raise UserError(why(error) or f"{what} ({reason(error)})") from error


def check_counts(folder: str | Path) -> None:
    """Raise a `UserError` about a configuration that counts more layers than the weights beside it can hold."""
    path, held = Path(folder, "config.json"), _tensors(folder)
    for key, value in _parts(read_json(path)):
        least = next((least for pattern, least in COUNTED if pattern.fullmatch(key)), None)
        counts = isinstance(value, int | float) and not isinstance(value, bool)
        if least and counts and not 0 <= value <= max(held, least):
            said = f"{key} is {value:,}, and the weights beside it are {held:,} tensors"
            raise UserError(f"{path}: {said}: correct it, or take another checkpoint")


def weights(folder: str | Path) -> list[Path]:
    """List the files of weights in a folder; those of safetensors if there are any."""
    names = sorted(path for path in Path(folder).iterdir() if path.is_file())
    found: list[Path] = []
    for patterns in WEIGHTS:
        found = found or [path for path in names if any(fnmatch(path.name, pattern) for pattern in patterns)]
    return [path for path in found if path.suffix != ".json"]


def write_sums(folder: str | Path) -> None:
    """Write the digests of a finished folder's files beside them."""
    found = [path for path in _everything(Path(folder)) if path.is_file() and path.name != SUMS]
    write_text(
        Path(folder, SUMS),
        "".join(f"{digest(path)}  {path.relative_to(folder).as_posix()}\n" for path in sorted(found)),
    )


def check_sums(folder: str | Path) -> None:
    """Raise a `UserError` about a file that has changed since `write_sums`; a folder from elsewhere has no digests.

    Reads all files once in a process: again only if one of them looks changed.
    """
    if Path(folder, SUMS).exists():
        stamps = ((path, path.stat()) for path in _everything(Path(folder)))
        _compare(Path(folder), tuple((path, now.st_ino, now.st_size, now.st_mtime_ns) for path, now in stamps))


@lru_cache
def _compare(folder: Path, _as_they_are: tuple) -> None:
    sums = folder / SUMS
    if sums.stat().st_size > LARGEST:
        raise UserError(f"{sums} has {sums.stat().st_size:,} bytes, and is no list of digests: remove it")
    for line in sums.read_text(encoding="utf-8", errors="replace").splitlines():
        known, _, name = line.partition("  ")
        path = folder / name
        if not name or Path(name).is_absolute() or ".." in Path(name).parts:
            raise UserError(f"{sums} is damaged: {_short(line)} is no digest and name; {_remedy(folder)}")
        if not path.is_file():
            raise UserError(f"{path} is missing, and {SUMS} lists it; {_remedy(folder)}")
        if digest(path) != known:
            raise UserError(f"{path} has changed since it was written: its digest in {SUMS} differs; {_remedy(folder)}")


def _remedy(folder: Path) -> str:
    again = "copy it again, or delete the whole folder if a run made it: the next run makes it again"
    return f"{again} (if you changed it yourself, remove {folder / SUMS})"


def drop_code(folder: str | Path) -> None:
    """Take what names code out of the configurations in a folder: nobody shall run it later by trusting this copy."""
    for path in _configurations(Path(folder)):
        said = read_json(path)
        named = [part for key, part in _parts(said) if key in CODE and part]
        if not named:
            continue
        write_json(path, _without(said, CODE))
        log.warning("%s names code of its own (%s): it was not run, and is left out", path.name, _short(named[0]))


def reason(error: BaseException) -> str:
    """Give the first line of what a library says, and not its advice to trust code."""
    if "trust_remote_code" in str(error):
        return "it has code of its own, which is not run: take one that transformers has"
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def _without(value: Any, keys: tuple[str, ...]) -> Any:
    if isinstance(value, list):
        return [_without(part, keys) for part in value]
    if not isinstance(value, dict):
        return value
    return {key: _without(part, keys) for key, part in value.items() if key not in keys}


def _root(folder: Path) -> Path:
    """The folder that nothing may lead out of; in a cache of the hub the weights lie beside the folder."""
    whole = Path(os.path.realpath(folder))
    cached = whole.parent.name == "snapshots" and whole.parent.parent.name.startswith("models--")
    return whole.parent.parent if cached else whole


def _everything(folder: Path) -> Iterator[Path]:
    for parent, folders, names in os.walk(folder):  # does not enter linked folders
        yield from (Path(parent, name) for name in sorted((*folders, *names)))


def _configurations(folder: Path) -> list[Path]:
    return [
        path
        for path in _everything(folder)
        if path.is_file() and any(fnmatch(path.name, pattern) for pattern in CONFIGURATIONS)
    ]


def _check_configuration(path: Path, folder: Path, root: Path) -> None:
    if path.stat().st_size > LARGEST:
        raise UserError(f"{path} has {path.stat().st_size:,} bytes: a configuration has at most {LARGEST:,}")
    said = read_json(path)
    if not isinstance(said, dict):
        raise UserError(f"{path} must hold an object")
    if path.name.endswith(".index.json"):
        listed = said.get("weight_map")
        names = list(listed.values()) if isinstance(listed, dict) else [None]
        for name in names:
            if not _is_plain(name):
                raise UserError(f"{path}: weight_map must name files of its folder, got {_short(name)}")
        return
    kinds = said.get("architectures") or []
    if not isinstance(kinds, list) or not all(isinstance(kind, str) for kind in kinds):
        raise UserError(f"{path}: architectures must be a list of names")
    for key, value in _parts(said):
        where = f"{path}: {key}"
        if key in QUANTIZED and value:
            raise UserError(f"{where}: quantized weights cannot be pruned: take the model before it was quantized")
        if not isinstance(value, str) or not value or key in LEFT_OVER:
            continue
        if key.lstrip("_") in KERNELS and "/" in value:
            raise UserError(f"{where} names code to be downloaded, {_short(value)}: take it out; kernels are not run")
        if key in IN_THE_FOLDER and _is_plain(value):
            continue
        opened = path.name in OF_TOKENIZERS and NAMES_A_FILE.fullmatch(key)
        if opened or key in IN_THE_FOLDER or _leads_out(value, folder, root):
            raise UserError(
                f"{where} names a file, {_short(value)}: take it out; only files of the folder are read, by their names"
            )


def _leads_out(value: str, folder: Path, root: Path) -> bool:
    """Whether a value is the path of a file of this machine that is not in the folder."""
    if "/" not in value or "\0" in value or len(value) > os.pathconf("/", "PC_PATH_MAX"):
        return False
    found = [path for path in (Path(value), folder / value) if os.path.isfile(path)]
    return any(not Path(os.path.realpath(path)).is_relative_to(root) for path in found)


def _is_plain(name: Any) -> bool:
    return isinstance(name, str) and name not in ("", ".", "..") and not {*name} & {*"/\\\0"}


def _parts(value: Any) -> Iterator[tuple[str, Any]]:
    """All values in a JSON value at any depth, with the keys that they stand under; items have that of their list."""
    waiting = [("", value)]
    while waiting:
        key, part = waiting.pop()
        yield key, part
        if isinstance(part, dict):
            waiting += part.items()
        elif isinstance(part, list):
            waiting += ((key, item) for item in part)


def _short(value: Any) -> str:
    said = repr(value)
    return said if len(said) <= 80 else f"{said[:30]}...{said[-47:]}"  # a path is known by its end


def _tensors(folder: str | Path) -> int:
    """Count the tensors in a folder's weights, as the files' own headers list them."""
    return sum(_listed(path) for path in weights(folder))


def _listed(path: Path) -> int:
    if path.suffix == ".bin":
        if not zipfile.is_zipfile(path):
            return UNKNOWN
        with zipfile.ZipFile(path) as archive:
            return sum("/data/" in name for name in archive.namelist())
    with open(path, "rb") as file:
        length = int.from_bytes(file.read(8), "little")
        room = min(path.stat().st_size - 8, LONGEST)
        if room < 0 or length > room:
            raise UserError(f"{path} is damaged or cut short (no header): copy or download it again")
        try:
            header = json.loads(file.read(length))
        except (ValueError, RecursionError) as error:
            raise UserError(f"{path} is damaged or cut short (no header): copy or download it again") from error
    return len(header)
