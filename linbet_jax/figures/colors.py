"""Every policy's colour and sign, which no figure changes."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping

from linbet_jax.policies import entry, names

# The package's policies have Okabe and Ito's palette, told apart with every common colour blindness.
COLORS: Mapping[str, str] = {name: color for name in names() if (color := entry(name).color) is not None}
# For policies of users' own: no hue of the above, at least 3:1 against the white and the dark page alike.
OWN_COLORS = ("#7B61C4", "#8F6B2E", "#2F8F8F", "#B8486A", "#6B7F1F", "#A05195")
# Told apart without colour too: a sign per policy, in the order of the registry. Of users' own its name decides. A
# diamond is none: it marks means and chosen scales.
_SIGNS = ("o", "s", "^", "v", "P", "<", ">", "X", "p", "h", "*", "x", "8", "d", "+", "1", "2", "3", "4", "H", "|", "_")
REFERENCE_COLOR = "#9A9A9A"


def policy_colors(policies: Iterable[str]) -> dict[str, str]:
    """Every policy's colour: the fixed one, or for a policy of the user's own one that its name decides.

    Two names that would get one colour take the next free one, in alphabetical order; the palette starts over when it
    is used up.
    """
    colors: dict[str, str] = {}
    for policy in sorted(set(policies)):
        color = entry(policy).color if policy in names() else None
        if color is None:
            start = zlib.crc32(policy.encode()) % len(OWN_COLORS)
            turn = OWN_COLORS[start:] + OWN_COLORS[:start]
            color = next((color for color in turn if color not in colors.values()), turn[0])
        colors[policy] = color
    return colors


def policy_sign(policy: str) -> str:
    """Every policy's sign on its curves (a marker of matplotlib's): they differ where colours cannot be seen."""
    known = names()
    place = known.index(policy) if policy in known else zlib.crc32(policy.encode())
    return _SIGNS[place % len(_SIGNS)]
