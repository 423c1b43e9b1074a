"""`linbet bounds`: the numbers of the theory by name, what is refused, and that JAX stays out of it."""

import math
import subprocess
import sys

from linbet_jax.cli import bounds, main
from linbet_jax.policies import registry

S1 = [
    "bounds",
    "--d",
    "10",
    "--T",
    "2e4",
    "--epsilon",
    "1",
    "--c",
    "3",
    "--b",
    "19",
    "--S",
    "2",
    "--D",
    "3",
    "--L",
    "4",
]


def printed(capsys, *arguments):
    """What the command prints: {section's first word: {row's name: (value as text, source)}}."""
    assert main(list(arguments)) == 0
    sections, rows = {}, {}
    for line in capsys.readouterr().out.splitlines():
        if line and not line.startswith(("  ", "T =", "b =", "p =")):
            rows = sections.setdefault(line.split()[0], {})
        elif line.startswith("  "):
            what, value, *source = [part.strip() for part in line.strip().split("  ") if part.strip()]
            rows[what] = (value, source[0] if source else "")
    return sections


def test_the_numbers_are_those_of_the_formulas(capsys):
    found = printed(capsys, *S1)
    assert found.pop("Known") == {}
    published, later = ["MENU", "TOFU", "MoM", "CRT", "OFUL"], ["Hvt-UCB", "CRTM", "CRMM", "Heavy-OFUL", "G-optimal"]
    assert list(found) == [*published, *later, "Robust", "Explore,", "Every"]
    numbers = {title: {what: row[0] for what, row in rows.items()} for title, rows in found.items()}
    menu, tofu, mom, crt, oful, lower = (numbers[title] for title in [*published, "Every"])
    assert (menu["k, pulls of one arm an epoch"], menu["N, epochs"]) == ("317", "63")
    assert menu["beta_n, n = 63"] == menu["beta_n, n = 1"] == f"{3 * (math.sqrt(270) + 2):.6g}"  # a = 0 at epsilon = 1
    potential = math.sqrt(20 * math.log(1 + 2e4 * 9 / 10))
    bound = 6 * (math.sqrt(270) + 6) * math.sqrt(2e4) * math.sqrt(24 * math.log(math.e * 2e5) + 1) * potential
    assert menu["regret at most"] == f"{bound:,.6g}"
    union = math.log(2 * 10 * 2e4 / 0.1)
    assert tofu["b_t, t = 200"] == f"{math.sqrt(19 / union):.6g}"
    assert tofu["b_t as in the box, t = 200"] == f"{19 / math.log(2 * 2e4 / 0.1):.6g}"
    assert tofu["beta_t, t = 20,000"] == f"{4 * math.sqrt(10) * math.sqrt(19) * math.sqrt(union) + 2:.6g}"
    bound = 2 * math.sqrt(2e4) * (4 * math.sqrt(10 * 19 * union) + 6) * potential
    assert tofu["regret at most"] == f"{bound:,.6g}"
    assert [mom[name] for name in mom if name[1] == ","] == ["141", "141", "64"]
    assert mom["pulls a block"] == "2"
    assert mom["beta_i valid, i = 141"] == f"{math.sqrt(36 / 2) * math.sqrt(141) + 2:.6g}"
    assert crt["alpha_t, t = 20,000"] == f"{2e4**0.25:.6g}"
    log_det = 10 * math.log(1 + 2e4 * 9 / 10)
    assert oful["beta_t at most, t = 20,000"] == f"{math.sqrt(log_det + 2 * math.log(10)) + 2:.6g}"
    assert lower["Delta, the gap"] == f"{1 / (12 * math.sqrt(2e4)):.6g}"
    assert lower["mean regret at least"] == f"{10 / 192 * math.sqrt(2e4):.6g}"
    rates = [rows["rate: T to the power"] for rows in (menu, tofu, mom, crt, oful, lower)]
    assert rates == ["0.5", "0.5", "0.75", "0.75", "0.5", "0.5"]


def test_every_registered_bound_is_worked_out_or_said_to_be_a_rate(capsys):
    bounded = {name for name in registry.names() if registry.entry(name).regret}
    assert bounded == {*bounds.WITHOUT_CONSTANTS, *bounds._SECTIONS} - {"lower-bound"}
    assert main(S1) == 0
    *_, last = capsys.readouterr().out.splitlines()
    assert last == f"Known without constants, by their rates alone (linbet list): {', '.join(bounds.WITHOUT_CONSTANTS)}"
    assert main([*S1, "--policy", "tofu"]) == 0
    assert "Known without" not in capsys.readouterr().out


