"""The books of KV memory: blocks, who holds them, and which prefixes they carry."""
