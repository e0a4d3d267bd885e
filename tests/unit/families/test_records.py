"""Records of families: complete, true of a small model of the family, and the only place that knows it by name."""

import ast
import re
import subprocess
import sys

import pytest
import torch
import transformers
from support import ROOT
from transformers import AutoConfig, AutoModel, AutoModelForCausalLM, AutoModelForSequenceClassification

from gnorm import families
from gnorm.data import corpora, tokenizers
from gnorm.engine import training
from gnorm.models import checkpoints, search
from gnorm.models.heads import PARTS, head_map
from gnorm.models.neurons import neuron_map

SIZES = {"vocabulary": 60, "layers": 2, "heads": 4, "width": 32, "feed_forward": 48, "positions": 24}
PADDING = 1


@pytest.fixture(params=families.names())
def family(request) -> families.Family:
    return families.load(request.param)


def build(family, key_heads=SIZES["heads"], **sizes):
    """An untrained model with strong weights, of sizes that only the record says how to ask for."""
    torch.manual_seed(0)
    names = {name: (SIZES | sizes)[key] for key, name in family.dimensions.items()}
    if family.grouped:
        names[family.key_heads] = key_heads
    config = AutoConfig.for_model(family.name, **names, pad_token_id=PADDING, initializer_range=0.25)
    config.use_cache = False
    auto = AutoModelForCausalLM if family.decoder else AutoModelForSequenceClassification
    return auto.from_config(config).double().eval().requires_grad_(False)


def test_its_module_is_named_after_it(family):
    assert families.find(family.name) is family and family.name in transformers.CONFIG_MAPPING
    assert (ROOT / "scripts/gnorm" / families.module(family.name).replace(".", "/")).with_suffix(".py").is_file()


def test_it_says_everything(family):
    layout = family.layout
    assert "{i}" in layout.layer and layout.up and layout.down
    assert all(getattr(layout, part) for part in ("attention", *PARTS))
    assert family.dimensions.keys() == families.DIMENSIONS.keys()
    config = AutoConfig.for_model(family.name)
    said = [*family.dimensions.values(), family.key_heads, family.embedding, family.tied, *family.demands]
    assert {name for name in said if name} <= config.to_dict().keys()
    for name, value in family.demands.items():
        assert getattr(config, name) == value


