"""Functions inside functional models: keras.ops of Keras 3, TensorFlow's in tf.keras. One or a few a case."""

from golden_models.cases import GRAPHS, Case


def operations(name, shape, function, expect="ok", **options):
    def build(k):
        if k.ops is None:
            raise AttributeError("no keras.ops in Keras " + k.version)
        a = k.input(shape, **options)
        out = function(k.ops, k.Dense(shape[-1], activation="tanh")(a) if not options else a)
        return k.model(a, list(out) if isinstance(out, (list, tuple)) else out)

    GRAPHS.append(Case(2, "kops-" + name, build, expect, "", False, False))


operations("python", (4, 6), lambda o, x: [-x, x**2, 1 - x, 2 / (x + 3), abs(x), x @ o.transpose(x, (0, 2, 1))])
operations("slices", (4, 6), lambda o, x: [x[:, 1:3], x[:, -1], x[..., ::2], x[:, ::-1, 1:-1], x[:, None, 0]])
operations(
    "compare", (4, 6), lambda o, x: [o.where(x > 0.1, x, -x), o.maximum(x, 0.2), o.minimum(x, x * 2), o.cast(x >= 0, "float32")]
)
operations(
    "reduce",
    (4, 6),
    lambda o, x: [
        o.sum(x, axis=1),
        o.mean(x, axis=-1, keepdims=True),
        o.max(x, axis=(1, 2)),
        o.min(x, axis=2),
        o.prod(x, axis=1),
    ],
)
operations("variance", (4, 6), lambda o, x: [o.var(x, axis=1), o.std(x, axis=-1, keepdims=True), o.logsumexp(x, axis=1)])
operations("norms", (4, 6), lambda o, x: [o.norm(x, axis=-1), o.normalize(x, axis=1), o.layer_normalization(x)], "ok-or-refuse")
operations(
    "unary",
    (6,),
    lambda o, x: [o.exp(x), o.log1p(o.abs(x)), o.sin(x), o.cos(x), o.tan(x), o.sign(x), o.square(x), o.rsqrt(o.abs(x) + 1)],
)
operations(
    "unary2",
    (6,),
    lambda o, x: [
        o.floor(x * 3),
        o.ceil(x * 3),
        o.round(x * 3),
        o.expm1(x),
        o.sqrt(o.abs(x)),
        o.reciprocal(x + 3),
        o.erf(x),
        o.arctan(x),
    ],
    "ok-or-refuse",
)
operations(
    "shapes",
    (4, 6),
    lambda o, x: [
        o.reshape(x, (-1, 3, 8)),
        o.expand_dims(x, 1),
        o.squeeze(o.expand_dims(x, -1), -1),
        o.swapaxes(x, 1, 2),
        o.moveaxis(x, -1, 1),
    ],
)
operations(
    "stacking",
    (4, 6),
    lambda o, x: [o.stack([x, x * 2], axis=1), o.concatenate([x, x], axis=-1), o.repeat(x, 2, axis=1), o.tile(x, (1, 2, 1))],
)
operations(
    "splitting",
    (4, 6),
    lambda o, x: [*o.split(x, 3, axis=-1), *o.split(x, [1, 4], axis=2), *o.unstack(x, axis=1)],
    "ok-or-refuse",
)
operations(
    "moving",
    (4, 6),
    lambda o, x: [o.flip(x, axis=1), o.roll(x, 2, axis=-1), o.pad(x, ((0, 0), (1, 2), (0, 1))), o.take(x, [2, 0], axis=1)],
    "ok-or-refuse",
)
operations(
    "ordering",
    (4, 6),
    lambda o, x: [o.sort(x, axis=-1), o.cumsum(x, axis=1), o.cast(o.argmax(x, axis=-1), "float32"), o.top_k(x, 2)[0]],
    "ok-or-refuse",
)
operations(
    "einsum",
    (4, 6),
    lambda o, x: [o.einsum("bij,bkj->bik", x, x), o.einsum("bij->bji", x), o.tensordot(x, o.ones((6, 2)), 1)],
    "ok-or-refuse",
)
operations(
    "softmaxes",
    (4, 6),
    lambda o, x: [
        o.softmax(x, axis=1),
        o.log_softmax(x, axis=-1),
        o.sigmoid(x),
        o.silu(x),
        o.gelu(x),
        o.relu6(x * 9),
        o.hard_sigmoid(x),
        o.elu(x, 0.5),
        o.selu(x),
        o.celu(x, 0.7),
    ],
)
operations(
    "logic",
    (4, 6),
    lambda o, x: [
        o.cast(o.logical_and(x > 0, x < 0.5), "float32"),
        o.cast(o.any(x > 0.9, axis=1), "float32"),
        o.cast(o.logical_not(x > 0), "float32"),
        o.isnan(x),
    ],
    "ok-or-refuse",
)
operations(
    "numbers",
    (4, 6),
    lambda o, x: [
        x * o.convert_to_tensor([1.0, 2, 3, 4, 5, 6]),
        o.add(x, 1.5),
        o.subtract(2.0, x),
        o.power(o.abs(x) + 0.1, 1.5),
        o.floor_divide(x, 0.3),
        o.mod(x, 0.7),
    ],
)
operations("one-hot", (4,), lambda o, x: o.one_hot(x, 5), "ok-or-refuse", vocabulary=5, dtype="int32")
operations(
    "mixed-ranks", (4, 6), lambda o, x: [x + o.mean(x, axis=(1, 2), keepdims=True), x * x[:, :1], o.matmul(x, o.ones((6, 3)))]
)


