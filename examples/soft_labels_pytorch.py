"""Soft labels in a plain PyTorch loop.

linda augment train.csv --output bigger.parquet --partners any
python examples/soft_labels_pytorch.py bigger.parquet
"""

import sys

import numpy as np
import pandas as pd
import torch

from linda import soft_cross_entropy

frame = pd.read_parquet(sys.argv[1])
targets = torch.tensor(np.stack(frame["label_probs"]))  # (N, C) distributions

vocabulary = {word: number for number, word in enumerate(sorted({w for t in frame["text"] for w in t.lower().split()}))}
texts = [torch.tensor([vocabulary[word] for word in text.lower().split()]) for text in frame["text"]]

torch.manual_seed(0)
model = torch.nn.EmbeddingBag(len(vocabulary), targets.shape[1], mode="sum")  # a bag of words, straight to logits
optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
for epoch in range(10):
    for rows in torch.randperm(len(texts)).split(32):
        words = [texts[row] for row in rows]
        starts = torch.tensor([0, *map(len, words[:-1])]).cumsum(0)
        loss = soft_cross_entropy(model(torch.cat(words), starts), targets[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch}: loss {loss.item():.3f}")
