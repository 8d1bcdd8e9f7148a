"""Rare classes with imbalanced-learn: LINDA compared to class weights and random oversampling, cross-validated.

    python examples/imbalanced_classes.py reviews.csv 5

The CSV file has the columns `text` and `label` (two classes); 5 is the number of folds. New texts are made from the
training part of each fold. Average precision and AUC do not depend on a threshold, which new texts merely shift.
Needs `pip install 'linda[imblearn]'`.
"""

import sys

import numpy as np
import pandas as pd
from imblearn.over_sampling import RandomOverSampler
from imblearn.pipeline import make_pipeline
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, cross_validate

from linda import LindaSampler

source, folds = sys.argv[1], int(sys.argv[2])
frame = pd.read_csv(source)
is_rare = frame["label"] == frame["label"].value_counts().idxmin()

methods = {
    "none": make_pipeline(TfidfVectorizer(), LogisticRegression()),
    "class weights": make_pipeline(TfidfVectorizer(), LogisticRegression(class_weight="balanced")),
    "oversampling": make_pipeline(TfidfVectorizer(), RandomOverSampler(random_state=0), LogisticRegression()),
    "LINDA": make_pipeline(LindaSampler(random_state=0, ratio="0.2-0.8"), TfidfVectorizer(), LogisticRegression()),
}
for name, pipeline in methods.items():
    scores = cross_validate(
        pipeline,
        frame["text"],
        is_rare,
        cv=StratifiedKFold(folds, shuffle=True, random_state=0),
        scoring=["average_precision", "roc_auc"],
        error_score="raise",
    )
    precision, auc = (np.mean(scores[f"test_{metric}"]) for metric in ("average_precision", "roc_auc"))
    print(f"{name:<14} average precision {precision:.3f}  AUC {auc:.3f}")
