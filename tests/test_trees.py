"""Trees of arguments: every container is entered, named tuples are leaves."""

from __future__ import annotations

from typing import NamedTuple

from npinfer.trees import holds, leaves, mapped


class Pair(NamedTuple):
    a: int
    b: str


TREE = [1, (2, Pair(7, "left alone")), {"k": [3, None]}, slice(4, None, 5), "text"]


def test_leaves_come_in_order_and_named_tuples_stay_whole() -> None:
    assert list(leaves(TREE, int)) == [1, 2, 3, 4, 5]
    assert list(leaves(TREE, (Pair, str))) == [Pair(7, "left alone"), "text"]
    assert holds(TREE, Pair)
    assert not holds(TREE, float)


def test_mapped_keeps_the_containers() -> None:
    assert mapped(TREE, int, lambda n: n * 10) == [
        10,
        (20, Pair(7, "left alone")),
        {"k": [30, None]},
        slice(40, None, 50),
        "text",
    ]
