"""The README files: what they show runs, their tables are those of the code, their numbers those committed."""

import argparse
import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import readmes

import linbet_jax as lb
from linbet_jax import kernels, noise, policies
from linbet_jax.bandits.datasets import DATASETS
from linbet_jax.cli.parser import build_parser
from linbet_jax.errors import InputError
from linbet_jax.statistics import regret
from linbet_jax.sweep import read
from linbet_jax.sweep.schema import CellTable, Document, PolicyTable, SetTable

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
FILES = readmes.readmes(ROOT)
TEXTS = {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in FILES}


def room(name):
    return TEXTS[f"linbet_jax/{name}/README.md"]


def section(text, title):
    """What stands below a heading, up to the next one."""
    (found,) = re.findall(rf"^#+ {re.escape(title)}\n(.*?)(?=^#|\Z)", text, re.MULTILINE | re.DOTALL)
    return found


def rows(text):
    """The cells of every row of a text's tables, heads and rules left out."""
    lines = [line for line in re.sub(r"```.*?```", "", text, flags=re.DOTALL).splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]
    rules = [place for place, line in enumerate(lines) if set(line) <= set("|-: ")]
    return [row for place, row in enumerate(cells) if place not in rules and place + 1 not in rules]


# The code


@pytest.mark.timeout(280)
def test_what_the_readmes_say_runs(tmp_path):
    command = [sys.executable, str(ROOT / "tests" / "readmes.py"), str(ROOT)]
    # Most of the time goes into compiling, and nothing here is long enough to repay what makes programs fast.
    environment = {**os.environ, "MPLBACKEND": "Agg", "JAX_DISABLE_MOST_OPTIMIZATIONS": "1"}
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=270, check=False
    )
    assert done.returncode == 0, done.stderr
    (first, *others) = re.split(r"^== .*\n", done.stdout, flags=re.MULTILINE)[1:]
    assert len(others) == len(FILES) - 1
    promised = re.findall(r"^# (radius x.*)$", TEXTS["README.md"], re.MULTILINE)
    printed = first.splitlines()[: len(promised)]
    assert len(promised) == 2
    for ours, theirs in zip(promised, printed, strict=True):
        numbers = [[float(n) for n in re.findall(r"[\d.]+", line)] for line in (ours, theirs)]
        assert re.sub(r"[\d.]+", "", ours) == re.sub(r"[\d.]+", "", theirs)
        assert numbers[1] == pytest.approx(numbers[0], rel=0.1)  # the last bits of float32 are the machine's


def test_every_block_has_a_language_that_is_run_or_shown():
    for path, text in TEXTS.items():
        assert len(re.findall(r"^```", text, re.MULTILINE)) == 2 * len(readmes.blocks(text)), path
        assert {language for language, _ in readmes.blocks(text)} <= {"python", "bash", "toml", "text", "bibtex"}, path


@pytest.mark.parametrize(
    "block", [block for text in TEXTS.values() for kind, block in readmes.blocks(text) if kind == "toml"]
)
def test_every_sweep_file_is_toml_and_named(block):
    assert tomllib.loads(block)
    assert re.match(r"# \w+\.toml\n", block)


# The layout


def test_the_first_page_stays_short():
    assert len(TEXTS["README.md"].splitlines()) <= 170


