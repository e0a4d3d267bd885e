"""Pretended CUDA cards, for machines without one: values are computed on the CPU, in tensors that say `cuda:0`.

`install` makes torch believe in the cards for the rest of the process; `on_cpu` hides them for a while. As on CUDA,
operations refuse tensors of two devices, cuBLAS refuses deterministic mode without CUBLAS_WORKSPACE_CONFIG, operations
without a deterministic kernel refuse it too, memory runs out, the card draws random numbers of its own, and
`torch.cuda.set_sync_debug_mode("warn")` warns wherever the host waits for the card.

Not pretended: speed, kernels (attention takes torch's plain path, optimizers work tensor by tensor), and differences
between two runs of a kernel that is not deterministic.

Import this module before torch: torch asks for a card's hooks once. It needs g++ (see card.cpp).
"""

from __future__ import annotations

import os
import sys
import warnings
import weakref
from collections import Counter
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import guard  # isort: split

# After the guard: torch asks for it once.
import torch
from torch.utils._device import _device_constructors
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map_only, tree_unflatten


class Card:
    """One card: its memory, and its own random numbers."""

    def __init__(self, index: int, memory: int):
        self.index, self.memory = index, memory
        self.live = self.peak = 0
        self.users: Counter[int] = Counter()  # tensors of each block of memory
        self.drawn = torch.Generator().manual_seed(index).get_state()

    def hold(self, tensor: torch.Tensor) -> None:
        """Count a tensor's memory until it is gone."""
        block = tensor.untyped_storage()
        key, size = block._cdata, block.nbytes()
        if not self.users[key]:
            if self.live + size > self.memory:
                del self.users[key]
                raise torch.OutOfMemoryError(f"CUDA out of memory. Tried to allocate {size} bytes (pretended)")
            self.live += size
            self.peak = max(self.peak, self.live)
        self.users[key] += 1
        weakref.finalize(tensor, self._let_go, key, size)

    def _let_go(self, key: int, size: int) -> None:
        self.users[key] -= 1
        if not self.users[key]:
            del self.users[key]
            self.live -= size


CARDS: list[Card] = []
NOW = SimpleNamespace(card=0, there=False, warns=False)
USED: Counter[str] = Counter()  # operations of the cards, by name
DOUBLE: Counter[str] = Counter()  # elements that they computed in float64


class OnCard(torch.Tensor):
    """A tensor of a card, around the CPU tensor that has its values."""

    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, inner: torch.Tensor, card: int, requires_grad: bool = False):
        CARDS[card].hold(inner)
        made = torch.Tensor._make_wrapper_subclass(
            cls,
            inner.size(),
            strides=inner.stride(),
            storage_offset=inner.storage_offset(),
            dtype=inner.dtype,
            device=torch.device("cuda", card),
            requires_grad=requires_grad,
        )
        made.inner, made.card = inner, card
        return made

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        return _run(func, args, kwargs or {})

    def __deepcopy__(self, memo):
        if id(self) not in memo:
            memo[id(self)] = OnCard(self.inner.detach().clone(), self.card, self.requires_grad)
            memo[id(self)]._is_param = getattr(self, "_is_param", False)
        return memo[id(self)]

    def __reduce_ex__(self, protocol):  # tensors are always loaded to the CPU
        return self.inner.detach().__reduce_ex__(protocol)

    def __repr__(self, **_options):
        return f"OnCard({self.inner!r}, card={self.card})"

    def numpy(self, *, force: bool = False):
        raise TypeError("can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu() to copy it first.")

    __array__ = numpy

    def tolist(self):
        _waits()
        return self.inner.detach().tolist()

    def untyped_storage(self):
        return self.inner.untyped_storage()

    def data_ptr(self):
        return self.inner.data_ptr()


