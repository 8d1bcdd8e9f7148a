"""Rows → plan: the rows of a labelled table, and which of them are mixed.

labels      labels of the rows, as distributions; several labels per row
examples    the rows of a table, checked; the columns that are added to them; unlabelled texts
plan        which rows are mixed, at which ratio and with which seed
balance     how many new rows each class needs, and a plan that spreads them evenly
neighbours  similar rows as partners
"""
