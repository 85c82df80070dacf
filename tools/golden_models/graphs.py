"""Graphs: shared and nested models, merges, several inputs and outputs, policies, names."""

from golden_models.cases import graph


@graph(2, full=True)
def twice_inside_and_out(k):
    shared = k.Dense(4, activation="tanh", name="shared")
    a, b = k.input((4,), name="a"), k.input((4,), name="b")
    inner_in = k.keras.layers.Input(shape=(4,))
    inner = k.model(inner_in, k.merge("Add", [shared(inner_in), inner_in]), name="inner")
    return k.model([a, b], [shared(shared(inner(a))), inner(shared(b)), k.merge("Multiply", [inner(b), a])])


@graph(2, full=True)
def three_levels(k):
    def level(depth, width):
        start = k.keras.layers.Input(shape=(width,))
        x = k.Dense(5, activation="relu", name="dense")(start)
        if depth:
            x = level(depth - 1, 5)(x)
        x = k.BatchNormalization(name="bn")(x)
        return k.model(start, x, name="level")

    a = k.input((3,))
    return k.model(a, k.Dense(2, name="dense")(level(2, 3)(a)))


@graph(2, full=True)
def frozen_parts(k):
    inner = k.seq([k.Dense(4, activation="relu"), k.BatchNormalization(), k.Dense(3), k.BatchNormalization()], (5,))
    inner.layers[-1].trainable = False
    inner.layers[-4].trainable = False
    a = k.input((5,))
    return k.model(a, k.Dense(2)(inner(a)))


@graph(2, full=True)
def inner_with_two_outputs(k):
    start = k.keras.layers.Input(shape=(4,))
    h = k.Dense(6, activation="tanh")(start)
    inner = k.model(start, [k.Dense(3)(h), k.Dense(2)(h)], name="two")
    a = k.input((4,))
    p, _ = inner(a)
    _, q = inner(k.Dense(4)(a))
    return k.model(a, [q, p])


@graph(2)
def seq_in_seq(k):
    deep = k.seq([k.seq([k.Dense(4, activation="relu"), k.BatchNormalization()], (5,)), k.Dense(3)], (5,))
    return k.chain((5,), [deep, k.Dense(2, activation="softmax")], "functional")


@graph(2)
def recursive_tied(k):
    a, d = k.input((6,)), k.Dense(6, activation="elu")
    x = a
    for _ in range(5):
        x = d(x)
    return k.model(a, x)


@graph(2)
def identity_output(k):
    a = k.input((3,), name="same")
    return k.model(a, [a, k.Dense(2)(a), a])


@graph(2)
def unused_branch(k):
    a, b = k.input((3,), name="zeta"), k.input((2,), name="alpha")
    k.Dense(7)(a)
    return k.model([b, a], [k.merge("Concatenate", [k.Dense(2)(a), b]), k.Dense(1)(b)])


@graph(2)
def concat_of_four(k):
    a = k.input((4, 3))
    parts = [k.Dense(3)(a), a, k.Activation("tanh")(a), k.Dense(3, activation="relu")(a)]
    return k.model(a, k.Dense(2)(k.merge("Concatenate", parts, axis=1)))


@graph(2)
def concat_middle_axis(k):
    a, b = k.input((3, 2, 4)), k.input((3, 5, 4))
    return k.model([a, b], k.Flatten()(k.merge("Concatenate", [a, b], axis=-2)))


@graph(2)
def concat_then_dense(k):
    a, b, c = k.input((1,), name="c"), k.input((4,), name="b"), k.input((9,), name="a")
    x = k.merge("Concatenate", [c, k.Dense(3, activation="tanh")(b), a, c])
    return k.model([a, b, c], [k.Dense(5, activation="softmax")(x), k.Dense(1, activation="tanh")(x)])


@graph(2)
def merges_of_four(k):
    a = k.input((5,))
    x = [k.Dense(4, activation="tanh")(a) for _ in range(4)]
    return k.model(a, [k.merge(m, x) for m in ("Add", "Multiply", "Average", "Maximum")])


