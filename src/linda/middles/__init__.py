"""Training targets between two texts: searched for, not written.

ngrams     a trigram model that scores thousands of word sequences at once
seams      how well the end of one text follows the beginning of another, to the trigram model
rerank     which of the best reads best to a causal language model
making     corpora in, files of middles out; resumable
"""
