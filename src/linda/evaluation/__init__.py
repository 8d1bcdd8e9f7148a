"""How good predictions are, and how certain a difference between two methods is.

metrics     accuracy, macro F1, AUC, log loss, calibration error … of predicted probabilities
tuning      thresholds and temperatures, chosen on held-out folds of the training rows
statistics  means over seeds, paired differences, the smallest difference that could have been detected
"""