def test_the_numbers_of_the_policies_after_2018(capsys):
    unit = ["bounds", "--d", "2", "--T", "1000", "--epsilon", "1", "--b", "2"]
    found = {title: {what: row[0] for what, row in rows.items()} for title, rows in printed(capsys, *unit).items()}
    hvt, crtm, robust = found["Hvt-UCB"], found["CRTM"], found["Robust"]
    assert (hvt["lambda in use"], hvt["beta"]) == ("44.4874", "28.7636")
    assert (crtm["G, the level of |y| ||x||"], crtm["beta"]) == ("2.88108", "45.3385")
    assert crtm["regret at most"] == f"{2 * 45.338518 * math.sqrt(2 * 1000 * 12.433212):,.6g}"
    log = math.log(2 * 2 * 1000 / 0.1)
    assert robust["width after n = 10"] == f"{4 * math.sqrt(2 * log / 10):.6g}"
    assert robust["regret at most"] == f"{4 + 16 * math.sqrt(2 * log * 2 * 1000):,.6g}"
    assert found["CRMM"]["R"] == "2"
    assert found["G-optimal"]["phases"] == "7"  # 4 (2^7 - 1) = 508 pulls, 8 would take 1020
    assert [rows["rate: T to the power"] for rows in (hvt, crtm, robust)] == ["0.5"] * 3
    many = printed(capsys, *unit, "--K", "3", "--policy", "gopt_elim")["G-optimal"]["regret at most"][0]
    assert float(many.replace(",", "")) > float(found["G-optimal"]["regret at most"].replace(",", ""))
    for arguments, message in (
        (["--policy", "hvt_ucb", "--c", "0"], "c=0: hvt_ucb needs a positive c"),
        (
            ["--policy", "robust_ucb", "--K", "3"],
            "K=3: robust_ucb plays orthonormal arms",
        ),
    ):
        assert main([*unit, *arguments]) == 2
        assert message in capsys.readouterr().err


def test_an_empty_bound_is_said_to_be_empty_and_equations_are_named(capsys):
    found = printed(capsys, *S1)
    value, source = found["MENU"]["regret at most"]
    assert float(value.replace(",", "")) > 160_000
    assert source == "Theorem 2, with prob. 1 - delta; not yet below 2 L T = 160,000"
    value, source = printed(capsys, *S1, "--T", "1e12", "--policy", "tofu")["TOFU"]["regret at most"]
    assert source == "Theorem 3, with prob. 1 - delta"
    assert found["Every"]["mean regret at least"][1].startswith("Theorem 1: (d/192) T^(1/(1+eps))")
    assert found["TOFU"]["beta_t, t = 1"][1].startswith("Algorithm 2, line 13: ")
    assert found["MENU"]["N, epochs"][1] == "Algorithm 1, line 2: floor(T/k)"


def test_what_a_horizon_does_not_allow_is_left_out_unless_asked_for(capsys):
    found = printed(capsys, "bounds", "--d", "21", "--T", "300", "--epsilon", "0.1")
    assert found["MENU"]["nothing"][1] == "T=300: MENU at delta=0.1 needs T >= 336 (256 + 24 ln(e/delta))"
    assert found["Every"]["smallest T"][0] == f"{math.ceil((20 / 12) ** 11):,}"
    found = printed(capsys, "bounds", "--d", "21", "--T", "275", "--epsilon", "0.1")
    assert found["Every"]["nothing"][1] == "T=275: the lower bound needs T >= 276 = (d/12)^((1+eps)/eps)"
    assert printed(capsys, "bounds", "--d", "21", "--T", "300", "--epsilon", "0.5", "--at", "7")["Every"][
        "mean regret at least"
    ] == (f"{20 / 192 * 300 ** (2 / 3):.6g}", "Theorem 1: (d/192) T^(1/(1+eps)), over the construction's theta*,"
          " whatever the policy; d odd: of the first 20 coordinates")  # fmt: skip


def test_numbers_beyond_float64_are_said_to_be(capsys):
    rows = printed(capsys, *S1, "--epsilon", "1e-3", "--b", "1e9", "--policy", "tofu")["TOFU"]
    assert rows["b_t as in the box, t = 1"][0] == "> 1e308"


def test_it_needs_no_jax():
    code = (
        f"import sys; from linbet_jax.cli import main; main({S1!r}); print([m for m in ('jax',) if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
