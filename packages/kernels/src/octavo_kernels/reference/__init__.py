"""What each op computes, in plain torch without tricks: the measure that faster ones are tested by."""
