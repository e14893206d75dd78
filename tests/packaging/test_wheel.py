"""What is installed is what is in the repository, no less: statements, migrations and the type marker too."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project's wheel, built once."""
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)], cwd=ROOT, check=True)
    return next(folder.glob("batonpass-*.whl"))


def test_the_wheel_has_every_file_of_the_package(wheel: Path) -> None:
    tracked = subprocess.run(
        ["git", "ls-files", "-z", "src/batonpass"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split("\0")

    expected = {name.removeprefix("src/") for name in tracked if name and (ROOT / name).exists()}

    assert expected - set(zipfile.ZipFile(wheel).namelist()) == set()


def test_every_module_of_the_wheel_can_be_imported_where_the_repository_is_not(wheel: Path, tmp_path: Path) -> None:
    zipfile.ZipFile(wheel).extractall(tmp_path)
    program = (
        "import importlib, pkgutil, batonpass\n"
        "for module in pkgutil.walk_packages(batonpass.__path__, 'batonpass.'):\n"
        "    if not module.name.endswith('__main__'):\n"
        "        importlib.import_module(module.name)\n"
        "print(batonpass.__file__)\n"
    )

    # Not measured: coverage would count the unpacked files as other ones.
    unmeasured = {name: value for name, value in os.environ.items() if not name.startswith("COV")}

    ended = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env={**unmeasured, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert ended.stderr == ""
    assert Path(ended.stdout.strip()).is_relative_to(tmp_path)
