"""The runners, with a store and without."""
