"""Multi-head attention over several axes, or over another axis than the last before the features."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from npinfer.errors import ShapeError
from npinfer.graph import Array, Shape, Spec
from npinfer.ops.attention_heads import HeadAttention
from npinfer.ops.shapes import agree


class AxesAttention(HeadAttention):
    """HeadAttention where places are combinations of entries along `axes` (of a sample, in this order); the other axes keep
    apart, as the batch does.

    q: (*sizes, heads·d), k and v alike with other sizes along `axes`; y: q's sizes; scores: (*other axes, heads, *axes of q,
    *axes of k), without heads where `headless` (they are one of the axes then, and `heads` is 1). masks, causal and window are
    put where Keras puts them: the last 2·len(axes) axes of a mask are places, those in front are the scores' first. early: a
    query's mask gets its new axis behind the second of the batch, a key's before it, as in Keras 2; else at the end.
    """

    axes: tuple[int, ...] = ()
    early: bool = False
    headless: bool = False

    def infer(self, q: Spec, k: Spec, v: Spec, *masks: Spec) -> Spec | tuple[Spec, ...]:
        rank = len(q.shape)
        if rank < 2 or not rank == len(k.shape) == len(v.shape) or len(masks) != len(self.masks):
            raise ShapeError("queries, keys and values must have the same number of axes, two at least, and the masks be there")
        if not self.axes or len(set(self.axes)) < len(self.axes) or not all(0 <= a < rank - 1 for a in self.axes):
            raise ShapeError(f"attention over the axes {list(self.axes)} of {rank - 1} before the features")
        out = self.width(q, k, v)
        for a in range(rank - 1):
            agree(k.shape[a], v.shape[a])
        other = tuple(agree(q.shape[a], k.shape[a]) for a in self.other(rank))
        scores = (*other, *self.of_heads(), *(q.shape[a] for a in self.axes), *(k.shape[a] for a in self.axes))
        axes = None
        for kind, mask in zip(self.masks, masks):
            shape = _picked((None, *mask.shape), self.unfolded(kind, len(mask.shape) + 1))
            self.fit(kind, shape, scores)
            if len(shape) != (axes or len(shape)):
                raise ShapeError("masks with different numbers of axes can't be combined")
            axes = len(shape)
        if self.causal or self.window is not None:
            self.fit("causal or window", (1, q.shape[0], k.shape[0]), scores)
        y = Spec((*q.shape[:-1], out), q.dtype)
        return (y, Spec(scores, q.dtype)) if self.scores else y

    def other(self, rank: int) -> list[int]:
        return [a for a in range(rank - 1) if a not in self.axes]

    def of_heads(self) -> tuple[int, ...]:
        return () if self.headless else (self.heads,)

    def unfolded(self, kind: str, rank: int) -> tuple[slice | None, ...]:
        """The index that gives a mask of `rank` axes (batch counted) the axis of the places it says nothing of."""
        if kind == "attention":
            return (slice(None),) * rank
        query, key = (2, 1) if self.early else (rank, rank - 1)
        place = query if kind == "query" else key
        return (*(slice(None),) * place, None, *(slice(None),) * (rank - place))

    def aligned(self, rank: int, whole: int) -> tuple[slice | None, ...]:
        """The index that aligns a mask of `rank` axes with scores of `whole`: its last ones are places, others come first."""
        places = 2 * len(self.axes)
        return (*(slice(None),) * (rank - places), *(None,) * (whole - rank), *(slice(None),) * places)

    def fit(self, kind: str, shape: Shape, scores: Shape) -> None:
        whole = len(scores) + 1
        if not 2 * len(self.axes) < len(shape) <= whole:
            raise ShapeError(
                f"the {kind} mask comes to {len(shape)} axes, the batch's counted; attention over {len(self.axes)} axes takes "
                f"{2 * len(self.axes) + 1} to {whole}"
            )
        for n, m in zip(_picked(shape, self.aligned(len(shape), whole))[1:], scores):
            if n not in (None, 1, m) and m is not None:
                raise ShapeError(f"the {kind} mask has shape {list(shape[1:])}, the scores have {list(scores)}")

    def __call__(self, q: Array, k: Array, v: Array, *masks: Array) -> Any:
        rank, n = q.ndim - 1, len(q)
        order = [a + 1 for a in (*self.other(rank), *self.axes)]
        whole = rank - 1 + len(self.axes) + len(self.of_heads()) + 1
        kept = len(order) - len(self.axes)

        def flat(x: Array) -> Array:
            x = x.transpose(0, *order, rank)
            places = int(np.prod(x.shape[1 + kept : -1], dtype=np.int64))
            return x.reshape(*x.shape[: 1 + kept], places, x.shape[-1])

        made = [x.shape[a + 1] for x in (q, k) for a in self.axes]
        mask = self.combined(masks, q.shape[1], k.shape[1])
        flat_q, flat_k = flat(q), flat(k)
        if mask is not None:
            mask = mask[self.aligned(mask.ndim, whole)]
            front = mask.shape[: whole - len(made)]
            places = (flat_q.shape[-2], flat_k.shape[-2])
            mask = np.broadcast_to(mask, (*front, *made)).reshape(*front, *places)
            mask = mask[..., None, :, :] if self.headless else mask
        y, w = self.attend(flat_q, flat_k, flat(v), mask)
        back = np.argsort(order)
        sizes = [q.shape[a] for a in order]
        y = y.reshape(n, *sizes, y.shape[-1]).transpose(0, *(int(a) + 1 for a in back), rank)
        return (y, w.reshape(*flat_q.shape[: 1 + kept], *self.of_heads(), *made)) if self.scores else y

    def weigh(self, scores: Array) -> Array:
        """Over several axes exp(s - log Σ exp s), as Keras does it: where all of a float32 row is masked, the logarithm is lost
        beside PENALTY, and each weight is 1."""
        if len(self.axes) == 1:
            return super().weigh(scores)
        top = scores.max(axis=-1, keepdims=True)
        top = np.where(np.isfinite(top), top, scores.dtype.type(0))
        total = np.log(np.exp(scores - top).sum(axis=-1, keepdims=True)) + top
        return np.asarray(np.exp(scores - total))

    def combined(self, masks: Sequence[Array], steps: int, places: int) -> Array | None:
        """All masks at once, before they are aligned with the scores."""
        whole: Array | None = None
        for part in self.parts(masks, steps, places):
            whole = part if whole is None else whole & part
        return whole

    def parts(self, masks: Sequence[Array], steps: int, places: int) -> Iterator[Array]:
        for kind, mask in zip(self.masks, masks):
            yield mask[self.unfolded(kind, mask.ndim)]
        if self.causal:
            yield np.tri(steps, places, dtype=bool)[None]
        if self.window is not None:
            yield (np.abs(np.arange(steps)[:, None] - np.arange(places)) < self.window)[None]


def _picked(shape: Shape, index: Sequence[slice | None]) -> Shape:
    """The shape of an array of this shape under an index of whole and new axes."""
    sizes = iter(shape)
    return tuple(1 if i is None else next(sizes) for i in index)
