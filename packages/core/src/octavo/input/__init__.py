"""What users hand in (text, token ids, messages) on its way to validated requests of token ids."""
