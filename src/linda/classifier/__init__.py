"""Text classifiers for hard and soft labels.

packing             short texts laid end to end, so that no padding is computed
encoder             texts to vectors, with any `transformers` encoder
vectors             vectors of an encoder that is not trained, each computed once
inputs              training rows as all classifiers take them
losses              the loss for soft labels
seeding             randomness that follows from a seed
text_classifier     an encoder fine-tuned with a linear layer on top
weighted_estimator  scikit-learn classifiers on soft labels; SMOTE
probe               logistic regression on vectors
contrastive         contrastive fine-tuning, then logistic regression (SetFit)
text_pipeline       scikit-learn pipelines on texts
students            all of them by name
"""

from linda.classifier.text_classifier import TextClassifier

__all__ = ["TextClassifier"]
