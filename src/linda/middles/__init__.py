"""Training targets between two texts ("middles"), found by search.

ngrams     a trigram model that scores thousands of word sequences at once
seams      how well the end of one text follows the beginning of another, under the trigram model
rerank     ranks the best candidates with a causal language model
making     corpora in, files of middles out; resumable
"""
