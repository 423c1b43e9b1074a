"""The command line: answers quickly (case W5), refuses in one line (W6 among others), prints what it should."""

import importlib.util
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

import linbet_jax
from linbet_jax.cli import listing, main
from linbet_jax.cli.parser import build_parser
from linbet_jax.statistics.tables import duration

HELPS = ([], ["reproduce"], ["reproduce", "figure2"], ["reproduce", "table1"], ["list"], ["report"])
HEAVY = ("jax", "jaxlib", "numpy", "scipy", "matplotlib", "rich")


def linbet(*arguments, cwd, timeout=200, **environment):
    return subprocess.run(
        [sys.executable, "-m", "linbet_jax", *arguments],
        capture_output=True,
        text=True,
        timeout=timeout,
        cwd=cwd,
        env={**os.environ, "JAX_DISABLE_MOST_OPTIMIZATIONS": "true", "PYTHONIOENCODING": "utf-8", **environment},
        check=False,
    )


@pytest.mark.parametrize("arguments", HELPS, ids=" ".join)
def test_help_is_quick_and_imports_nothing_heavy(arguments, tmp_path):  # W5
    code = f"""
import sys
from linbet_jax.cli import main
try:
    main({[*arguments, "--help"]!r})
finally:
    print([name for name in {HEAVY} if name in sys.modules], file=sys.stderr)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 0
    assert done.stdout.startswith("usage: linbet")
    assert done.stderr == "[]\n"

    def seconds():
        begun = time.perf_counter()
        assert linbet(*arguments, "--help", cwd=tmp_path).returncode == 0
        return time.perf_counter() - begun

    # The best of a few: the machine may be busy with other tests.
    assert any(seconds() < 0.5 for _ in range(8))


@pytest.mark.parametrize("flag", ["--version", "-V"])
def test_version(flag, capsys):
    with pytest.raises(SystemExit) as end:
        main([flag])
    assert (end.value.code, capsys.readouterr().out) == (0, f"linbet_jax {linbet_jax.__version__}\n")


@pytest.mark.parametrize("arguments", [[], ["reproduce"]])
def test_without_a_command_there_is_its_help(arguments, capsys):
    assert main(arguments) == 0
    bare = capsys.readouterr()
    with pytest.raises(SystemExit):
        main([*arguments, "--help"])
    assert bare == capsys.readouterr()


def help_of(*arguments, capsys):
    """The help as one line."""
    with pytest.raises(SystemExit):
        main([*arguments, "--help"])
    return " ".join(capsys.readouterr().out.split())


STUDIES = ("coverage", "lower-bound", "robustness", "later", "when", "real", "precision", "table2", "remark3")


def test_the_help_of_a_study_tells_its_own_numbers(capsys):
    for name in STUDIES:
        study = importlib.import_module(f"linbet_jax.experiments.{name.replace('-', '_')}")
        text = help_of("reproduce", name, capsys=capsys)
        small, large = re.search(r"--seeds N replications \(default (\d+); --full: (\d+)\)", text).groups()
        assert f"(default ./linbet-{name})" in text
        assert re.search(rf"the large version: .*\b{large} seeds", text)
        if hasattr(study, "SEEDS"):
            assert (int(small), int(large)) == (study.SEEDS, study.FULL_SEEDS)
        else:
            assert {small, large} <= {*re.findall(r"\d+", study.plan.__doc__)}
        if hasattr(study, "FULL_HORIZON"):
            assert f"--horizon T pulls (default {study.HORIZON}; --full: {study.FULL_HORIZON})" in text
    bound = importlib.import_module("linbet_jax.experiments.lower_bound")
    text = help_of("reproduce", "lower-bound", capsys=capsys)
    for values in (bound.DIMS, bound.FULL_DIMS, bound.EPSILONS, bound.FULL_EPSILONS, bound.HORIZONS):
        assert ",".join(f"{value:g}" for value in values) in text
    assert f"to {bound.FULL_HORIZONS[-1]})" in text


def test_help_fits_a_narrow_terminal(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    for command in ([], ["sweep"], ["bounds"], ["fit"], ["status"], ["report"], ["list"], ["reproduce", "when"]):
        with pytest.raises(SystemExit):
            main([*command, "--help"])
        assert max(map(len, capsys.readouterr().out.splitlines())) < 80
    assert "--tuning-seeds" not in help_of("reproduce", "table1", capsys=capsys)


def test_a_count_is_a_whole_number_however_it_is_written():
    def count(text):
        return build_parser().parse_args(["reproduce", "figure2", "--seeds", text]).seeds

    assert [count(text) for text in ("10000", "1e4", "1_0000", "1.0e4")] == [10_000] * 4
    large = build_parser().parse_args(["bounds", "--d", "1e1", "--T", "999999999999999999", "--epsilon", "1"])
    assert (large.dim, large.horizon) == (10, 999_999_999_999_999_999)


@pytest.mark.parametrize("command", ["sweep none.toml", "status none", "report none", "bench --compare none.json"])
def test_what_is_not_there_is_told_before_jax_is_imported(command, tmp_path):
    code = f"""
