"""From files to parameters: readers of formats, the mapping of names, and the loader that joins them."""
