"""What tests of Octavo and of its plugins share."""
