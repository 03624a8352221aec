"""Copy runs from one store to another."""
