"""`python -m linda`, which is what `accelerate launch -m linda` calls."""

from linda.cli import main

main()