def anchors(path):
    """The anchors of a file's headings, as GitHub makes them."""
    titles = re.findall(r"^#+ (.*)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("path", FILES, ids=list(TEXTS))
def test_every_link_leads_somewhere(path):
    text = re.sub(r"```.*?```", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    links = re.findall(r"\]\(([^)\s]+)\)", text)
    for link in links:
        name, _, anchor = link.partition("#")
        target = (path.parent / name).resolve() if name else path
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


def test_the_first_page_leads_to_every_other():
    for path in TEXTS:
        assert path == "README.md" or f"({path}" in TEXTS["README.md"], path


# The tables


def policy_table():
    """The README's table of policies, from the registry."""
    lines = []
    for name in policies.names():
        entry = policies.entry(name)
        if entry.make.__module__.startswith("linbet_jax."):  # not what another test registers
            about = (entry.source, entry.assumption, entry.sets, entry.regret, entry.valid, entry.time)
            lines.append(f"| `{name}` | {entry.label} | {' | '.join(fact or '–' for fact in about)} |")
    return lines


def test_the_table_of_policies_is_the_registry_s():
    table = section(TEXTS["README.md"], "Policies")
    assert [line for line in table.splitlines() if line.startswith("| `")] == policy_table()


@pytest.mark.parametrize(
    ("title", "model"),
    [
        ("The whole file", Document),
        ("One set: `[sets.NAME]`", SetTable),
        ("One policy: `[policies.NAME]`", PolicyTable),
        ("A single cell: `[[cells]]`", CellTable),
    ],
)
def test_every_field_of_a_sweep_file_has_its_row(title, model):
    assert [row[0] for row in rows(section(room("sweep"), title))] == [f"`{name}`" for name in model.model_fields]


LAW = {"law": "StudentT", "df": 3.0}
KINDS = {  # the least that a set of each kind says
    "S1–S4": {"set": "S3"},
    "uniform": {"set": "uniform", "K": 3, "d": 2, "noise": LAW},
    "lower-bound": {"set": "lower-bound", "d": 2, "epsilon": 0.5},
    "separating": {"set": "lock"},
    "arms": {"arms": "a.csv", "theta_star": [1.0, 0.0], "noise": LAW},
    "own": {"set": "mine:make"},
}
VALUES = {  # one that each field takes
    "gap": 0.5, "angle": 60.0, "length": 0.5, "probability": 0.5,
    "instance_seed": 1, "resample": True, "noise": LAW, "drift": {"path": "jumping", "every": 9},
    "epsilon": 0.5, "K": 3, "d": 2, "best_mean": 1.0,
    "arms": "a.csv", "theta_star": [1.0, 0.0], "options": {"K": 3}, "horizon": 500,
}  # fmt: skip


def inline(value):
    """A value as TOML writes it."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{name} = {inline(entry)}" for name, entry in value.items()) + " }"
    return json.dumps(value)


def refusal(folder, values):
    """Why a sweep file with this set is refused; empty where it is read."""
    lines = [f"{name} = {inline(value)}" for name, value in values.items()]
    path = folder / "x.toml"
    path.write_text("\n".join(["horizon = 500", "[policies.crt]", "[sets.x]", *lines]), encoding="utf-8")
    try:
        read(path)
    except InputError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("kind", KINDS)
def test_each_field_goes_with_the_kinds_of_sets_that_its_row_names(tmp_path, kind):
    base = KINDS[kind]
    for row in rows(section(room("sweep"), "One set: `[sets.NAME]`")):
        field, named = row[0].strip("`"), row[-1].replace("*", "").split(", ")
        if field == "set":
            continue
        assert set(named) <= set(KINDS)
        message = refusal(tmp_path, {**base, field: VALUES.get(field, 9.0)})
        assert (message == "") == (kind in named), (field, message)
        left = {name: value for name, value in base.items() if name != field}
        needed = f"x.{field}: is missing" in refusal(tmp_path, left)
        assert needed == (f"**{kind}**" in row[-1]), field


@pytest.mark.parametrize("field", ["seeds", "key", "dtype", "device"])
def test_defaults_of_a_sweep_file_are_those_of_the_schema(field):
    (row,) = (row for row in rows(section(room("sweep"), "The whole file")) if row[0] == f"`{field}`")
    default = Document.model_fields[field].default
    assert row[-1].strip("`") == (f'"{default}"' if isinstance(default, str) else str(default))


def test_every_option_of_every_policy_has_its_row():
    text = room("policies")
    for name in policies.names():
        if policies.entry(name).make.__module__.startswith("linbet_jax."):
            found = {row[0].strip("`"): row[1].strip("`") for row in rows(section(text, name))}
            assert found == {option: repr(default) for option, default in policies.options(name).items()}, name
    assert [row[0] for row in rows(section(text, "All policies"))] == [
        f"`{name}`" for name in ("horizon", "delta", "ridge", "radius_scale")
    ]


def test_every_field_of_a_policy_has_its_row():
    assert [row[0].strip("`") for row in rows(section(room("policies"), "Written out"))] == list(lb.Policy._fields)


def test_every_kernel_law_statistic_and_data_set_is_listed():
    first = {name: [row[0] for row in rows(room(name))] for name in ("kernels", "noise", "statistics", "bandits")}
    for name in kernels.__all__:
        assert f"`{name}`" in (first["kernels"] if name[0].islower() else room("kernels")), name
    for name in noise.__all__:
        if hasattr(getattr(noise, name), "__dataclass_fields__"):
            assert any(cell.startswith(f"`{name}(") for cell in first["noise"]), name
    for name in regret.__all__:
        assert f"`{name}`" in (" ".join(first["statistics"]) if name[0].islower() else room("statistics")), name
    for name, spec in DATASETS.items():
        (row,) = (row for row in rows(room("bandits")) if row[0] == name)
        assert [float(cell.replace(" ", "")) for cell in (row[1], row[2], *row[4:7])] == [
            spec.num_arms, spec.dim, spec.epsilon, spec.best_mean, spec.horizon
        ]  # fmt: skip


def flags(parser):
    """Every command and option below a parser."""
    for action in parser._actions:
        yield from (flag for flag in action.option_strings if flag.startswith("--") and flag != "--help")
        if isinstance(action, argparse._SubParsersAction):
            for name, command in action.choices.items():
                yield name
                yield from flags(command)


def test_every_command_and_option_is_listed():
    text = section(room("cli"), "The command line")
    for flag in set(flags(build_parser())):
        assert re.search(rf"(?<![\w-]){flag}(?![\w-])", text), flag


# The numbers


@pytest.mark.parametrize(("name", "pair"), [("S1", "MENU"), ("S2", "MENU"), ("S3", "TOFU"), ("S4", "TOFU")])
def test_every_claim_s_numbers_are_in_the_table(name, pair):
    table = (RESULTS / "table.md").read_text(encoding="utf-8")
    (row,) = re.findall(rf"^\| {name}: {pair} beats .*$", TEXTS["benchmarks/results/README.md"], re.MULTILINE)
    found = re.findall(r"(-?[\d,.]+) (\[-?[\d,.]+, -?[\d,.]+\])", row)
    assert len(found) == 2
    for number, interval in found:
        assert any(number in line and interval in line for line in table.splitlines() if name in line), (
            number,
            interval,
        )


def test_the_first_page_s_speeds_are_those_of_the_whole_table():
    whole = section(TEXTS["benchmarks/README.md"], "What is compared").splitlines()
    short = [line for line in section(TEXTS["README.md"], "Speed").splitlines() if "×" in line]
    assert len(short) == 4
    assert set(short) <= set(whole)
