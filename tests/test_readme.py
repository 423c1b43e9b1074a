"""The README's findings are those of the committed run."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
TABLE = (ROOT / "benchmarks" / "results" / "table.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(("name", "pair"), [("S1", "MENU"), ("S2", "MENU"), ("S3", "TOFU"), ("S4", "TOFU")])
def test_every_claim_s_numbers_are_in_the_table(name, pair):
    (row,) = re.findall(rf"^\| {name}: {pair} beats .*$", README, re.MULTILINE)
    found = re.findall(r"(-?[\d,.]+) (\[-?[\d,.]+, -?[\d,.]+\])", row)
    assert len(found) == 2
    for number, interval in found:
        assert any(number in line and interval in line for line in TABLE.splitlines() if name in line), (
            number,
            interval,
        )


@pytest.mark.parametrize("path", re.findall(r"\]\((benchmarks/[^)]+)\)", README))
def test_linked_files_exist(path):
    assert (ROOT / path).exists()
