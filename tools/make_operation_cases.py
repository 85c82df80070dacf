"""One small functional model with an output for each of many operations, saved and run by the Keras that is installed here: for
tests/test_tf_operations.py.

    python tools/make_operation_cases.py tests/graphs/functions-tf-2.15.npz     with TensorFlow 2.3 to 2.15, or Keras 3

An .npz of "operations/file" (the bytes of a .h5, or with Keras 3 a .keras), "x0" …, "specs" (JSON: name, dtype and shape of
each output) and "y" (all outputs' bytes, one after another). A number behind the name takes every n-th operation alone. What
this version lacks, or can't save in a model, is left out and named.
"""

from __future__ import annotations

import json
import re
import sys
from typing import Any

import numpy as np
from installed_keras import KERAS3, file_of, keras

SHAPES = {"a": (3, 4), "b": (3, 4), "c": (4, 6, 3), "v": (3,), "i": (3,), "t": (None, 4)}
#: an output a line, of the inputs in SHAPES. Of TensorFlow: shapes as values first, then functions
TENSORFLOW = """
tf.reshape(a, (tf.shape(a)[0], -1))
tf.reshape(a, tf.stack([tf.shape(a)[0], 2, 6]))
tf.reshape(a, tf.concat([tf.shape(a)[:1], [2, 6]], 0))
tf.reshape(c, [tf.shape(c)[0], tf.shape(c)[1] * tf.shape(c)[2], 3])
tf.reshape(t, [tf.shape(t)[0], tf.shape(t)[1], 2, 2])
tf.reshape(t, [tf.shape(t)[0], tf.shape(t)[1], 2, -1])
tf.reshape(t, [-1, tf.shape(t)[1] * 4])
tf.reshape(a, tf.shape(b))
tf.concat([v, tf.ones([tf.shape(v)[0], 1])], axis=-1)
tf.zeros(tf.shape(a)[:2]) + a[:, :, 0]
tf.fill([tf.shape(a)[0], 2], 3.5)
tf.fill([tf.shape(t)[0], tf.shape(t)[1], 2], 3.5)
tf.tile(tf.expand_dims(v, 1), [1, tf.shape(t)[1], 1])
tf.tile(tf.constant([[1.0, 2.0]]), [tf.shape(v)[0], 2])
tf.broadcast_to(tf.constant([1.0, 2.0, 3.0]), [tf.shape(v)[0], 3])
tf.broadcast_to(v[:, None, :], [tf.shape(v)[0], tf.shape(t)[1], 3])
tf.reduce_sum(t, axis=1) / tf.cast(tf.shape(t)[1], tf.float32)
a / tf.math.sqrt(tf.cast(tf.shape(a)[-1], tf.float32))
tf.range(tf.shape(a)[1]) + i
tf.one_hot(tf.range(tf.shape(a)[1]), 4) + a
a[:, :tf.shape(i)[1]]
t[:, :tf.shape(t)[1] - 1]
t[:, tf.shape(t)[1] - 1]
tf.slice(a, (0, 1, 0), (tf.shape(a)[0], -1, 2))
tf.strided_slice(a, [0, 0, 2], [3, 4, 3], [1, 1, 1], begin_mask=3, end_mask=3, shrink_axis_mask=4)
tf.image.resize(c, tf.shape(c)[1:3] * 2)
tf.boolean_mask(a, [True, False, True], axis=1)
tf.gather(a, i, batch_dims=1)
tf.gather(a, i[:, :2], batch_dims=1, axis=2)
tf.split(a, [1, -1, 2], axis=-1)[1]
tf.pad(a, [[0, 0], [1, 2], [0, 1]], constant_values=2.5)
tf.one_hot(i, 3, on_value=2.0, off_value=-1.0)
tf.sequence_mask(i, 4)
tf.repeat(a, [1, 0, 2], axis=1)
tf.sort(a, direction='DESCENDING')
tf.argsort(a, axis=1, direction='DESCENDING')
tf.cumsum(a, axis=2, exclusive=True, reverse=True)
tf.math.cumprod(a, axis=1, exclusive=True)
tf.argmax(a, axis=1)
tf.math.count_nonzero(i, axis=1)
tf.clip_by_value(a, b - 0.5, b + 0.5)
tf.clip_by_norm(a, 1.0, axes=[-1])
tf.linalg.normalize(a, axis=-1)[0]
tf.math.atan2(a, b)
tf.math.multiply_no_nan(a, tf.nn.relu(b))
tf.math.xlogy(tf.nn.relu(a), tf.abs(b))
a // 0.7
1.0 - a
tf.linalg.diag_part(tf.matmul(a, b, transpose_b=True))
tf.linalg.trace(tf.matmul(a, b, transpose_b=True))
tf.linalg.diag(v)
tf.linalg.band_part(a, 1, 0)
tf.linalg.solve(tf.matmul(a, a, transpose_b=True) + tf.eye(3), b)
tf.linalg.cholesky(tf.matmul(a, a, transpose_b=True) + tf.eye(3))
tf.tensordot(a, tf.ones((3, 2)), axes=[[1], [0]])
tf.nn.crelu(v)
tf.nn.lrn(c, depth_radius=1, alpha=0.1)
tf.nn.conv1d(a, np.arange(24.0).reshape(3, 4, 2).astype('float32'), stride=2, padding='SAME')
tf.nn.conv2d(c, np.arange(24.0).reshape(2, 2, 3, 2).astype('float32'), strides=[1, 2, 2, 1], padding='VALID')
tf.nn.conv2d(c, np.ones((2, 2, 3, 1), 'float32'), 1, [[0, 0], [1, 0], [0, 1], [0, 0]])
tf.nn.depthwise_conv2d(c, np.arange(12.0).reshape(2, 2, 3, 1).astype('float32'), [1, 2, 2, 1], 'SAME')
tf.nn.pool(c, [2, 2], 'MAX', padding='SAME')
tf.image.extract_patches(c, [1, 2, 2, 1], [1, 2, 2, 1], [1, 1, 1, 1], 'VALID')
tf.image.extract_patches(c[:, :, :4, :1], [1, 3, 2, 1], [1, 1, 2, 1], [1, 1, 1, 1], 'SAME')
tf.image.sobel_edges(c[:, :, :3, :1])
tf.image.flip_left_right(c)
tf.image.rot90(c)
tf.image.central_crop(c, 0.5)
tf.image.resize_with_crop_or_pad(c, 2, 7)
tf.image.adjust_contrast(c, 2.0)
tf.image.per_image_standardization(c)
tf.image.rgb_to_grayscale(c)
tf.concat([t, tf.repeat(v[:, None, :], tf.shape(t)[1], axis=1)], -1)
tf.keras.layers.MultiHeadAttention(1, 2)(a, a, attention_mask=tf.linalg.band_part(tf.ones((1, 3, 3)), -1, 0))
tf.keras.backend.switch(a > 0, a, b)
tf.keras.backend.dot(a, tf.constant(np.ones((4, 2), 'float32')))
tf.reshape(tf.keras.layers.Conv1D(2, 2)(tf.reshape(c, [-1, 6, 3])), [-1, 4, 5, 2])
tf.keras.backend.conv2d(c, np.ones((2, 2, 3, 1), 'float32'), padding='same')
tf.keras.layers.Embedding(3, 4, embeddings_initializer='uniform')(tf.range(3)) + a
"""
KERAS_OPS = """
o.diagonal(a, offset=1, axis1=1, axis2=2)
o.trace(a, axis1=2, axis2=1)
o.cross(a[:, :, :3], b[:, :, 1:])
o.rot90(c, axes=(1, 2))
o.select([a > 0, a > -1], [a, b], 0.5)
o.isclose(a, b, rtol=0.5)
o.linspace(a, b, 3, axis=-1)
o.quantile(a, 0.3, axis=-1)
o.digitize(a, np.array([-1.0, 0.0, 1.0]))
o.isin(i, [0, 2])
o.nanstd(a, axis=1)
o.trapezoid(a, axis=1)
o.dstack([a, b])
o.multi_hot(i, 4)
o.adaptive_average_pool(c, (2, 4))
o.image.crop_images(c, top_cropping=1, left_cropping=1, target_height=2, target_width=3)
o.image.pad_images(c, top_padding=1, right_padding=2, target_height=6, target_width=9)
o.image.extract_patches(c, (2, 2))
o.image.rgb_to_grayscale(c)
o.image.rgb_to_hsv(o.sigmoid(c))
o.saturate_cast(a * 300, 'uint8')
o.dot_product_attention(c, c * 2, c + 1)
o.dot_product_attention(c, c * 2, c + 1, scale=0.5, is_causal=True)
o.separable_conv(c, np.ones((2, 2, 3, 1), 'float32'), np.ones((1, 1, 3, 2), 'float32'), padding='same')
o.inv(o.matmul(a, o.transpose(b, (0, 2, 1))))
o.det(o.matmul(a, o.transpose(b, (0, 2, 1))))
o.logdet(o.matmul(a, o.transpose(a, (0, 2, 1))) + np.eye(3, dtype='float32'))
o.solve_triangular(o.matmul(a, o.transpose(b, (0, 2, 1))), a, lower=True)
o.clip(a, -0.5, 0.5)
o.tensordot(a, np.ones((3, 2), 'float32'), axes=[[1], [0]])
o.repeat(a, [1, 0, 2], axis=1)
"""