import sys
from linbet_jax.cli import main
status = main({command.split()!r})
print(status, [name for name in ("jax", "matplotlib") if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.stdout == "2 []\n"
    assert "none" in done.stderr


def test_the_installed_command_is_the_module(tmp_path):
    command = Path(sys.executable).with_name("linbet")
    done = subprocess.run([command, "--version"], capture_output=True, text=True, cwd=tmp_path, timeout=60, check=True)
    assert done.stdout == linbet("--version", cwd=tmp_path).stdout


def test_a_device_that_is_not_there_is_an_error(tmp_path):  # W6
    done = linbet("reproduce", "table1", "--device", "gpu", cwd=tmp_path, JAX_PLATFORMS="cpu")
    assert done.returncode == 2
    assert done.stderr.startswith("linbet: error: --device gpu: JAX finds no GPU on this machine")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("device", "message"),
    [("gpu", "--device gpu: JAX finds no GPU"), ("auto", "JAX finds no device (JAX_PLATFORMS=cuda)")],
)
@pytest.mark.skipif(importlib.util.find_spec("jax_cuda12_plugin") is not None, reason="JAX has its CUDA plugin here")
def test_platforms_that_are_not_there_are_an_error(device, message, tmp_path):
    done = linbet("reproduce", "table1", "--device", device, cwd=tmp_path, JAX_PLATFORMS="cuda")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"linbet: error: {message}")
    assert done.stderr.count("\n") == 1


def test_auto_prints_what_it_took_and_uses_every_core(tmp_path):  # W6
    done = linbet("reproduce", "table1", "--device", "auto", cwd=tmp_path, JAX_PLATFORMS="cpu")
    cores = len(os.sched_getaffinity(0))
    assert done.returncode == 0
    assert done.stderr == f"device: cpu, {cores} core{'s' if cores > 1 else ''} (auto)\n"


def test_what_the_user_set_in_the_environment_stays(tmp_path):
    done = linbet("reproduce", "table1", "--device", "cpu", cwd=tmp_path, JAX_NUM_CPU_DEVICES="3")
    assert done.stderr == "device: cpu, 3 cores (cpu)\n"


def test_table1_prints_our_numbers_beside_the_paper_s(tmp_path):
    done = linbet("reproduce", "table1", "--out", "t", cwd=tmp_path)
    assert done.returncode == 0
    rows = {line.split()[0]: " ".join(line.split()[1:]) for line in done.stdout.splitlines() if line.startswith("S")}
    assert rows == {
        "S1": "20 10 Student t(3) 1 19.00 (–) 3.00 (3.00) 4.00 (4.00)",
        "S2": "100 20 Student t(3) 1 57.76 (–) 3.00 (3.00) 7.40 (7.40)",
        "S3": "20 10 Pareto(2) 0.5 7.72 (7.72) 4.05 (–) 3.10 (3.10)",
        "S4": "100 20 Pareto(2) 0.5 54.36 (54.37) 28.55 (–) 11.39 (11.39)",
    }
    assert done.stdout.splitlines()[-2:] == ["t/table1.txt", "t/manifest.json"]
    assert (tmp_path / "t" / "table1.txt").read_text(encoding="utf-8") in done.stdout
    again = linbet("reproduce", "table1", "--out", "t", cwd=tmp_path)
    assert (again.returncode, again.stdout) == (0, done.stdout)
    other = linbet("reproduce", "table1", "--out", "t", "--sets", "s3", "--quiet", cwd=tmp_path)
    assert (other.returncode, other.stdout) == (2, "")
    assert "t holds another run, which differs in rows" in other.stderr


