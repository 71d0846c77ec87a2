"""What the engine hands out (token ids) on its way to text, stop strings and the choices of a prompt."""
