"""Copy a selection of golden cases (models saved by real Keras, with inputs and outputs) into tests/golden, with a manifest.

    python tools/copy_golden.py SOURCE_FOLDER

SOURCE_FOLDER holds manifest.csv and a folder for each Keras environment, as tools/make_golden.py writes them. Every model of
every tier is kept in at most two Keras versions (the first and the last of the manifest); the ones in ALL_VERSIONS in all.
"""

from __future__ import annotations

import csv
import shutil
import sys
from collections import defaultdict
from pathlib import Path

TARGET = Path(__file__).resolve().parent.parent / "tests" / "golden"
ALL_VERSIONS = {
    "dense-inputlayer": None,
    "nested-double": (".h5", ".keras", ".weights.h5", ".wonly.h5", ".json"),
    "lstm-basic": (".h5",),
    "gru-basic": (".h5",),
}
LARGEST_FILE = 27_400  # bytes; keeps the repository small
LARGER = (
    "mlp-seed",
    "conv2d-lenet",
    "lstm-stacked",
    "resblock-conv",
    "nested-double",
    "multi-io",
    "bi-lstm-concat",
    "act-chain",
    "weight_names-chunked",
)
#: what no Keras version changed: one version is enough, and the Theano files with their flipped kernels
ONE_VERSION = (
    "conv", "depthwise", "separable", "maxpool", "averagepool", "global", "pad", "crop", "noop", "merge", "concat", "dot",
    "simplernn", "bi-simplernn", "bi-gru", "gru-un", "gru-dropout", "lstm-un", "lstm-dropout", "dense-3d", "dense-4d", "act-",
    "bn-3d", "bn-axis", "bn-two", "bn-first", "bn-last", "bn-eps", "mask-simplernn", "embed-mask-simplernn", "order-auto-b",
    "deep-residual", "name-",
)  # fmt: skip
#: cases whose expectation can't be met from the file alone
LEFT_OUT = {
    # TF 2.10 doesn't write `invert`: its own load_model gives the plain Normalization, not the outputs of the model in memory
    ("tf210", "Normalization-invert"),
    # Keras 3 writes the old layout without `module`, so nothing tells the user's class from Dense; Keras loads it as Dense too
    ("k3new", "trap-custom-subclass-named-Dense"),
}


def chosen(rows: list[dict[str, str]]) -> list[dict[str, str]]:
    """The rows to keep, each with the files to keep in it."""
    by_model = defaultdict(list)
    for row in rows:
        if (row["env"], row["model"]) in LEFT_OUT:
            continue
        by_model[row["tier"], row["model"]].append(row)
    kept = []
    for (_, model), group in by_model.items():
        ends = {0} if model.startswith(ONE_VERSION) else {0, len(group) - 1}
        ends |= {k for k, row in enumerate(group) if row["env"] == "k122-th"}
        few = group if model in ALL_VERSIONS else [group[i] for i in sorted(ends)]
        suffixes = ALL_VERSIONS.get(model)
        for row in few:
            base = f"t{row['tier'].split(':')[-1]}-{model}"
            files = [f for f in row["files"].split() if suffixes is None or f[len(base) :] in suffixes]
            if row is not few[-1] and model not in ALL_VERSIONS:
                files = [f for f in files if f.endswith((".wonly.h5", ".weights.h5"))] or files[:1]
            kept.append({**row, "files": " ".join(files)})
    return kept


def main(source: Path) -> None:
    with open(source / "manifest.csv", newline="", encoding="utf-8") as f:
        rows = chosen(list(csv.DictReader(f)))
    written, total = [], 0
    for row in rows:
        folder = source / row["env"]
        base = f"t{row['tier'].split(':')[-1]}-{row['model']}"
        files = row["files"].split()
        if row["model"] not in LARGER:
            files = [f for f in files if (folder / f).stat().st_size <= LARGEST_FILE]
        if not any(f.endswith((".h5", ".keras", ".weights.json")) for f in files):
            continue
        extra = [f for f in (f"{base}.npz", f"{base}.json") if (folder / f).exists()]
        extra += [p.name for p in folder.glob(f"{base}_0*.h5")] if "sharded" in base else []
        for name in dict.fromkeys([*files, *extra]):
            to = TARGET / row["env"] / name
            to.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(folder / name, to)
            total += to.stat().st_size
        written.append({**row, "files": " ".join(files)})
    with open(TARGET / "manifest.csv", "w", newline="", encoding="utf-8") as f:
        writer = csv.DictWriter(f, list(written[0]))
        writer.writeheader()
        writer.writerows(written)
    print(f"{len(written)} cases, {total / 1e6:.1f} MB in {TARGET}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
