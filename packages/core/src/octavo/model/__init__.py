"""Where a model's files are, and what shape the model has."""
