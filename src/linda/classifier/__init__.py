"""A text classifier for hard and soft labels.

packing          short texts laid end to end, so that no padding is computed
encoder          texts to vectors
losses           the loss for soft labels
text_classifier  an encoder fine-tuned with a linear layer on top
"""

from linda.classifier.text_classifier import TextClassifier

__all__ = ["TextClassifier"]
