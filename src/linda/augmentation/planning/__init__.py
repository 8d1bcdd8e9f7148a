"""Which rows are mixed, and at which ratio.

plan        the plan of new rows: row, partner, ratio, seed
balance     how many new rows each class needs, and a plan that spreads them evenly
neighbours  similar rows as partners
unlabelled  unlabelled texts as partners
run_plan    the plan of a run: given, drawn or balanced, as the settings say
"""