def inputs_of(seed: int) -> list[np.ndarray]:
    """Two rows of numbers for each input."""
    random = np.random.default_rng(seed)
    shapes = {n: (2, *(5 if m is None else m for m in s)) for n, s in SHAPES.items()}
    return [
        random.integers(0, 3, s).astype("int32") if n == "i" else random.normal(size=s).astype("float32")
        for n, s in shapes.items()
    ]


def outputs_of(lines: list[str], known: dict[str, Any], inputs: dict[str, Any], suffix: str) -> dict[str, Any]:
    """The tensor that each line gives; lines that fail, or whose model can't be saved, are named and left out."""
    made = {}
    for line in lines:
        try:
            y = eval(line, {**known, **inputs})
            file_of(keras.Model([t for n, t in inputs.items() if re.search(rf"\b{n}\b", line)], y), suffix)
            made[line] = y
        except Exception as e:
            print(f"{line}: {type(e).__name__}: {str(e)[:90]!r}")
    return made


def main() -> None:
    if KERAS3:
        lines, known, suffix, version = KERAS_OPS, {"o": keras.ops, "np": np}, ".keras", keras.__version__
    else:
        import tensorflow as tf

        lines, known, suffix, version = TENSORFLOW, {"tf": tf, "np": np}, ".h5", tf.__version__
    xs = inputs_of(0)
    inputs = {n: keras.Input(s, name=n, dtype="int32" if n == "i" else "float32") for n, s in SHAPES.items()}
    every = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    made = outputs_of(lines.strip().split("\n")[::every], known, inputs, suffix)
    model = keras.Model(list(inputs.values()), list(made.values()))
    ys = [np.asarray(y) for y in model(xs)]
    specs = json.dumps([(n, y.dtype.name, y.shape) for n, y in zip(made, ys)])
    held = {f"x{k}": x for k, x in enumerate(xs)}
    flat = np.frombuffer(b"".join(y.tobytes() for y in ys), np.uint8)
    file = file_of(model, suffix)
    np.savez_compressed(sys.argv[1], **{"operations/file": file, "specs": np.array(specs), "y": flat}, **held)
    print(f"{len(made)} operations of {version}")


if __name__ == "__main__":
    main()