def tf_functions(name, shape, function, expect="ok"):
    def build(k):
        tf = k.tf
        if k.name == "keras" and not k.tf_keras:
            raise AttributeError("TensorFlow's functions in Keras " + k.version)
        a = k.input(shape)
        out = function(tf, k.Dense(shape[-1], activation="tanh")(a))
        return k.model(a, list(out) if isinstance(out, (list, tuple)) else out)

    GRAPHS.append(Case(2, "tf-" + name, build, expect, "", False, False))


tf_functions("python", (4, 6), lambda tf, x: [-x, 1 - x, x * 2 + 1, x / 3.0, 2.0 / (x + 3), x**2])
tf_functions("slices", (4, 6), lambda tf, x: [x[:, 1:3], x[:, -1], x[..., 2:], x[:, :, ::2]])
tf_functions(
    "math",
    (6,),
    lambda tf, x: [
        tf.exp(x),
        tf.abs(x),
        tf.square(x),
        tf.sqrt(tf.abs(x)),
        tf.math.log(tf.abs(x) + 1),
        tf.sign(x),
        tf.maximum(x, 0.1),
        tf.minimum(x, 0.2),
    ],
)
tf_functions(
    "reduce",
    (4, 6),
    lambda tf, x: [tf.reduce_sum(x, axis=1, keepdims=True), tf.reduce_max(x, axis=-1), tf.reduce_mean(x, axis=[1, 2])],
)
tf_functions(
    "shapes",
    (4, 6),
    lambda tf, x: [
        tf.reshape(x, [-1, 8, 3]),
        tf.transpose(x, [0, 2, 1]),
        tf.expand_dims(x, 1),
        tf.squeeze(tf.expand_dims(x, -1), -1),
        tf.concat([x, x], 1),
        tf.stack([x, x], 1),
    ],
)
tf_functions(
    "nn",
    (4, 6),
    lambda tf, x: [
        tf.nn.relu(x),
        tf.nn.softmax(x),
        tf.nn.sigmoid(x),
        tf.nn.elu(x),
        tf.nn.leaky_relu(x, 0.3),
        tf.tanh(x),
        tf.nn.softplus(x),
        tf.nn.swish(x),
    ],
)
tf_functions("split", (4, 6), lambda tf, x: [*tf.split(x, 2, axis=-1), *tf.unstack(x, axis=1)], "ok-or-refuse")
tf_functions("matmul", (4, 6), lambda tf, x: tf.matmul(x, x, transpose_b=True))
# its operands are saved by TensorFlow 2.0 to 2.3 alone
tf_functions("einsum", (4, 6), lambda tf, x: tf.einsum("bij,bkj->bik", x, x), "ok-or-refuse")
tf_functions(
    "more",
    (4, 6),
    lambda tf, x: [
        tf.norm(x, axis=-1),
        tf.math.squared_difference(x, 0.5),
        tf.math.log_sigmoid(x),
        tf.roll(x, 1, axis=1),
        tf.sort(x, axis=-1),
        tf.nn.bias_add(x, tf.constant([1.0, 2, 3, 4, 5, 6])),
        tf.linalg.matrix_transpose(x),
        tf.keras.backend.batch_flatten(x),
    ],
    "ok-or-refuse",
)
tf_functions(
    "images",
    (4, 6, 4),
    lambda tf, x: [
        tf.image.resize(x, (8, 9)),
        tf.nn.max_pool2d(x, 2, 2, "VALID"),
        tf.nn.avg_pool2d(x, 3, 2, "SAME"),
        tf.nn.depth_to_space(x, 2),
        tf.nn.space_to_depth(x, 2),
    ],
    "ok-or-refuse",
)
tf_functions(
    "where",
    (4, 6),
    lambda tf, x: [tf.where(x > 0.0, x, -x), tf.cast(x > 0.1, tf.float32), tf.clip_by_value(x, -0.5, 0.5)],
    "ok-or-refuse",
)
