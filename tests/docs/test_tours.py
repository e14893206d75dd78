"""Tours are run: each ``console`` block of the README, the how-tos and the tutorials, as a reader would type it.

A line that begins with ``$ `` is a command (``> `` continues it); the lines after it, if there are any, are what it
prints, with ``…``, and the blanks behind it, for what differs from reader to reader. A command ends with 0 unless a
comment says otherwise: ``$ baton claim task-1  # exits 3``. A block with a title, such as ``python title="agent.py"``,
is a file that the reader saves under that name. All blocks of a page are one shell session in an empty home. Blocks
in other fences, ``sh`` for instance, are not run.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[2]
PAGES: Final = [ROOT / "README.md", *sorted((ROOT / "docs").glob("[ht]*/*.md"))]
"""README, how-tos and tutorials: a page without a console block has nothing that could go wrong."""
TOUR_S_MAX: Final = 150
"""README's takes half a minute, on a machine with nothing else to do."""
FENCE: Final = re.compile(r"^```(?:console|\w+ title=\"([^\"\n]+)\")\n(.*?)^```$", re.MULTILINE | re.DOTALL)
EXITS: Final = re.compile(r"\s+# exits (\d+)$")


@dataclass(frozen=True, slots=True)
class Step:
    """One command of a tour, how it must end, and what it must print (anything, when empty)."""

    command: str
    code: int
    printed: str


def steps(markdown: str) -> list[Step]:
    """Return the commands of all console blocks, and what saves the files of those with a title, in order."""
    found: list[Step] = []
    for file, block in FENCE.findall(markdown):
        if file:
            found.append(Step(f"cat > {shlex.quote(file)} <<'END OF FILE'\n{block}END OF FILE", 0, ""))
            continue
        for chunk in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            lines = chunk.splitlines()
            length = 1
            while length < len(lines) and lines[length].startswith("> "):
                length += 1
            command = "\n".join([lines[0], *(line[2:] for line in lines[1:length])])
            ends = EXITS.search(command)
            found.append(
                Step(
                    command=EXITS.sub("", command),
                    code=int(ends[1]) if ends else 0,
                    printed="\n".join(lines[length:]).strip(),
                )
            )
    return found


def script(tour: list[Step]) -> str:
    """Return a bash script that writes each step's output and exit code into files, and stops where one differs."""
    lines = []
    for number, step in enumerate(tour):
        lines += [
            f"{{ {step.command}\n}} >$OUT/{number}.printed 2>&1",
            f"code=$?; echo $code >$OUT/{number}.code; [ $code = {step.code} ] || exit 1",
        ]
    return "\n".join(lines)


def take(tour: list[Step], folder: Path) -> list[str]:
    """Run the tour in an empty home under `folder`, and return a sentence for each step that differs."""
    home, out = folder / "home", folder / "out"
    home.mkdir()
    out.mkdir()
    (home / ".gitconfig").write_text(
        '[user]\n\tname = "A. Reader"\n\temail = reader@example.org\n[init]\n\tdefaultBranch = main\n'
    )
    environment = {
        "HOME": str(home),
        "LC_ALL": "C.UTF-8",
        "NO_COLOR": "1",
        "COLUMNS": "120",
        "OUT": str(out),
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), "/usr/local/bin", "/usr/bin", "/bin"]),
    }
    shell = subprocess.Popen(
        ["/bin/bash", "-c", script(tour)],
        cwd=home,
        env=environment,
        stdin=subprocess.DEVNULL,
        start_new_session=True,
    )
    with suppress(subprocess.TimeoutExpired):  # the step it hangs in has no exit code, and is reported for that
        shell.wait(TOUR_S_MAX)
    with suppress(ProcessLookupError):  # a tour may leave a server in the background, or nothing
        os.killpg(shell.pid, signal.SIGKILL)
    shell.wait()
    return [sentence for number, step in enumerate(tour) if (sentence := _difference(step, out, number))]


def _difference(step: Step, out: Path, number: int) -> str | None:
    code = out / f"{number}.code"
    if not code.exists():
        return f"$ {step.command}\nnever came to its end"
    printed = (out / f"{number}.printed").read_text().strip()
    if int(code.read_text()) != step.code:
        return f"$ {step.command}\nexits {code.read_text().strip()}, not {step.code}, and prints:\n{printed}"
    if step.printed and not re.fullmatch(_as_pattern(step.printed), printed, re.DOTALL):
        return f"$ {step.command}\nprints:\n{printed}\nnot:\n{step.printed}"
    return None


def _as_pattern(printed: str) -> str:
    """Return what a page says is printed as a pattern; blanks behind ``…`` keep a table's columns in line."""
    return ".*".join(map(re.escape, re.split("… *", printed)))


def test_readme_has_a_tour() -> None:
    """A page without a console block would pass the next test whatever it said."""
    assert len(steps((ROOT / "README.md").read_text())) > 15


@pytest.mark.timeout(TOUR_S_MAX + 30)
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_tour_of_a_page_goes_as_the_page_says(page: Path, tmp_path: Path) -> None:
    assert take(steps(page.read_text()), tmp_path) == []


def test_a_step_that_fails_or_prints_something_else_is_found(tmp_path: Path) -> None:
    page = "```console\n$ echo one\none\n$ cd /; x=two\n$ pwd; echo $x…\n/\ntwo…\n$ echo three\nfour\n$ false\n```\n"

    differences = take(steps(page), tmp_path)

    assert [difference.splitlines()[0] for difference in differences] == ["$ echo three", "$ false"]


def test_a_step_may_say_how_it_ends_and_leave_out_what_varies(tmp_path: Path) -> None:
    python = shlex.quote(sys.executable)
    page = f"```console\n$ echo $$ is the shell\n… is the shell\n$ {python} -c \\\n> 'exit(3)'  # exits 3\n```\n"

    assert take(steps(page), tmp_path) == []


def test_a_block_with_a_title_is_a_file_and_one_without_is_not_run(tmp_path: Path) -> None:
    said = "```sh\nfalse\n```\n```console\n$ sh say.sh hi\nhi and say.sh\n```\n"
    page = f'```sh title="say.sh"\necho "$1" and $0\n```\n{said}'

    assert [step.code for step in steps(page)] == [0, 0]
    assert take(steps(page), tmp_path) == []


def test_nothing_after_a_failed_step_is_run(tmp_path: Path) -> None:
    take(steps("```console\n$ false\n$ touch ran\n```\n"), tmp_path)

    assert not (tmp_path / "home" / "ran").exists()
