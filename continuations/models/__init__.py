"""The adapters that send a conversation to a model."""
