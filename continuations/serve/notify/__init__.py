"""Notifiers for a runner's `notify=`: `webhook`, `mail`, and `notifier.NotifyAll`."""
