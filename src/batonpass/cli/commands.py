"""Every command, once: its name, where it is, and what it does in a line. Modules are imported when they are used."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from cyclopts import App, Group

from batonpass.cli.exits import Exit


@dataclass(frozen=True, slots=True)
class Command:
    """A command, or a group of them. `words` is its line in the list of commands."""

    name: str
    path: str
    words: str


GROUPS: Final[dict[str, tuple[Command, ...]]] = {
    "Start": (
        Command(
            "demo",
            "demo:demo",
            "Watch the main job happen:"
            " claim, work, a kill, a takeover, a refused zombie, verdicts read from the graph.",
        ),
        Command("init", "init:init", "Make the first person of a database, an admin, and print their token."),
        Command("serve", "serve:serve", "Serve a database over HTTP until SIGTERM or SIGINT."),
        Command("status", "status:status", "Say what is running, and on which database."),
        Command("whoami", "status:whoami", "Say whose token is used, and what it may do."),
    ),
    "The graph": (
        Command("add", "nodes:add", "Add a node: from a title and options, or whole ones from markdown files."),
        Command("show", "nodes:show", "Show a node: who holds it, what became of it, its text and its edges."),
        Command(
            "brief",
            "brief:brief",
            "Show what is known around a node, about a question or of a project, as agents are told it.",
        ),
        Command("list", "nodes:list_", "List nodes, in order of their ids."),
        Command("edit", "edit:edit", "Change a node: in $EDITOR, from a file, or key by key."),
        Command("history", "history:history", "List what became of a node, or show a revision, or what was changed."),
        Command("blame", "history:blame_", "Show for every key and line of a node who made it what it is, and when."),
        Command("search", "search:search", "Find nodes that hold every one of these words."),
        Command("link", "nodes:link", "Add an edge, as in: baton link dec-1 resolves task-1."),
        Command("unlink", "nodes:unlink", "Remove an edge."),
        Command("set", "nodes:set_", "Set a node's status or priority. An in-progress status claims the node."),
        Command("priority", "nodes:priority", "Set a node's priority, or take it away."),
        Command("ready", "nodes:ready", "Say that agents may take a node, or with --needs-input that they may not."),
        Command("commit", "commits:commit", "Note a commit on a node, as in: baton commit task-1 web@9fceb02."),
        Command("commits", "commits:commits", "List the nodes that carry a commit."),
        Command("schema", "schema:schema", "Show what may be written: node types, statuses, edges, limits."),
    ),
    "In and out": (
        Command("export", "transfer:export", "Write every node into files: one a node in a folder, or all in one tar."),
        Command(
            "import",
            "transfer:import_",
            "Bring nodes in from folders, tars and files of markdown; say it again and nothing happens twice.",
        ),
    ),
    "Asking and telling": (
        Command(
            "ask",
            "questions:ask",
            "Ask a question: it finds its person, and what you work on waits for the answer.",
        ),
        Command(
            "answer",
            "questions:answer",
            "Answer a question: files the answer and completes the question in one step.",
        ),
        Command(
            "correct",
            "corrections:correct",
            "Correct what is said of a node, of a project, or everywhere: briefings carry it until it is applied.",
        ),
        Command("corrections", "corrections:corrections", "List the corrections that stand."),
        Command(
            "questions",
            "inbox:questions",
            "List the open questions that are yours to answer, that anybody may, and that you have asked.",
        ),
        Command(
            "inbox",
            "inbox:inbox",
            "List what waits for your word: questions, reviews, findings, captures; and what you have asked.",
        ),
        Command("capture", "capture:capture", "Keep a text, whatever it is, as a node that somebody sorts later."),
    ),
    "What happens": (
        Command("events", "events:events", "Show what happened, and with --follow what happens from now on."),
    ),
    "The queue and its leases": (
        Command("queue", "queue:queue", "List what there is to do, best first."),
        Command("why", "why:why", "Say why an item is or isn't taken, and what would change it."),
        Command("next", "queue:next_", "Claim the best item you may take, in one step."),
        Command("claim", "leases:claim", "Claim nodes for yourself."),
        Command("renew", "leases:renew", "Renew your lease: its end moves away, never nearer."),
        Command("extend", "leases:extend", "Stretch your lease over a long gap, up to the policy's maximum."),
        Command("reserve", "leases:reserve", "Give the work back for now, but keep the node for yourself."),
        Command("release", "leases:release", "Give a node back for good, or all that you hold."),
        Command("take", "leases:take", "End the lease on a node, whoever has it, and claim it yourself."),
        Command("leases", "leases:leases", "List who holds what, and for how long."),
    ),
    "Records": (
        Command("record", "records:app", "Records: read and write their fields, and claim their tasks."),
        Command(
            "sidecar",
            "sidecar:sidecar",
            "Hold a record's task while COMMAND works, and write to the record what it prints.",
        ),
    ),
    "Work": (
        Command(
            "capabilities",
            "capabilities:app",
            "What this machine can run: show it, and publish it for an agent.",
        ),
        Command(
            "dispatch",
            "dispatch:dispatch",
            "Send an agent to one item: it gets the task on its standard input, in a git worktree of its own.",
        ),
        Command(
            "work",
            "work:work",
            "Work through the queue: agent programs do its items, each in a git worktree of its own.",
        ),
    ),
    "Runs and their worktrees": (
        Command("runs", "runs:app", "The runs of this machine: list and show them, read their logs, end one."),
        Command(
            "worktrees",
            "worktrees:app",
            "The worktrees that runs have left here: list them, and remove those that nobody can miss.",
        ),
    ),
    "The protocol": (
        Command(
            "conformance",
            "conformance:app",
            "Grade a worker or a server by what the published protocol asks of it.",
        ),
    ),
    "Administration": (
        Command("class", "classes:app", "Classes of records: apply, check, list, show and compare them."),
        Command("policy", "policy:policy", "Show what is in force for a project, or change it."),
        Command("pause", "policy:pause", "Refuse every claim, saying why. What is held may be finished."),
        Command("resume", "policy:resume", "Let claims through again."),
        Command("delete", "tombstones:delete", "Delete a node for good; its history stays."),
        Command("redact", "history:redact", "Take the text of an earlier revision out of a node's history."),
        Command("agent", "agents:app", "Agents: make and list them, and their tokens."),
        Command("hosts", "hosts:hosts", "List your machines by whether they will do for a profile."),
        Command("token", "tokens:app", "Your tokens: make, list, end, and store them."),
        Command("key", "keys:app", "API keys of programs that keep records: make, list and end them."),
        Command("person", "people:app", "People: add and list them; for admins."),
        Command("db", "db:app", "The database: its schema, checks, backups."),
    ),
}

EXIT_CODES: Final = "Exit codes: " + "; ".join(f"{code.value} {code.meaning}" for code in Exit) + "."


def application(chosen: str | None = None) -> App:
    """Return the command line as a whole; no command's module is imported yet.

    The command `chosen` shows its whole help, which is in its module; the
    others are there with their lines.
    """
    app = App(
        name="baton",
        help="Coordinate coding agents: only the holder of the baton runs.",
        help_epilogue=EXIT_CODES,
        version_flags=["--version", "-V"],
        result_action="return_value",
        suppress_keyboard_interrupt=False,
    )
    for order, (title, commands) in enumerate(GROUPS.items()):
        group = Group(title, sort_key=order)
        for place, command in enumerate(commands):
            path = f"batonpass.cli.{command.path}"
            words = None if command.name == chosen else command.words
            app.command(path, name=command.name, help=words, group=group, sort_key=place)
    return app