@graph(2)
def minimum_subtract(k):
    a, b = k.input((4, 3)), k.input((1, 3))
    return k.model([a, b], [k.Minimum()([a, b]), k.Subtract()([k.Dense(3)(a), b])])


@graph(2)
def dot_products(k):
    a, b = k.input((4, 3)), k.input((5, 3))
    d = k.merge("Dot", [a, b], axes=(2, 2))  # (4, 5)
    return k.model([a, b], [k.Flatten()(d), k.merge("Dot", [a, d], axes=(1, 1)), d])


@graph(2)
def dot_vectors_normalized(k):
    a, b = k.input((6,)), k.input((6,))
    return k.model([a, b], k.Dense(2)(k.Dot(axes=-1, normalize=True)([k.Dense(4)(a), k.Dense(4)(b)])))


@graph(2)
def squeeze_excite(k):
    a = k.input((6, 6, 4))
    s = k.Dense(4, activation="sigmoid")(k.Dense(2, activation="relu")(k.GlobalAveragePooling2D()(a)))
    return k.model(a, k.merge("Multiply", [a, k.Reshape((1, 1, 4))(s)]))


@graph(2)
def dueling_wide(k):
    a = k.input((10,))
    h = k.Dense(32, activation="relu")(a)
    v, adv = k.Dense(1)(h), k.Dense(6)(h)
    return k.model(
        a, k.merge("Add", [k.RepeatVector(1)(v), k.Reshape((1, 6))(adv)]) if k.major == 3 else k.merge("Concatenate", [v, adv])
    )


@graph(2)
def siamese_distance(k):
    tower = k.seq([k.Dense(8, activation="relu"), k.Dropout(0.3), k.Dense(4)], (6,))
    a, b = k.input((6,), name="left"), k.input((6,), name="right")
    p, q = tower(a), tower(b)
    return k.model([a, b], k.Dense(1, activation="sigmoid")(k.Subtract()([p, q])))


@graph(2)
def dict_in_and_out(k):
    a, b = k.input((3,), name="speed"), k.input((2,), name="angle")
    x = k.merge("Concatenate", [a, b])
    return k.model({"speed": a, "angle": b}, {"z": k.Dense(2)(x), "a": k.Dense(1)(x)})


@graph(2, policy=True)
def mixed_float16_graph(k):
    policy = "mixed_float16"
    a = k.input((6,))
    x = k.Dense(8, activation="relu", dtype=policy)(a)
    x = k.BatchNormalization(dtype=policy)(x)
    return k.model(a, k.Dense(3, activation="softmax", dtype="float32")(x))


@graph(2, policy=True)
def mixed_bfloat16_conv(k):
    a = k.input((6, 5, 3))
    x = k.Conv2D(4, 3, activation="relu", dtype="mixed_bfloat16")(a)
    return k.model(a, k.Dense(3, dtype="float32")(k.Flatten(dtype="mixed_bfloat16")(x)))


@graph(2, policy=True, note="one float64 layer among float32 ones")
def float64_middle(k):
    a = k.input((6,))
    x = k.Dense(5, dtype="float64", activation="tanh")(k.Dense(5)(a))
    return k.model(a, k.Dense(2, dtype="float32")(x))


@graph(2)
def names_with_slashes(k):
    a = k.input((4,), name="input")
    x = k.Dense(4, name="block/dense", activation="relu")(a)
    x = k.Dense(4, name="block")(x)
    return k.model(a, k.Dense(2, name="block/dense_1")(x))


@graph(2)
def names_unicode(k):
    a = k.input((4,), name="eingabe")
    return k.model(a, k.Dense(2, name="größe")(k.Dense(3, name="層", activation="tanh")(a)))


@graph(2)
def names_twice_nested(k):
    def block():
        return k.seq([k.Dense(3, name="dense", activation="tanh"), k.BatchNormalization(name="bn")], (3,), name="dense")

    a = k.input((3,))
    return k.model(a, k.Dense(2, name="dense_out")(block()(a)))