COPIES = {"_to_copy", "copy_"}
INDEXED = {"index", "index_put", "index_put_", "_index_put_impl_", "_unsafe_index", "_unsafe_index_put"}
SCALARS = {"fill_", "fill", "where", "masked_fill", "masked_fill_", "lerp", "lerp_"}  # take a number from the host
MULTIPLY = {"mm", "addmm", "bmm", "baddbmm", "addbmm", "mv", "addmv", "dot", "vdot"}  # by cuBLAS
WAIT = {"nonzero", "masked_select", "_unique2", "unique_dim", "unique_consecutive", "equal", "bincount", "histc"}

# Without a deterministic CUDA kernel, as the documentation of torch.use_deterministic_algorithms lists them; some only
# for some arguments. A test compares this with the list of the torch that is installed.
NEVER = {
    *("avg_pool3d_backward", "_adaptive_avg_pool2d_backward", "_adaptive_avg_pool3d_backward"),
    *("adaptive_max_pool2d_backward", "fractional_max_pool2d_backward", "fractional_max_pool3d_backward"),
    *("max_unpool2d", "max_unpool3d", "reflection_pad1d_backward", "reflection_pad2d_backward"),
    *("reflection_pad3d_backward", "upsample_linear1d_backward", "upsample_bilinear2d_backward"),
    *("upsample_bicubic2d_backward", "upsample_trilinear3d_backward", "_ctc_loss_backward"),
    *("grid_sampler_2d_backward", "grid_sampler_3d_backward", "histc", "put_", "put"),
}
SOMETIMES = {
    "nll_loss2d_forward": lambda args, kwargs: args[3] != 0,  # some reduction
    "_embedding_bag_dense_backward": lambda args, kwargs: args[7] == 2,  # the largest
    "bincount": lambda args, kwargs: len(args) > 1 and args[1] is not None,  # weights
    "median.dim": lambda args, kwargs: True,
    "cumsum": lambda args, kwargs: args[0].is_floating_point(),
    "cumsum_": lambda args, kwargs: args[0].is_floating_point(),
    "scatter_reduce": lambda args, kwargs: args[4] == "prod",
    "scatter_reduce_": lambda args, kwargs: args[4] == "prod",
}


def _waits() -> None:
    """The host waits for the card: say where, as torch does if it is asked to, by the innermost line of Python."""
    if not NOW.warns:
        return
    frame = caller = sys._getframe(1)
    while (file := frame.f_code.co_filename) == __file__ or Path(file).is_relative_to(guard.TORCH):
        frame = frame.f_back
        caller = frame if file == __file__ else caller  # what is torch's between lines of this module is not the caller
    said = "called a synchronizing CUDA operation (pretended)"
    warnings.warn_explicit(said, UserWarning, caller.f_code.co_filename, caller.f_lineno)


def _run(func, args, kwargs):
    name = func._schema.name.removeprefix("aten::")
    flat, spec = tree_flatten((args, kwargs))
    there = [t for t in flat if isinstance(t, OnCard)]
    here = [t for t in flat if isinstance(t, torch.Tensor) and not isinstance(t, OnCard)]
    target = torch.device(kwargs["device"]) if kwargs.get("device") is not None else None
    made_there = target is not None and target.type == "cuda"
    if not there and not made_there:
        return func(*args, **kwargs)
    if name != "scaled_dot_product_attention" and func._can_decompose():
        with MODE:
            made = func.decompose(*args, **kwargs)
        if made is not NotImplemented:
            return made
    card = there[0].card if there else NOW.card
    if made_there and target.index is not None:
        card = target.index
    _refuse(func, name, args, kwargs, there, here)
    USED[name] += 1
    if name == "_local_scalar_dense":
        _waits()
        return func(there[0].inner)
    if name in WAIT or (name == "repeat_interleave" and kwargs.get("output_size") is None):
        _waits()
    if name in INDEXED:
        masks = [t for t in args[1] if isinstance(t, torch.Tensor) and t.dtype in (torch.bool, torch.uint8)]
        filled = name != "index" and args[2].numel() == 1  # torch takes masked_fill
        for t in [t for t in args[1] if isinstance(t, torch.Tensor)]:
            if not isinstance(t, OnCard) or (masks and t is masks[0] and not filled):
                _waits()
    inner_args, inner_kwargs = tree_unflatten([t.inner if isinstance(t, OnCard) else t for t in flat], spec)
    if name == "_to_copy":
        return _copied(args[0], inner_args[0], inner_kwargs, target, card)
    if (
        name == "copy_"
        and isinstance(args[0], OnCard) != isinstance(args[1], OnCard)
        and not kwargs.get("non_blocking")
    ):
        _waits()
    if made_there:
        inner_kwargs["device"] = torch.device("cpu")
    with _drawn_by(CARDS[card]) if torch.Tag.nondeterministic_seeded in func.tags else _nothing():
        made = func(*inner_args, **inner_kwargs)
    if target is not None and target.type == "cpu":
        return made
    if isinstance(made, torch.Tensor) and made.dtype == torch.float64 and not func.is_view:
        DOUBLE[name] += max(t.numel() for t in (made, *there))
    known = {id(t.inner): t for t in there} | {id(t): t for t in here}  # what an operation changes in place
    return tree_map_only(torch.Tensor, lambda t: known[id(t)] if id(t) in known else OnCard(t, card), made)


