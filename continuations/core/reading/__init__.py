"""Events for applications, views, and the past: they follow from rows."""
