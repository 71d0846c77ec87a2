"""Where the time of a step goes: clocks that are put around the engine's parts for a while, and what becomes of what they say."""
