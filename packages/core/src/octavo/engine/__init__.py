"""The loop that turns requests into outputs, and the seams to what runs the model."""
