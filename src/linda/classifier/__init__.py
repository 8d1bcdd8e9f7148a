"""Text classifiers for hard and soft labels.

packing             short texts packed end to end, to avoid padding
encoder             texts to vectors, with any `transformers` encoder
vectors             cached vectors of a frozen encoder
inputs              checks of training rows, shared by all classifiers
losses              the losses for soft labels, with one or several classes per row
seeding             seeded random streams and dropout
text_classifier     an encoder fine-tuned with a linear layer on top
weighted_estimator  scikit-learn classifiers on soft labels, one class against the rest, SMOTE
vector_classifier   the base class of the next three
probe               logistic regression on vectors
contrastive         contrastive fine-tuning, then logistic regression (SetFit)
text_pipeline       scikit-learn pipelines on texts
students            all of them by name
"""

from linda.classifier.text_classifier import TextClassifier

__all__ = ["TextClassifier"]