def test_a_terminal_without_greek_letters_gets_no_traceback(tmp_path):
    done = linbet("reproduce", "table1", cwd=tmp_path, PYTHONIOENCODING="ascii")
    assert done.returncode == 0
    assert "Student t(3)" in done.stdout


def test_list_names_policies_options_laws_and_data_sets(capsys):
    assert main(["list"]) == 0
    out = capsys.readouterr().out
    for name in linbet_jax.policies.names():
        assert f"\n  {name} " in out
        for option in linbet_jax.policies.options(name):
            assert f"{option}=" in out
    for expected in ("StudentT(df, scale=1.0)", "Pareto(shape)", "TwoPointNoise(gamma)", "S4  K=100, d=20, Pareto(2)"):
        assert expected in out


def test_list_for_programs_says_what_every_option_means(capsys):
    assert main(["list", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert list(found["policies"]) == list(linbet_jax.policies.names())
    tofu = found["policies"]["tofu"]["options"]
    assert tofu["level"] == {"default": "proof", "says": listing.OPTIONS["level"]}
    assert found["sets"]["S3"]["horizon"] == 10_000
    assert found["laws"]["Gaussian"]["fields"]["std"]["default"] == 1.0
    for name in linbet_jax.policies.names():
        if linbet_jax.policies.entry(name).make.__module__.startswith("linbet_jax."):
            assert all(about["says"] for about in found["policies"][name]["options"].values()), name
    for name, law in found["laws"].items():
        assert all(about["says"] for about in law["fields"].values()), name


FULL = "linbet: error: standard output cannot be written: No space left on device\n"


@pytest.mark.parametrize(
    ("redirected", "status", "said"),
    [(">&-", 0, ""), (">&- 2>&- <&-", 0, ""), ("2>/dev/full", 0, ""), (">/dev/full", 2, FULL)],
)
def test_an_output_that_is_closed_or_full(redirected, status, said, tmp_path):
    for command in ("list", "--help"):
        line = f"PYTHONUNBUFFERED= '{sys.executable}' -m linbet_jax {command} {redirected}"
        done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, cwd=tmp_path, timeout=60)
        assert (done.returncode, done.stderr) == (status, said), command


@pytest.mark.parametrize("redirected", [">&-", "2>&-", "2>/dev/full"])
def test_wrong_input_keeps_its_status_where_nobody_hears(redirected, tmp_path):
    line = f"'{sys.executable}' -m linbet_jax status nothing {redirected}"
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, cwd=tmp_path, timeout=60)
    assert done.returncode == 2
    assert done.stderr == ("linbet: error: nothing: no such folder\n" * (redirected == ">&-"))


def test_a_reader_that_has_left_is_no_error(tmp_path):
    for command in ("list", "--help"):
        reading, writing = os.pipe()
        os.close(reading)
        done = subprocess.run(
            [sys.executable, "-m", "linbet_jax", command], stdout=writing, stderr=subprocess.PIPE, cwd=tmp_path
        )
        os.close(writing)
        assert (done.returncode, done.stderr) == (141, b""), command


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "under 1 s"), (0.9, "under 1 s"), (1, "1 s"), (89, "89 s"), (91, "1.5 min"), (1000, "17 min"),
        (5399, "90 min"), (5401, "1.5 h"), (100_000, "28 h"), (200_000, "2.3 d"),
    ],
)  # fmt: skip
def test_a_time_as_people_say_it(seconds, text):
    assert duration(seconds) == text
