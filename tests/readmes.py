"""Runs the code of every README as a reader would: `python readmes.py ROOT`, in an empty folder.

The blocks of a file run in order and share their names; all files share one folder, and what `linbet sweep --out demo`
writes is there for whoever loads it. A block whose first line is a comment with the name of a file is that file. Sweeps
run with few seeds and pulls. What takes minutes, a network or a cluster is not run: its arguments are checked.
"""

import contextlib
import io
import os
import re
import shlex
import sys
import tomllib
from pathlib import Path

SMALL = ["--set", "seeds=2", "--set", "horizon=60", "--set", "dtype=float32"]


def readmes(root):
    """The README files of the checkout, the first one first."""
    rooms = sorted(path for part in ("linbet_jax", "benchmarks") for path in (root / part).rglob("README.md"))
    return [root / "README.md", *rooms]


def blocks(text):
    """Pairs of a language and a code block, in order."""
    return re.findall(r"^```(\w+)\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def commands(block):
    """The command lines of a block, as words."""
    lines = block.replace("\\\n", " ").splitlines()
    return [words for line in lines if (words := shlex.split(line, comments=True))]


class Reader:
    """Who reads a README and types what it says."""

    def __init__(self, root):
        """Starts in the working folder, with the checkout's files at hand."""
        import jax

        self.root, self.jax, self.names, self.printed = root, jax, {}, ""
        for part in ("scripts", "benchmarks"):
            Path(part).symlink_to(root / part)

    def read(self, path):
        """Runs every block of a file, and returns what its Python printed."""
        self.names, self.printed = {}, ""
        for language, block in blocks(path.read_text(encoding="utf-8")):
            try:
                getattr(self, language)(block)
            except BaseException:
                print(f"{path}: this block fails:\n{block}", file=sys.stderr)
                raise
        return self.printed

    def python(self, block):
        """Runs a block, or writes the module that it is."""
        named = re.match(r"# (\w+\.py)\n", block)
        if named:
            Path(named[1]).write_text(block, encoding="utf-8")
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            exec(compile(block, "README", "exec"), self.names)
        self.printed += output.getvalue()

    def toml(self, block):
        """Writes the sweep file that a block is, and reads its grid."""
        from linbet_jax.sweep import read

        name = re.match(r"# (\w+\.toml)\n", block)[1]
        Path(name).write_text(block, encoding="utf-8")
        assert read(name).cells

    def bash(self, block):
        """Runs commands of `linbet`, in this process, and checks the others."""
        for command in commands(block):
            words = list(command)
            while re.fullmatch(r"[A-Z_]+=.*", words[0]):
                words.pop(0)
            getattr(self, f"_{words[0]}")(words[1:])

    def text(self, block):
        """Shown, not typed."""

    bibtex = text

    def _linbet(self, arguments):
        from linbet_jax import cli
        from linbet_jax.cli.parser import build_parser
        from linbet_jax.sweep import targets

        options = build_parser().parse_args(arguments)
        if options.module in ("reproduce", "bench"):
            return
        if options.module == "sweep" and options.cluster:
            targets.parse(options.cluster, **({"queue": "short"} if options.cluster == "slurm" else {}))
            return
        small = []
        if options.module == "sweep" and not options.dry_run:
            small = SMALL
        if options.module == "report":
            small = ["--format", "html"]
        wide = self.jax.config.jax_enable_x64
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()) as errors:
            status = cli.main([*arguments, *small])
        assert status == 0, (arguments, status, errors.getvalue())
        self.jax.config.update("jax_enable_x64", wide)  # a command is a process of its own

    def _bash(self, arguments):
        from linbet_jax.cli.parser import build_parser

        script, *rest = arguments
        assert (self.root / script).is_file()
        if script.endswith("figure2.sh"):
            build_parser().parse_args(["reproduce", "figure2", *rest])

    def _python(self, arguments):
        assert (self.root / arguments[0]).is_file()

    def _pip(self, arguments):
        project = tomllib.loads((self.root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        (wanted,) = re.fullmatch(r"install \.(?:\[(\w+)\])?", " ".join(arguments)).groups()
        assert wanted is None or wanted in project["optional-dependencies"]

    def _dask(self, arguments):
        assert arguments[0] == "worker"


if __name__ == "__main__":
    os.environ["LINBET_COMPILE_CACHE"] = "off"
    checkout = Path(sys.argv[1])
    reader = Reader(checkout)
    for each in readmes(checkout):
        print(f"== {each.relative_to(checkout).as_posix()}")
        print(reader.read(each), flush=True)
