"""What routing a question asks the database."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from batonpass.core.ids import HolderId, NodeId, PersonId
from batonpass.store.base import Reader, as_json, q


async def stewards(tx: Reader, ids: Iterable[NodeId]) -> Mapping[NodeId, Sequence[PersonId]]:
    """Return who stewards each of `ids`, those who have done so longest first; one without stewards is absent."""
    (rows,) = await tx.fetch(q("questions.stewards", ids=as_json(sorted(set(ids)))))
    found: dict[NodeId, list[PersonId]] = defaultdict(list)
    for node, person in rows:
        found[node].append(PersonId(HolderId(person)))
    return found
