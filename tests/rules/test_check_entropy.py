"""Published entropy files: joined, compared with the published means, and ranked."""

import check_entropy
import pandas as pd
import pytest
import torch
from support import Malicious

from gnorm.errors import UserError
from gnorm.published import entropies, interchange


def write_means(folder, **files):
    """Files of means, all ones but for what is said."""
    for name, tensor in files.items():
        torch.save(tensor, folder / f"{name}AE.pt")


def make_known(clone, *models):
    """Curves by which a clone knows its models."""
    for model in models:
        (clone / f"experiments_results/pruned_heads_accuracy({model})basedonAE.csv").touch()


def check(folder):
    clone = interchange.scan(folder.parent)
    models = [(m, clone.shards.get(m, []), clone.counted.get(m, []), None) for m in clone.models]
    check_entropy.main(models=models, check_file=folder / "check.csv", ranks_file=folder / "ranks.csv")
    return pd.read_csv(folder / "check.csv"), pd.read_csv(folder / "ranks.csv")


@pytest.fixture
def entropy_folder(tmp_path):
    (tmp_path / "experiments_results").mkdir()
    make_known(tmp_path, "MINE")
    folder = tmp_path / "AE_calculation_results"
    folder.mkdir()
    return folder


def test_shards_are_weighted_by_rows_and_gaps_are_found(entropy_folder):
    a, b = torch.tensor([[1.0, 2.0]]), torch.tensor([[4.0, 0.0]])
    write_means(entropy_folder, MINE0_9=a, MINE12_16=b, MINE_15=(10 * a + 5 * b) / 15)
    checks, ranks = check(entropy_folder)
    row = checks.iloc[0]
    assert (row["rows"], row["rows left out"], row["same"]) == (15, "10-11", True)
    assert ranks[["head", "rank"]].values.tolist() == [[0, 1], [1, 2]]  # 2.0 and 1.33
    write_means(entropy_folder, MINE_15=(a + b) / 2)
    assert not check(entropy_folder)[0]["same"].iloc[0]


@pytest.mark.parametrize(
    "files,said",
    [
        ({"MINE0_9": 1, "MINE9_19": 1}, "MINE9_19AE.pt overlaps with .*MINE0_9AE.pt"),
        ({"MINE0_9": 1, "MINE_12": 1}, "has 12 rows, its shards 10: one of them is short or missing"),
        ({"MINE_5": 1, "MINE_6": 1, "MINE_12": 1}, "MINE_12AE.pt has 12 rows, its shards 11"),
        ({"MINE0_9": 1, "MINE10_19": 2}, r"MINE10_19AE.pt is \(2, 2\), the shards before it are \(1, 2\)"),
    ],
)
def test_shards_that_do_not_fit_are_named(entropy_folder, files, said):
    write_means(entropy_folder, **{name: torch.ones(rows, 2) for name, rows in files.items()})
    with pytest.raises(UserError, match=said):
        check(entropy_folder)


def test_tied_heads_are_ranked_once(tmp_path):
    for step, tied in ((12, True), (1, False)):
        curve = tmp_path / f"{step}.csv"
        pd.DataFrame({"Pruned_Heads": range(0, 145, step), "Accuracy": 0.5}).to_csv(curve, index=False)
        assert entropies.tied(curve, 12) == tied
    assert not entropies.tied(None, 12)
    ranks = entropies.ranks(torch.tensor([[1.0, 2.0], [4.0, 2.0]]), tied=True)
    assert ranks == [(0, 0, 2.5, 1), (0, 1, 2.0, 2)]


def test_a_file_with_code_in_it_is_refused(entropy_folder, tmp_path):
    torch.save(Malicious(tmp_path / "ran"), entropy_folder / "MINE0_9AE.pt")
    with pytest.raises(UserError, match="MINE0_9AE.pt"):
        check(entropy_folder)
    assert not (tmp_path / "ran").exists()


def test_names_of_models_that_end_in_digits(entropy_folder):
    """`GPT20_7AE.pt` has rows 0 to 7 of GPT2, not rows 20 to 7 of GPT."""
    make_known(entropy_folder.parent, "GPT2", "M", "M_2", "M-0", "7")
    written = {f"{model}{rows}": torch.ones(1, 2) for model in ("GPT2", "M_2", "M-0", "7") for rows in ("0_7", "_8")}
    write_means(entropy_folder, **written, M_8=torch.ones(1, 2))
    found = interchange.scan(entropy_folder.parent)
    for model in ("GPT2", "M_2", "M-0", "7"):
        assert [path[:2] for path in found.shards[model]] == [(0, 7)] and found.counted[model][0][0] == 8
    assert "GPT" not in found.models and "M" not in found.shards and found.counted["M"][0][0] == 8


@pytest.mark.fault(
    "a published entropy file may be of two models, or of none that is known", "refused; the file is named"
)
def test_files_of_models_that_cannot_be_told(entropy_folder, record_property):
    make_known(entropy_folder.parent, "GPT", "GPT2")
    tried = {
        "GPT20_63": "may be of GPT or of GPT2",
        "NEW0_9": r"no model's name that is known there \(ALBERT, BERT, GPT,",
    }
    for name, said in tried.items():
        write_means(entropy_folder, **{name: torch.ones(1, 2)})
        with pytest.raises(UserError, match=f"published: .*{name}AE.pt .*{said}"):
            interchange.scan(entropy_folder.parent)
        (entropy_folder / f"{name}AE.pt").unlink()
    record_property("tried", len(tried))


def test_results_know_their_models_before_there_is_a_curve(entropy_folder):
    (entropy_folder.parent / "GPT2").mkdir()
    (entropy_folder.parent / "GPT2/heads.json").write_text("{}")
    write_means(entropy_folder, GPT20_63=torch.ones(1, 2))
    assert [path[:2] for path in interchange.scan(entropy_folder.parent).shards["GPT2"]] == [(0, 63)]