def _refuse(func, name, args, kwargs, there, here) -> None:
    """Raise where CUDA would."""
    if len({t.card for t in there}) > 1 and name not in COPIES:
        raise RuntimeError(f"Expected all tensors to be on the same device, but found two cards in {func} (pretended)")
    if there and here and name not in COPIES:
        if name in INDEXED and isinstance(args[0], OnCard):
            allowed = len(args) < 3 or isinstance(args[2], OnCard) or args[2].dim() == 0
        else:
            allowed = all(t.dim() == 0 for t in here) and (torch.Tag.pointwise in func.tags or name in SCALARS)
        if not allowed:
            shapes = [(tuple(t.shape), str(t.device)) for t in (*there, *here)]
            raise RuntimeError(
                "Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu! "
                f"(pretended, in {func}: {shapes})"
            )
    if kwargs.get("generator") is not None and kwargs["generator"].device.type != "cuda":
        raise RuntimeError("Expected a 'cuda' device type for generator but found 'cpu'")
    if not torch.are_deterministic_algorithms_enabled() or torch.is_deterministic_algorithms_warn_only_enabled():
        return
    if name in MULTIPLY and os.environ.get("CUBLAS_WORKSPACE_CONFIG") not in (":4096:8", ":16:8"):
        raise RuntimeError(
            "Deterministic behavior was enabled with either `torch.use_deterministic_algorithms(True)` or "
            "`at::Context::setDeterministicAlgorithms(true)`, but this operation is not deterministic because it uses "
            "CuBLAS and you have CUDA >= 10.2. (pretended)"
        )
    only_if = SOMETIMES.get(name) or SOMETIMES.get(f"{name}.{func._overloadname}")
    if name in NEVER or (only_if and only_if(args, kwargs)):
        raise RuntimeError(f"{name} does not have a deterministic implementation, but you set ... (pretended)")


def _copied(source, inner, options, target, card):
    """A copy to or from the card, or one on it in another type."""
    was, goes = isinstance(source, OnCard), target is None or target.type == "cuda"
    if was != goes and not options.pop("non_blocking", False):
        _waits()
    options = {key: value for key, value in options.items() if key not in ("device", "non_blocking")}
    with torch._C._ExcludeDispatchKeyGuard(torch._C.DispatchKeySet(torch._C.DispatchKey.ADInplaceOrView)):
        made = torch.ops.aten._to_copy.default(inner, **options) if options else inner.clone()
    return OnCard(made, card) if goes and (was or target is not None) else made


@contextmanager
def _drawn_by(card: Card):
    before = torch.get_rng_state()
    torch.set_rng_state(card.drawn)
    try:
        yield
    finally:
        card.drawn = torch.get_rng_state()
        torch.set_rng_state(before)


