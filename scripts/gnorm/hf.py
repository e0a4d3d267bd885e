"""Load pruned models with plain transformers.

    import gnorm.hf
    from transformers import AutoModelForSequenceClassification

    model = AutoModelForSequenceClassification.from_pretrained("solutions/BERT/checkpoint")

The import costs nothing before transformers is used, and the order of the two imports does not matter. Models that are
not pruned load as ever.
"""

from __future__ import annotations

import functools
import importlib.abc
import importlib.machinery
import sys
from types import ModuleType

MODULE = "transformers.modeling_utils"


def _teach(modeling: ModuleType) -> None:
    """Make `PreTrainedModel` cut what a configuration says is gone."""
    original = modeling.PreTrainedModel.post_init

    @functools.wraps(original)
    def post_init(self) -> None:
        from gnorm.models.rebuild import finish  # when the first model is built: it imports torch

        finish(self, original)

    post_init.cuts = True
    modeling.PreTrainedModel.post_init = post_init


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds transformers' module of models once, as Python would, and teaches it when it has been imported."""

    def find_spec(self, name, path, target=None):
        if name != MODULE:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is not None:
            self.loader, spec.loader = spec.loader, self
        return spec

    def create_module(self, spec):
        return self.loader.create_module(spec)

    def exec_module(self, module):
        sys.meta_path.remove(self)
        module.__spec__.loader = module.__loader__ = self.loader
        self.loader.exec_module(module)
        _teach(module)


if MODULE in sys.modules:
    _teach(sys.modules[MODULE])
else:
    sys.meta_path.insert(0, _Finder())
