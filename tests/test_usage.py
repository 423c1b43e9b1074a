"""Wrong input at the command line: status 2, one line that says what is allowed, and nothing written or overwritten."""

import re
import shlex

import pytest
from sweep_folders import cell, make_sweep

from linbet_jax.cli import main
from linbet_jax.simulation import runtime

BOUNDS = "bounds --d 10 --T 2e4 --epsilon 1 --c 3 --b 19 --S 2 --D 3 --L 4"
WRONG = [
    ("figure2", "(see linbet --help)"),
    ("statsu", "did you mean status? (see linbet --help)"),
    ("reproduce figure7", "did you mean figure2? (see linbet reproduce --help)"),
    ("sweep two.toml --dryrun", "arguments: --dryrun; did you mean --dry-run? (see linbet sweep --help)"),
    ("reproduce figure2 --sedes=3", "did you mean --seeds? (see linbet reproduce figure2 --help)"),
    ("--quiet list", "unrecognized arguments: --quiet (see linbet --help)"),
    ("sweep two.toml --keep-extra --drop-extra", "--drop-extra: not allowed with argument --keep-extra"),
    ("reproduce figure2 --seeds 0", "--seeds: must be at least 1, got 0"),
    ("sweep none.toml --out=", "--out: must name a folder, got ''"),
    ("reproduce figure2 --out=", "--out: must name a folder, got ''"),
    ("reproduce coverage --out=", "--out: must name a folder, got ''"),
    ("report none --out=", "--out: must name a folder, got ''"),
    ("reproduce figure2 --seeds ten", "--seeds: must be a whole number, got 'ten'"),
    ("reproduce figure2 --tuning-seeds -1", "--tuning-seeds: must be at least 1"),
    ("reproduce figure2 --horizon 0", "--horizon: must be at least 1"),
    ("reproduce figure2 --horizon 5e9", "--horizon: must be at most 1000000000, got 5e9"),
    ("reproduce figure2 --horizon 1e-4", "--horizon: must be a whole number, got '1e-4'"),
    ("reproduce figure2 --dtype float16", "--dtype: invalid choice"),
    ("reproduce figure2 --device tpu", "--device: invalid choice"),
    ("reproduce figure2 --sets ,", "--sets: must name at least one data set"),
    ("reproduce figure2 --seed 3", "unrecognized arguments: --seed 3"),
    ("reproduce figure2 --quiet --sets S1,S9", "--sets: unknown data set S9: known are S1, S2, S3, S4"),
    ("reproduce figure2 --quiet --horizon 100", "menu on S1: "),
    ("reproduce figure2 --quiet --sets S3 --horizon 20", "menu on S3: "),
    ("reproduce table1 --quiet --sets S0 --out t", "--sets: unknown data set S0"),
    ("reproduce precision --dtype float32", "unrecognized arguments: --dtype float32"),
    ("reproduce table2 --dtype float16", "--dtype: invalid choice: 'float16'"),
    ("reproduce remark3 --seeds 0", "--seeds: must be at least 1, got 0"),
    ("bounds --d 10 --T 300 --epsilon 1 --policy menu", "T=300: MENU at delta=0.1 needs T >= 336"),
    ("bounds --d 1 --T 300 --epsilon 1 --policy lower-bound", "d=1: the lower bound's"),
    ("bounds --d 20 --T 9 --epsilon .05 --policy lower-bound", "T=9: the lower bound needs T >= "),
    ("bounds --d 20 --T 9 --epsilon 1e-9 --policy lower-bound", "needs T > 1e308"),
    ("bounds --d 10 --T 20 --epsilon 1 --policy mom", "needs at least 24 pulls"),
    ("bounds --d 10 --T 300 --epsilon 1 --at 5 301", "--at: 301 is after the horizon"),
    (f"{BOUNDS} --epsilon 1.01", "--epsilon: must be in (0, 1], got '1.01'"),
    (f"{BOUNDS} --epsilon 0", "--epsilon: must be in (0, 1], got '0'"),
    (f"{BOUNDS} --delta 1", "--delta: must be in (0, 1), got '1'"),
    (f"{BOUNDS} --ridge 0", "--ridge: must be in (0, 1e+100], got '0'"),
    (f"{BOUNDS} --b -1", "--b: must be in [0, 1e+100], got '-1'"),
    (f"{BOUNDS} --S nan", "--S: must be in [0, 1e+100], got 'nan'"),
    (f"{BOUNDS} --T 1.5", "--T: must be a whole number, got '1.5'"),
    (f"{BOUNDS} --d ten", "--d: must be a whole number, got 'ten'"),
    (f"{BOUNDS} --policy ucb", "--policy: invalid choice: 'ucb'"),
    ("sweep none.toml --quiet", "none.toml: cannot be read: No such file or directory"),
    ("sweep two.toml --quiet --set seeds=0", "two.toml: seeds = 0: must be a whole number of replications, at least 1"),
    ("sweep two.toml --quiet --device gpu", "--device gpu: JAX finds no GPU on this machine"),  # W6
    ("sweep two.toml --quiet --dtype float16", "invalid choice: 'float16'"),
    ("sweep two.toml --quiet --out two.toml", "two.toml"),
    ("sweep two.toml --dry-run --out two.toml", "two.toml"),
    ("sweep two.toml --dry-run --out swept", "swept holds another run, which differs in"),
    ("status nowhere", "error: nowhere: no such folder"),
    ("report nowhere", "error: nowhere: no such folder"),
    ("status two.toml", "error: two.toml: not a folder"),
    ("report .", "error: . holds no sweep: it has no manifest.json"),
    ("report swept --quiet --out list.json", "--out list.json: File exists"),
    ("report swept --quiet --format svg", "--format: known are html, pdf and png, got 'svg'"),
    ("report swept --quiet --panels 0", "--panels: must be at least 1"),
    ("bench --only speed", "--only: invalid choice: 'speed' (choose from "),
    ("bench --quiet --compare none.json", "--compare none.json: no such file"),
    ("bench --quiet --compare other.json", "other.json: not a results file of linbet bench (format 'linbet-bench-1'"),
    ("bench --quiet --compare list.json", "found 'list')"),
    ("bench --quiet --baseline none.py", "--baseline none.py: no such file"),
    ("bench --quiet --baseline empty.py", "--baseline empty.py: has no POLICIES"),
    ("bench --quiet --baseline broken.py", "--baseline broken.py: SyntaxError: "),
    ("bench --quiet --out list.json", "--out list.json: "),
]
FILES = {
    "arms.csv": "1.0,0.0\n0.0,1.0\n",
    "two.toml": 'seeds = 2\nhorizon = 60\n[sets.small]\narms = "arms.csv"\ntheta_star = [1.0, 0.5]\n'
    'noise = {law = "Pareto", shape = 3.0}\n[policies.oful]\n[policies.greedy]\n',
    "other.json": "{}",
    "list.json": "[]",
    "empty.py": "",
    "broken.py": "def",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """What the commands below find where they run, and must leave as it is."""
    folder = tmp_path_factory.mktemp("here")
    for name, text in FILES.items():
        (folder / name).write_text(text, encoding="utf-8")
    make_sweep(folder / "swept", [cell(seeds=2, records=2)])
    return folder


def contents(folder):
    return {path: path.is_file() and path.read_bytes() for path in folder.rglob("*")}


@pytest.mark.parametrize(("line", "message"), WRONG, ids=[line.replace(BOUNDS, "bounds ...") for line, _ in WRONG])
def test_wrong_input_is_one_line_and_status_2(line, message, folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    # This process has its devices already, and its settings are the tests'.
    monkeypatch.setattr(runtime, "_use_cores", lambda cores: None)
    monkeypatch.setenv("LINBET_COMPILE_CACHE", "off")
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "1")
    before = contents(folder)
    try:
        status = main(shlex.split(line))
    except SystemExit as end:
        status = end.code
    out, err = capsys.readouterr()
    assert (status, out) == (2, "")
    assert re.match(r"(linbet[ a-z0-9]*|bench): error: ", err)
    assert err.count("\n") == 1
    assert message in err
    assert contents(folder) == before