def test_heads_and_neurons_are_where_it_says(family):
    """The search tries the heads out: whether a head's weights move what that head gives, and nothing else."""
    model = build(family, layers=1 if family.tied else 2)  # a search needs a layer to run once
    heads, neurons = head_map(model), neuron_map(model, 8)
    assert search.confirm(model, heads).blocks == heads.blocks
    assert heads.shape == (1 if family.tied else 2, 4) and neurons.shape == (heads.shape[0], 48 // 8)
    for row, slots in enumerate(neurons.blocks):
        assert len(slots.up) == len(family.layout.up)
        for part in neurons.parts:
            assert neurons.of_slots(model, row, part).shape == (6, 8, 32)


def test_layers_share_weights_where_it_says(family):
    blocks = [block.layers for block in head_map(build(family, layers=3)).blocks]
    assert blocks == ([(0, 1, 2)] if family.tied else [(0,), (1,), (2,)])
    model = build(family, layers=3)
    body = model.get_submodule(model.base_model_prefix)
    weights = sum(layer.weight.numel() for layer in body.modules() if isinstance(layer, torch.nn.LayerNorm))
    one = build(family, layers=1)
    body = one.get_submodule(one.base_model_prefix)
    assert family.rotary or bool(family.tied) == (
        weights == sum(layer.weight.numel() for layer in body.modules() if isinstance(layer, torch.nn.LayerNorm))
    )


def test_attention_gives_its_matrices_second(family):
    model = build(family)
    assert search.gives_attention(model, head_map(model))
    attention = model.get_submodule(head_map(model).blocks[0].attention)
    for name in (*family.layout.counts, *family.layout.sizes, *filter(None, [family.layout.repeats])):
        assert isinstance(getattr(attention, name), int)


def test_decoders_look_back_alone(family):
    model = build(family)
    body = model.get_submodule(model.base_model_prefix)
    ids = torch.arange(5, 14)[None]
    changed = ids.clone()
    changed[0, -1] = 40
    first = [body(input_ids=each)[0][0, 0] for each in (ids, changed)]
    assert torch.equal(*first) == family.decoder == head_map(model).causal


def test_groups_of_query_heads_share_where_it_says(family):
    if not family.grouped:
        assert not hasattr(AutoConfig.for_model(family.name), "num_key_value_heads")
        return
    model = build(family, key_heads=2)
    assert head_map(model).shape == (2, 2) and search.confirm(model, head_map(model)).queries == 2


def test_positions_are_what_it_says(family):
    """Whether they have weights, and where they start."""
    model = build(family)
    tables = [m for n, m in model.named_modules() if isinstance(m, torch.nn.Embedding) and m.num_embeddings == 24]
    assert bool(tables) != family.rotary
    skipped = PADDING + 1 if family.positions_after_padding else 0
    assert checkpoints.positions(model) == SIZES["positions"] - skipped
    body = model.get_submodule(model.base_model_prefix)
    body(input_ids=torch.full((1, SIZES["positions"] - skipped), 7))
    if not family.rotary:
        with pytest.raises((IndexError, RuntimeError)):
            body(input_ids=torch.full((1, SIZES["positions"] - skipped + 1), 7))


@pytest.mark.parametrize("name", families.trainable())
def test_what_is_trained_from_scratch_is_what_the_entry_says(name):
    family = families.load(name)
    corpus = "letters" if family.decoder else "finance"
    drawn = corpora.draw(corpus, 40, seed=0)
    classes = list(corpora.load(corpus).LABELS)
    rows = [{**row, "label": classes.index(row["label_name"]) if classes else None} for row in drawn]
    tokenizer = tokenizers.train(name, [row["text"] for row in rows], 300, 20)
    assert type(tokenizer) is getattr(transformers, family.scratch.tokenizer.wrapper)
    assert [tokenizer.convert_tokens_to_ids(token) for token in family.scratch.tokenizer.special] == list(
        range(len(family.scratch.tokenizer.special))
    )
    entry = {"family": name, "layers": 3, "heads": 4, "width": 32, "feed_forward": 48, "epochs": 1, "batch": 16}
    entry |= {"rate": 0.001} | ({"key_heads": 2} if family.grouped else {})
    model = training.train(entry, tokenizer, rows, classes, 1)
    assert (checkpoints.task_of(model) == "language_model") == family.decoder
    heads, neurons = head_map(model), neuron_map(model, 0)
    assert heads.shape == (1 if family.tied else 3, 2 if family.grouped else 4) and heads.hidden == 32
    assert neurons.width == 48 and checkpoints.positions(model) >= 20
    for setting, value in family.scratch.settings.items():
        assert getattr(model.config, setting) == value


def test_a_model_that_its_record_does_not_describe_is_refused():
    from gnorm.errors import UserError

    family = families.load("albert")
    config = AutoConfig.for_model("albert", hidden_size=8, intermediate_size=8, num_attention_heads=2, vocab_size=9)
    config.inner_group_num = 2
    with pytest.raises(UserError, match="type albert with inner_group_num other than 1 is not supported"):
        head_map(AutoModel.from_config(config))
    assert family.demands


def test_records_need_no_torch():
    program = "import sys; sys.path.insert(0, 'scripts'); from gnorm import families\n"
    program += "assert [families.load(name) for name in families.names()]\n"
    program += "print(sorted({'torch', 'transformers', 'tokenizers', 'numpy'} & set(sys.modules)))"
    made = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert made.stdout.strip() == "[]"


# Where a family may be named: the records, and what is about the paper's models, which are of some family.
ALLOWED = (
    "scripts/gnorm/families/",
    "scripts/gnorm/published/",
    "scripts/gnorm/benchmarks/",  # measures models of the paper's shapes, and has to say of which family, as suites do
)


def of_a_name(node):
    """Whether an expression is the name of a family, or a part of one."""
    if isinstance(node, ast.Constant):
        return isinstance(node.value, str) and len(node.value) > 2 and any(node.value in n for n in families.names())
    return isinstance(node, ast.Name | ast.Attribute) and ast.unparse(node).split(".")[-1] == "family"


def decides(node):
    """Whether it looks at a family's name: compares it, takes it apart or looks something up by it."""
    if isinstance(node, ast.Compare):
        operands = node.left, *node.comparators
        return any(of_a_name(part) for one in operands for part in (one, *getattr(one, "elts", ())))
    if isinstance(node, ast.Subscript):
        return of_a_name(node.slice)
    if isinstance(node, ast.Match):
        return of_a_name(node.subject)
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and of_a_name(node.func.value)


def test_nothing_else_knows_a_family_by_name():
    named = []
    for path in sorted((ROOT / "scripts").rglob("*.py")):
        where = path.relative_to(ROOT).as_posix()
        for node in ast.walk(ast.parse(path.read_text())):
            listed = isinstance(node, ast.Constant) and node.value in families.names()
            if decides(node) if where.startswith(ALLOWED) else listed:
                named.append(f"{where}:{node.lineno}: {ast.unparse(node)}")
    quoted = "|".join(map(re.escape, families.names()))
    for path in (ROOT / "Snakefile", *sorted((ROOT / "rules").glob("*.smk")), *sorted((ROOT / "schemas").glob("*"))):
        named += [f"{path.name}: {match}" for match in re.findall(rf"[\"'\[ ](?:{quoted})[\"',\]]", path.read_text())]
    assert not named


@pytest.mark.parametrize(
    "code",
    ['"roberta" in of.family', 'family == "albert"', 'x in ("bert", y)', "of.family.startswith(x)", "D[of.family]"],
)
def test_a_decision_by_name_is_seen(code):
    assert any(map(decides, ast.walk(ast.parse(code))))
