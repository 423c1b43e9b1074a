"""What an optimised HLO module of XLA costs a GPU: kernels, bytes, operations and waits of the host, loop by loop."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

__all__ = ["Cost", "Loop", "Module"]

# No kernel: they name, reinterpret or group what is in memory already.
_FREE = {"parameter", "constant", "get-tuple-element", "tuple", "bitcast", "after-all", "opt-barrier", "partition-id"}
_READS_PARTS = {"dynamic-slice", "slice", "gather"}
_BYTES = {"f64": 8, "s64": 8, "u64": 8, "f32": 4, "s32": 4, "u32": 4, "bf16": 2, "f16": 2, "s16": 2, "u16": 2}
_SHAPE = re.compile(r"\b(f64|s64|u64|f32|s32|u32|bf16|f16|u16|s16|pred|u8|s8)\[([\d,]*)\]")
_INSTRUCTION = re.compile(r"^\s+(ROOT )?%?([\w.\-]+) = (\(.*?\)|\S+) ([\w\-]+)\((.*)$")
_COMPUTATION = re.compile(r"^(ENTRY )?%?([\w.\-]+) \(.*\{\s*$")


class _Instruction(NamedTuple):
    name: str
    shape: str
    op: str
    rest: str  # what stands behind the opening bracket: operands and attributes
    root: bool

    @property
    def operands(self) -> list[str]:
        return re.findall(r"%([\w.\-]+)", self.rest.split(")", 1)[0])

    def called(self, attribute: str) -> str:
        found = re.search(attribute + r"=%?([\w.\-]+)", self.rest)
        return found.group(1) if found else ""


class Cost(NamedTuple):
    """What a piece of a program costs, once through it.

    Attributes:
        kernels: launched; copies on the device count as kernels.
        moved: bytes read and written by them, where no cache helps.
        operations: elementwise ones, of any kind.
        busy: seconds that these keep the device busy, kernel by kernel.
        waits: how often the host must wait for the device to know how to go on.
    """

    kernels: float = 0.0
    moved: float = 0.0
    operations: float = 0.0
    busy: float = 0.0
    waits: float = 0.0

    def plus(self, other: Cost, times: float = 1.0) -> Cost:
        """With another one, so many times."""
        return Cost(*(mine + times * its for mine, its in zip(self, other, strict=True)))


class Loop(NamedTuple):
    """A loop of a module.

    Attributes:
        turns: where the compiler knows their number, else None: the host waits for the device before each.
        body: its computation.
        condition: likewise.
        depth: loops around it whose number of turns depends on data.
    """

    turns: int | None
    body: str
    condition: str
    depth: int


class Module:
    """An optimised module."""

    def __init__(self, text: str, busy: Callable[[float, float], float]) -> None:
        """From its text, and the seconds that a kernel takes from its bytes and operations."""
        self._busy = busy
        self._computations: dict[str, list[_Instruction]] = {}
        self.entry = ""
        current: list[_Instruction] | None = None
        for line in text.splitlines():
            if begun := _COMPUTATION.match(line):
                current = self._computations.setdefault(begun.group(2), [])
                self.entry = begun.group(2) if begun.group(1) else self.entry
            elif line.startswith("}"):
                current = None
            elif current is not None and (found := _INSTRUCTION.match(line)):
                root, name, shape, op, rest = found.groups()
                current.append(_Instruction(name, shape, op, rest, bool(root)))

    def loops(self, computation: str = "", depth: int = 0) -> Iterator[Loop]:
        """All loops, outer ones before those within them; every branch of a conditional counts."""
        for one in self._computations[computation or self.entry]:
            if one.op == "while":
                loop = Loop(_turns(one), one.called("body"), one.called("condition"), depth)
                yield loop
                yield from self.loops(loop.body, depth + (loop.turns is None))
            else:
                for called in self._branches(one):
                    yield from self.loops(called, depth)

    def custom_calls(self) -> set[str]:
        """Targets of all custom calls."""
        rests = (one.rest for body in self._computations.values() for one in body if one.op == "custom-call")
        return {target for rest in rests for target in re.findall(r'custom_call_target="([^"]*)"', rest)}

    def types(self) -> set[str]:
        """The element types of all arrays."""
        return {kind for body in self._computations.values() for one in body for kind, _ in _SHAPE.findall(one.shape)}

    def cost(self, computation: str = "", *, turns: float = 0.0, share: float = 1.0) -> Cost:
        """Once through a computation.

        Args:
            computation: by name; the entry by default.
            turns: of a loop whose number of turns depends on data.
            share: of the times that a conditional takes its dearer branch.
        """
        total = Cost()
        body = self._computations[computation or self.entry]
        shapes = {one.name: one.shape for one in body}
        for one in body:
            if one.op in _FREE:
                continue
            if one.op == "while":
                known = _turns(one)
                inner, test = (self.cost(one.called(part), turns=turns, share=share) for part in ("body", "condition"))
                total = total.plus(inner, turns if known is None else known)
                if known is None:  # the host reads the condition before each turn, and once more
                    total = total.plus(test.plus(Cost(waits=1.0)), turns + 1)
            elif one.op == "conditional":
                branches = sorted(self.cost(name, turns=turns, share=share) for name in self._branches(one))
                total = total.plus(branches[-1], share).plus(branches[0], 1 - share).plus(Cost(waits=1.0))
            elif one.op in ("call", "async-start"):
                for name in self._branches(one):
                    total = total.plus(self.cost(name, turns=turns, share=share))
            elif one.op not in ("async-done", "copy-done"):
                total = total.plus(self._kernel(one, shapes))
        return total

    def _branches(self, one: _Instruction) -> list[str]:
        """Computations that an instruction runs as they are; a fusion's is one kernel and does not count."""
        if one.op == "conditional":
            listed = re.search(r"branch_computations=\{([^}]*)\}", one.rest)
            if listed:
                return [name.strip().lstrip("%") for name in listed.group(1).split(",")]
            return [one.called("true_computation"), one.called("false_computation")]
        if one.op in ("call", "async-start"):
            name = one.called("to_apply") or one.called("calls")
            return [name] if name in self._computations else []
        return []

    def _kernel(self, one: _Instruction, shapes: dict[str, str]) -> Cost:
        inside = self._computations.get(one.called("calls"), []) if one.op == "fusion" else []
        if not inside:
            read = sum(_bytes(shapes.get(name, "")) for name in one.operands)
            return self._launched(read + _bytes(one.shape), _elements(one.shape))
        moved = 0.0
        for parameter in (each for each in inside if each.op == "parameter"):
            users = [each for each in inside if parameter.name in each.operands]
            parts = [_reads(user, parameter.name) for user in users]
            whole = _bytes(parameter.shape)
            moved += whole if None in parts else min(whole, sum(part for part in parts if part is not None))
        by_name = {each.name: each for each in inside}
        roots = [each for each in inside if each.root]
        if roots and roots[0].op == "tuple":
            roots = [by_name[name] for name in roots[0].operands if name in by_name]
        for root in roots:
            updated = root.op == "dynamic-update-slice"  # in place
            moved += _bytes(by_name[root.operands[1]].shape if updated else root.shape)
        return self._launched(moved, sum(_work(each, by_name) for each in inside))

    def _launched(self, moved: float, operations: float) -> Cost:
        return Cost(1.0, moved, operations, self._busy(moved, operations))


def _turns(one: _Instruction) -> int | None:
    known = re.search(r'known_trip_count":\{"n":"(\d+)"', one.rest)
    return int(known.group(1)) if known else None


def _reads(user: _Instruction, name: str) -> int | None:
    """Bytes that one instruction reads of a parameter; None for all."""
    if user.op in _READS_PARTS and user.operands[0] == name:
        return _bytes(user.shape)
    if user.op == "dynamic-update-slice" and user.operands[0] == name:
        return 0
    return None


def _work(one: _Instruction, by_name: dict[str, _Instruction]) -> int:
    if one.op in _FREE or one.op in ("broadcast", "iota", "reshape", "copy"):
        return 0
    if one.op == "reduce":
        source = by_name.get(one.operands[0])
        return _elements(source.shape) if source else 0
    return _elements(one.shape)


def _elements(shape: str) -> int:
    return sum(math.prod(map(int, filter(None, sizes.split(",")))) for _, sizes in _SHAPE.findall(shape))


def _bytes(shape: str) -> int:
    return sum(
        _BYTES.get(kind, 1) * math.prod(map(int, filter(None, sizes.split(","))))
        for kind, sizes in _SHAPE.findall(shape)
    )
