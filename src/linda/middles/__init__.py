"""Training targets between two texts ("middles"), found by search.

ngrams     a trigram model that scores thousands of word sequences at once
seams      scores of seams between two texts under the trigram model
rerank     ranks the best candidates with a causal language model
making     makes files of middles from corpora; resumable
"""
