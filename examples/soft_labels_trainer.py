"""Soft labels in the `transformers` Trainer.

linda augment train.csv --output bigger.parquet --partners any
python examples/soft_labels_trainer.py bigger.parquet bert-base-uncased trained
"""

import sys

from datasets import Dataset
from transformers import AutoModelForSequenceClassification, AutoTokenizer, Trainer, TrainingArguments

from linda import soft_cross_entropy

data_file, encoder, output = sys.argv[1:]
data = Dataset.from_parquet(data_file)
tokenizer = AutoTokenizer.from_pretrained(encoder)
model = AutoModelForSequenceClassification.from_pretrained(encoder, num_labels=len(data[0]["label_probs"]))


def tokenize(batch: dict) -> dict:
    return {**tokenizer(batch["text"], truncation=True), "labels": batch["label_probs"]}


trainer = Trainer(
    model,
    TrainingArguments(output, num_train_epochs=3, per_device_train_batch_size=16, report_to=[], save_strategy="no"),
    train_dataset=data.map(tokenize, batched=True, remove_columns=data.column_names),
    processing_class=tokenizer,
    # Without this, the Trainer treats float labels as multi-label targets, and scores every class separately.
    compute_loss_func=lambda outputs, labels, **_: soft_cross_entropy(outputs.logits, labels),
)
trainer.loss_is_scaled_for_ga = False  # the loss is the mean of its minibatch, with gradient accumulation too
print(f"loss {trainer.train().training_loss:.3f}")
trainer.save_model(output)
