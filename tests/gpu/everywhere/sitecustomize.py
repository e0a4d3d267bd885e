"""With this folder on PYTHONPATH, every Python process that imports torch has pretended cards (see ../pretended.py)."""

import importlib.abc
import importlib.machinery
import os
import sys
from pathlib import Path


class AfterTorch(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Import torch as usual, then install the cards."""

    def find_spec(self, name, path, target=None):
        if name != "torch":
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        self.real, spec.loader = spec.loader, self
        return spec

    def create_module(self, spec):
        return self.real.create_module(spec)

    def exec_module(self, module):
        # Every Python process comes here, also those of a GPU check that know nothing of tests.
        sys.path.append(str(Path(__file__).resolve().parents[1]))
        sys.meta_path.remove(self)
        module.__spec__.loader = self.real
        import guard  # noqa: F401 - before torch runs

        self.real.exec_module(module)
        import pretended

        pretended.install(int(os.environ.get("PRETENDED_CARDS", "1")))


sys.meta_path.insert(0, AfterTorch())
