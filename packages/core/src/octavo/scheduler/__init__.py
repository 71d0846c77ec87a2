"""Which requests run in a step, and how many tokens each."""
