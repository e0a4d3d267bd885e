"""Print the exact versions of the environment that runs this, as a file of constraints: `make lock` writes them."""

import importlib.metadata
import re

# Come with a GPU build of torch only: a lock without them serves every machine.
PLATFORM = re.compile(r"nvidia-.*|cuda-.*|triton|pytorch-triton.*")


def lock(installed: dict[str, str]) -> dict[str, str]:
    """Package -> version, as every machine has them: by normalized names, without builds (`2.13.0+cpu`)."""
    names = {re.sub(r"[-_.]+", "-", name).lower(): version.split("+")[0] for name, version in installed.items()}
    return {name: names[name] for name in sorted(names) if name != "pip" and not PLATFORM.fullmatch(name)}


def installed() -> dict[str, str]:
    return {one.metadata["Name"]: one.version for one in importlib.metadata.distributions()}


if __name__ == "__main__":
    print("# What a fresh environment has, pip left out. Written by `make lock`, followed by every recipe.")
    for name, version in lock(installed()).items():
        print(f"{name}=={version}")
