"""What a model will take of a device's memory, from its shape alone."""
