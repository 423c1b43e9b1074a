"""The gallery's script, in its smallest form: every picture is drawn."""

import importlib.util
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FORMAT = b"\x89PNG"


def test_every_picture_is_drawn(tmp_path):
    spec = importlib.util.spec_from_file_location("gallery", ROOT / "scripts" / "gallery.py")
    gallery = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(gallery)
    said = []
    gallery.draw(tmp_path / "made", tiny=True, say=said.append)
    names = {path.name for path in said}
    assert {"curves-two.png", "curves-many.png", "final.png", "panels.png", "tuning.png", "growth.png"} <= names
    assert len(names) == len(said) == len(list((tmp_path / "made").iterdir()))
    assert all(path.read_bytes().startswith(FORMAT) for path in said)
