"""Soft labels in scikit-learn, which supports only hard labels: each row becomes one weighted row per label.

linda augment train.csv --output bigger.parquet --partners any
python examples/soft_labels_sklearn.py bigger.parquet
"""

import json
import sys

import pandas as pd
import pyarrow.parquet as pq
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

frame = pd.read_parquet(sys.argv[1])
names = json.loads(pq.read_schema(sys.argv[1]).metadata[b"label_names"])

expanded = [
    (text, name, weight)
    for text, weights in zip(frame["text"], frame["label_probs"], strict=True)
    for name, weight in zip(names, weights, strict=True)
    if weight > 0
]
texts, labels, weights = zip(*expanded, strict=True)

model = make_pipeline(TfidfVectorizer(), LogisticRegression())
model.fit(texts, labels, logisticregression__sample_weight=weights)

originals = frame[frame["method"] == "original"]
print(f"accuracy on the originals: {model.score(originals['text'], originals['label']):.3f}")
