"""Rows of all schemes, in small."""

from papers.fpl import accounts
from papers.fpl.accounts import account_rows, case_of, cases
from papers.fpl.setting import FEDAVG, FPL_F1, IMAGES, PAPER_SCHEMES


def test_all_schemes_are_tried_on_the_same(case):
    found = cases(3, is_quick=False)
    assert [one.scheme for one in found] == [*PAPER_SCHEMES, FEDAVG]
    assert {(one.size, one.seed, one.data) for one in found} == {(accounts.LEARN, 3, "emnist")}
    assert case_of(FPL_F1, 0, is_quick=True).data == "digits"


def test_a_scheme_has_a_row_of_what_it_learned_and_four_of_what_it_takes(case, monkeypatch):
    monkeypatch.setattr(accounts, "SCHEMES", (IMAGES, FPL_F1))
    rows = list(account_rows(0, is_quick=True))
    assert [(row["part"], row["scheme"]) for row in rows] == [
        (part, scheme) for scheme in (IMAGES, FPL_F1) for part in ("trained", *4 * ("costs",))
    ]
    assert len({tuple(row) for row in rows}) == 1
    assert rows[0]["num_parameters"] > 0 and rows[0]["seconds"] is None
    assert rows[1]["num_bytes"] > 0 and rows[1]["loss"] is None
