"""The engine: carry out the actions of a run's plan and feed the events back."""