@contextmanager
def _nothing():
    yield


class Mode(TorchDispatchMode):
    """Sees what has no tensor of the card yet: copies to it, and tensors made there."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return _run(func, args, kwargs or {})


MODE = Mode()


def _card(device=None) -> Card:
    if device is None or device == "cuda":
        return CARDS[NOW.card]
    return CARDS[device if isinstance(device, int) else torch.device(device).index or 0]


def _seed(value: int) -> None:
    for card in CARDS:
        card.drawn = torch.Generator().manual_seed(int(value) + 1 + card.index).get_state()


def _set_drawn(state: torch.Tensor, device=None) -> None:
    if state.device.type != "cpu":
        raise TypeError("RNG state must be a torch.ByteTensor")
    _card(device).drawn = state.clone()


def _set_card(device) -> None:
    NOW.card = _card(device).index


def install(cards: int = 1, memory_mb: int = 4096) -> None:
    """Make torch believe in so many cards, in this thread, for the rest of the process."""
    CARDS[:] = [Card(index, memory_mb * 2**20) for index in range(cards)]
    os.environ["PRETENDED_CARDS"] = str(cards)
    host = os.environ.get("PRETENDED_HOST", os.getpid())  # processes with the same one share their cards
    stands_in = {
        "_lazy_init": lambda: None,
        "is_available": lambda: NOW.there,
        "is_initialized": lambda: NOW.there,
        "device_count": lambda: len(CARDS) if NOW.there else 0,
        "current_device": lambda: NOW.card,
        "set_device": _set_card,
        "get_device_name": lambda device=None: "pretended card",
        "get_device_capability": lambda device=None: (8, 0),
        "get_arch_list": lambda: ["sm_75", "sm_80", "sm_90"],
        "get_device_properties": lambda device=None: SimpleNamespace(
            name="pretended card", uuid=f"pretended-{host}-{_card(device).index}",
            total_memory=_card(device).memory, major=8, minor=0, multi_processor_count=1,
        ),
        "is_bf16_supported": lambda *_, **__: True,
        "mem_get_info": lambda device=None: (_card(device).memory - _card(device).live, _card(device).memory),
        "memory_allocated": lambda device=None: _card(device).live,
        "memory_reserved": lambda device=None: _card(device).live,
        "max_memory_allocated": lambda device=None: _card(device).peak,
        "reset_peak_memory_stats": lambda device=None: setattr(_card(device), "peak", _card(device).live),
        "empty_cache": lambda: None,
        "synchronize": lambda device=None: None,
        "manual_seed": _seed,
        "manual_seed_all": _seed,
        "get_rng_state": lambda device=None: _card(device).drawn.clone(),
        "set_rng_state": _set_drawn,
        "set_sync_debug_mode": lambda mode: setattr(NOW, "warns", mode in ("warn", 1)),
        "get_sync_debug_mode": lambda: int(NOW.warns),
    }  # fmt: skip
    for name, stand_in in stands_in.items():
        setattr(torch.cuda, name, stand_in)
    torch.version.cuda = "13.0"
    torch.__future__.set_swap_module_params_on_conversion(True)  # so that Module.to keeps tied weights tied
    torch.inference_mode = lambda mode=True: torch.no_grad()  # a wrapper cannot be an inference tensor
    _device_constructors()  # kept from now on: `with torch.device("meta")` must know the real torch.tensor
    plain = torch.tensor

    def tensor(data, *, device=None, **options):  # torch builds it with modes off, and then moves it
        made = plain(data, **options)
        return made if device is None else made.to(device)

    torch.tensor = tensor
    MODE.__enter__()
    NOW.there = True


@contextmanager
def on_cpu():
    """The cards are not there for a while."""
    MODE.__exit__(None, None, None)
    NOW.there = False
    try:
        yield
    finally:
        NOW.there = True
        MODE.__enter__()
