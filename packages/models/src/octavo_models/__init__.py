"""Models as pieces around attention, their weights, and the runner that drives them."""
