#!/usr/bin/env bash
# The demo's agent: any program that reads a prompt and does what it says could stand here.
# It gets the prompt on standard input, works in the git worktree it is started in, and speaks to the
# server through `baton` alone. What it waits for is the demo's cue, so that the story happens in order.
set -euo pipefail

cat >"$DEMO/prompt.$BATON_NODE.$BATON_EPOCH.md"
touch "$DEMO/started.$BATON_NODE.$BATON_EPOCH"
until [ -e "$DEMO/cue.$BATON_NODE.$BATON_EPOCH" ]; do sleep 0.05; done

if [ "$BATON_NODE" = task-find-slow-test ]; then
    echo "Looked at every test: none is slow alone, two are slow together. Not finished: they share a fixture."
    exit 0
fi

mkdir -p notes
echo "$BATON_NODE, as run $BATON_RUN saw it" >"notes/$BATON_NODE.md"
git add notes
git commit -q -m "Do $BATON_NODE"

# The last thing an agent does: say in the graph what resolves the item. `resolves` is a claim anybody can
# check, and it is refused unless this run still holds the item.
code=0
baton add "Done: $BATON_NODE" --id "art-done-${BATON_NODE#task-}-$BATON_EPOCH" --type artifact \
    --summary "Commit $(git rev-parse --short HEAD) does what $BATON_NODE asks for" \
    --link "resolves:$BATON_NODE" \
    >"$DEMO/said.$BATON_NODE.$BATON_EPOCH" 2>"$DEMO/refused.$BATON_NODE.$BATON_EPOCH" || code=$?
echo "$code" >"$DEMO/code.$BATON_NODE.$BATON_EPOCH"
echo "Committed notes/$BATON_NODE.md; baton add ended with $code."
