from __future__ import annotations

import math
from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from batonpass.core.ids import NodeId
from batonpass.core.similarity import SHARED_MAX, UNSEEN_MAX, WORDS_MAX, Scale, foremost, matches, telling, weights

counted = st.dictionaries(st.sampled_from("abcdefgh"), st.integers(1, 5))
rarities = st.fixed_dictionaries({word: st.floats(0.1, 8) for word in "abcdefgh"})


@settings(max_examples=100)
@given(counted, counted, rarities)
def test_likeness_is_the_cosine_of_weighed_counts(
    one: dict[str, int], other: dict[str, int], rarity: dict[str, float]
) -> None:
    def vector(counts: dict[str, int]) -> list[float]:
        return [counts.get(word, 0) * rarity[word] for word in "abcdefgh"]

    dot = (
        math.sumprod(vector(one), vector(other))
        if hasattr(math, "sumprod")
        else sum(a * b for a, b in zip(vector(one), vector(other), strict=True))
    )
    lengths = math.hypot(*vector(one)) * math.hypot(*vector(other))

    scale = Scale.of(rarity)
    (found,) = (match.cosine for match in matches(one, [(NodeId("task-a"), other)], scale, least=0))
    (back,) = (match.cosine for match in matches(other, [(NodeId("task-a"), one)], scale, least=0))

    assert abs(found - (dot / lengths if lengths else 0.0)) < 1e-4
    assert found == back
    assert 0 <= found <= 1.0001


def test_a_rare_word_in_common_says_more_than_a_common_one() -> None:
    rarity = weights({"mutex": 1, "task": 900, "cache": 3}, 1_000)
    text = {"mutex": 1, "task": 1, "cache": 1}

    found = matches(
        text,
        [(NodeId("task-a"), {"mutex": 1, "x": 1}), (NodeId("task-b"), {"task": 1}), (NodeId("task-c"), {"x": 9})],
        Scale.of(rarity),
        least=0.04,
    )

    assert [match.node for match in found] == ["task-a"]


def test_words_of_unknown_rarity_weigh_what_the_known_ones_do_on_average() -> None:
    text, long = {"mutex": 1, "cache": 1}, {"mutex": 1, "cache": 1, "x": 1, "y": 1}

    (match,) = matches(text, [(NodeId("task-a"), long)], Scale.of({"mutex": 2.0, "cache": 4.0}), least=0)

    assert match.cosine == round(20 / math.sqrt(20 * (20 + 9 + 9)), 4)


def test_others_are_looked_for_by_words_they_can_have_then_by_new_ones() -> None:
    of = {f"shared{n:02}": n + 2 for n in range(30)} | {f"own{n:02}": 0 for n in range(30)} | {"everywhere": 1_000}
    text = dict.fromkeys(of, 1) | {"shared20": 50}

    words = telling(text, of, 1_000)

    assert (words[0], words[1]) == ("shared20", "shared00")
    assert [word[:3] for word in words] == ["sha"] * SHARED_MAX + ["own"] * UNSEEN_MAX


def test_only_the_foremost_words_of_a_long_text_are_weighed() -> None:
    long = Counter({f"word{n}": 1 for n in range(1_000)} | {"often": 9})

    kept = foremost(long)

    assert len(kept) == WORDS_MAX
    assert next(iter(kept)) == "often"
